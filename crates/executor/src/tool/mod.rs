//! The tools: the actions that the runner executes for a driver, and the facts that they record.
//!
//! ```text
//!   Registry -- validate --> Tool -- intend --> Effect   (recorded before it starts)
//!                              |---- call ----> ToolOutcome with facts
//!                              +---- probe ---> the result of an effect after a crash
//!   Workspace, WriteScope, Environment: all that a tool can access
//! ```
//!
//! A tool has no state between calls.

mod aliases;
pub mod builtin;
pub mod environment;
pub mod error;
pub mod folder;
mod listed;
mod matching;
pub mod mcp;
pub mod observe;
pub mod process;
mod programs;
pub mod project;
pub mod registry;
mod resolve;
mod run_forge;
mod run_tool;
pub mod sandbox;
pub mod scan;
pub mod scope;
mod secrets;
#[cfg(test)]
mod tests;
mod toolbox;
mod worker_tool;
pub mod workspace;
pub mod write;

pub use aliases::AliasError;
pub use builtin::BuiltinSettings;
pub use builtin::verify::VerifyTools;
pub use environment::Environment;
pub(crate) use error::if_readable;
pub use error::{ErrorCode, ToolError};
pub use folder::Folder;
pub(crate) use listed::shown;
pub use mcp::{McpError, McpHost, RunServers};
pub use programs::{missing_program, program_folders, word_of_bash};
pub use registry::{Registry, RegistryError};
pub use run_forge::{FindForge, ForgeOfTask, NewReport, RunForge, StoreReport};
pub(crate) use run_forge::{failed, unavailable};
pub use run_tool::{ALWAYS_ALLOWED, RunTool};
pub use sandbox::{Attached, Participant, Sandbox, SandboxError};
pub use scope::{Ignored, WriteScope};
pub use secrets::{RunSecrets, Secrets, SecretsError};
pub(crate) use secrets::{redacted, secret_file};
pub use toolbox::{Toolbox, ToolboxTimes};
pub use worker_tool::{WorkerSpec, WorkerTool};
pub use workspace::{RelPath, Workspace};

use crate::fuse::timeout::Timing;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::confirmation::ToolEffects;
use surety_common::domain::json::Value;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::{self, Fact};
use surety_common::domain::redact::RedactedStream;
use surety_sandbox::View;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The description of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name in decisions.
    pub name: String,
    /// What it does and returns, for the driver.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: serde_json::Value,
    /// The possible effects of a call.
    pub annotations: Annotations,
    /// Whether it scans a workspace, which has a longer time limit.
    pub scan: bool,
    /// The default time limit of a call.
    pub default_timeout: Duration,
    /// A short sample of what it returns; may be empty.
    pub return_sample: Cow<'static, str>,
}

/// The possible effects of a call; policy decides from this whether a confirmation is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// It changes nothing outside the rows of its run.
    pub read_only: bool,
    /// It may overwrite or remove existing data.
    pub destructive: bool,
    /// A repeated call with the same arguments has no further effect.
    pub idempotent: bool,
    /// It may have effects outside the workspace.
    pub open_world: bool,
}

impl Annotations {
    /// A tool that only reads.
    pub const READS: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false };

    /// Whether a call may be made again without a question.
    pub const fn may_repeat(self) -> bool {
        self.read_only || self.idempotent
    }

    /// Those that policies of confirmations ask about.
    pub const fn effects(self) -> ToolEffects {
        let Self { read_only, destructive, open_world, idempotent: _ } = self;
        ToolEffects { read_only, destructive, open_world }
    }
}

/// All that a tool can access during one call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The run's folder.
    pub folder: Arc<Folder>,
    /// The paths that the step may write.
    pub write_scope: Arc<WriteScope>,
    /// The environment of commands.
    pub environment: Arc<Environment>,
    /// The sandbox of commands.
    pub sandbox: Arc<Sandbox>,
    /// What of the workspace its commands see; none for the workspace itself.
    pub view: Option<Arc<View>>,
    /// The call's idempotency key, the same in every repetition. A tool that can pass it on has its
    /// effect once.
    pub call_id: Uuid,
    /// Whether the run's policy allows a command line for a shell.
    pub shell_allowed: bool,
    /// The verification commands that users and operators named for the run.
    pub verify_tools: Arc<VerifyTools>,
    /// The secrets that the call may use.
    pub secrets: Arc<RunSecrets>,
    /// The MCP servers of the run.
    pub servers: RunServers,
    /// The forge of a run that is a task.
    pub forge: RunForge,
    /// The time by which the call must end.
    pub deadline: Instant,
    /// Cancels the call.
    pub cancel: CancellationToken,
    /// Ends a cancelled call at once, without a grace period.
    pub kill: CancellationToken,
}

impl ToolContext {
    /// The workspace.
    ///
    /// # Errors
    /// The folder cannot be created or opened.
    pub fn workspace(&self) -> Result<Arc<Workspace>, ToolError> {
        self.folder.workspace()
    }

    /// What takes secrets out of an output while it is read; none where there are no secrets.
    pub(super) fn redacted_stream(&self) -> Option<RedactedStream> {
        let redactor = self.secrets.redactor();
        (!redactor.is_empty()).then(|| RedactedStream::new(Arc::clone(redactor)))
    }

    /// Whether the call may continue; long work checks it repeatedly.
    ///
    /// # Errors
    /// `cancelled`, `timeout`.
    pub fn check(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            let message = "the call was cancelled before it ended";
            return Err(ToolError::new(ErrorCode::Cancelled, message));
        }
        if Instant::now() >= self.deadline {
            let message = "the deadline passed before the call ended; narrow it or allow more time";
            return Err(ToolError::new(ErrorCode::Timeout, message));
        }
        Ok(())
    }
}

/// The effect of a call, recorded before the call starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Nothing.
    None,
    /// One file gets this content.
    Write {
        /// Relative to the workspace's root.
        path: String,
        /// The SHA-256 of the current content in hexadecimal; none when there is no file.
        before_digest: Option<String>,
        /// The SHA-256 of the new content in hexadecimal; none for a deletion.
        after_digest: Option<String>,
    },
    /// Several files change, all or none.
    Writes {
        /// Each file, once.
        files: Vec<FileWrite>,
    },
    /// Any effect.
    Unknown,
}

/// The change of one of several files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWrite {
    /// Relative to the workspace's root.
    pub path: String,
    /// The SHA-256 of the current content in hexadecimal; none when there is no file.
    pub before_digest: Option<String>,
    /// The SHA-256 of the new content in hexadecimal; none for a deletion.
    pub after_digest: Option<String>,
}

/// The result of an effect whose call has no recorded outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It happened, and these facts are known.
    Happened(Vec<Fact>),
    /// It did not happen.
    DidNotHappen,
    /// Unknown.
    Unknown,
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// Whether it succeeded.
    pub success: bool,
    /// Why it failed; none when it succeeded.
    pub error_code: Option<ErrorCode>,
    /// One line for people.
    pub summary: String,
    /// The whole output, never truncated.
    pub output: Vec<u8>,
    /// The facts in the order of observation.
    pub facts: Vec<Fact>,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// What confined the command that ran; empty when none did.
    pub sandbox: String,
    /// Further outputs, such as images; kept beside the output.
    pub attachments: Vec<Attachment>,
}

/// A further output of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its bytes.
    pub body: Vec<u8>,
}

impl ToolOutcome {
    /// The outcome of a call that succeeded.
    pub fn done(summary: impl Into<String>, output: Vec<u8>, facts: Vec<Fact>) -> Self {
        Self {
            success: true,
            error_code: None,
            summary: summary.into(),
            output,
            facts,
            timed_out: false,
            sandbox: String::new(),
            attachments: Vec::new(),
        }
    }

    /// The outcome of a call that failed.
    pub fn failed(error: ToolError, output: Vec<u8>, facts: Vec<Fact>) -> Self {
        Self {
            success: false,
            error_code: Some(error.code),
            summary: error.message,
            output,
            facts,
            timed_out: error.code == ErrorCode::Timeout,
            sandbox: String::new(),
            attachments: Vec::new(),
        }
    }

    /// Why the call failed, without any part of its arguments: the code, and a command's exit code.
    /// None when it succeeded. The summary has the details and is only for the receipt.
    pub fn failure(&self) -> Option<String> {
        if self.success {
            return None;
        }
        let code = self.error_code.map_or("failed", ErrorCode::as_str);
        Some(match self.exit_code() {
            Some(exit_code) => format!("{code}, exit code {exit_code}"),
            None => code.to_owned(),
        })
    }

    /// The exit code of its last command; none when it ran none to its end.
    pub fn exit_code(&self) -> Option<i32> {
        receipt::exit_code(self.facts.iter())
    }
}

impl From<ToolError> for ToolOutcome {
    fn from(error: ToolError) -> Self {
        Self::failed(error, Vec::new(), Vec::new())
    }
}

/// One tool. Arguments are validated against its schema before a method is called with them.
pub trait Tool: Send + Sync {
    /// Its description; the same for every call.
    fn spec(&self) -> &ToolSpec;

    /// The effect that a call with these arguments would have. It changes nothing; it may read
    /// files, so it blocks.
    ///
    /// # Errors
    /// The failure that the call itself would have.
    fn intend(&self, _ctx: &ToolContext, _args: &Value) -> Result<Effect, ToolError> {
        Ok(if self.spec().annotations.read_only { Effect::None } else { Effect::Unknown })
    }

    /// Makes the call. Never panics, and ends soon after the deadline or the cancellation.
    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome>;

    /// Whether its facts name every file that a call writes. What other tools wrote is found out by
    /// comparing the workspace with what it was before the call.
    fn reports_writes(&self) -> bool {
        !self.may_write()
    }

    /// Whether a call may write in the workspace, whatever its annotations say: then its intent is stored first.
    fn may_write(&self) -> bool {
        !self.spec().annotations.read_only
    }

    /// Whether code that is none of this executor runs in the workspace during a call. Probes of a step wait for it.
    fn runs_code(&self) -> bool {
        self.may_write()
    }

    /// Whose words its outcome is; none for what the runner itself saw.
    fn witness(&self) -> Option<&str> {
        None
    }

    /// The result of an effect that was recorded and has no outcome. It may read files, so it
    /// blocks.
    fn probe(&self, ctx: &ToolContext, effect: &Effect) -> Probe {
        // If the workspace cannot be read, the result is unknown.
        ctx.workspace().map_or(Probe::Unknown, |workspace| effect.probe(&workspace))
    }

    /// The time limit that the arguments request, if the tool supports it.
    fn requested_timeout(&self, _args: &Value) -> Option<Duration> {
        None
    }

    /// The folder that a scan walks; none for other tools.
    fn scanned_folder(&self, _args: &Value) -> Option<String> {
        None
    }
}

/// The time limit of a call of this tool.
pub fn timing(tool: &dyn Tool, call: &ToolCall) -> Timing {
    let spec = tool.spec();
    let base = tool.requested_timeout(&call.arguments).unwrap_or(spec.default_timeout);
    let folder = tool.scanned_folder(&call.arguments).filter(|_| spec.scan);
    Timing::of(call, Some(base.as_secs()), folder.as_deref())
}

impl fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tool").field(&self.spec().name).finish()
    }
}

impl Effect {
    /// Whether the effect happened, according to the workspace.
    pub fn probe(&self, workspace: &Workspace) -> Probe {
        match self {
            Self::None => Probe::DidNotHappen,
            Self::Unknown => Probe::Unknown,
            Self::Write { path, before_digest, after_digest } => {
                probe_write(workspace, path, before_digest, after_digest)
            }
            Self::Writes { files } => probe_writes(workspace, files),
        }
    }
}

fn probe_write(
    workspace: &Workspace,
    path: &str,
    before_digest: &Option<String>,
    after_digest: &Option<String>,
) -> Probe {
    let located = workspace.locate(path);
    match located.and_then(|path| Ok((workspace.digest(&path)?, path))) {
        Ok((now, path)) if now == *after_digest => {
            written(workspace, path, before_digest, after_digest)
        }
        Ok((now, _)) if now == *before_digest => Probe::DidNotHappen,
        Ok(_) | Err(_) => Probe::Unknown,
    }
}

/// All files changed, none did, or it is unknown: a machine that stopped in between left some of them changed.
fn probe_writes(workspace: &Workspace, files: &[FileWrite]) -> Probe {
    let mut happened = Vec::new();
    let mut unchanged = 0;
    for file in files {
        match probe_write(workspace, &file.path, &file.before_digest, &file.after_digest) {
            Probe::Happened(facts) => happened.push(facts),
            Probe::DidNotHappen => unchanged += 1,
            Probe::Unknown => return Probe::Unknown,
        }
    }
    match (happened.is_empty(), unchanged) {
        (true, _) => Probe::DidNotHappen,
        (false, 0) => Probe::Happened(happened.concat()),
        (false, _) => Probe::Unknown,
    }
}

/// The facts that the call itself would have recorded.
fn written(
    workspace: &Workspace,
    path: RelPath,
    before_digest: &Option<String>,
    after_digest: &Option<String>,
) -> Probe {
    let (before_digest, after_digest) = (before_digest.clone(), after_digest.clone());
    if after_digest.is_none() {
        return Probe::Happened(vec![Fact::FileWritten {
            path: path.text(),
            before_digest,
            after_digest,
        }]);
    }
    match workspace.place(&path) {
        Ok(place) => Probe::Happened(
            write::Written { path, real: RelPath::real(place.real), before_digest, after_digest }
                .facts(),
        ),
        Err(_) => Probe::Unknown,
    }
}
