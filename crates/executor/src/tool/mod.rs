//! The tools: what the runner can do for a driver, and how it says what it saw.
//!
//! ```text
//!   Registry -- validate --> Tool -- intend --> Effect   (written down before it starts)
//!                              |---- call ----> ToolOutcome with facts
//!                              +---- probe ---> what became of an effect after a crash
//!   Workspace, WriteScope, Environment: all that a tool can reach
//! ```
//!
//! A tool keeps no state of its own between calls.

pub mod builtin;
pub mod environment;
pub mod error;
pub mod folder;
mod guard;
pub mod observe;
pub mod process;
pub mod project;
pub mod registry;
mod resolve;
pub mod scan;
pub mod scope;
#[cfg(test)]
mod tests;
pub mod workspace;
pub mod write;

pub use environment::Environment;
pub use error::{ErrorCode, ToolError};
pub use folder::Folder;
pub use registry::{Registry, RegistryError};
pub use scope::WriteScope;
pub use workspace::{RelPath, Workspace};

use crate::fuse::timeout::Timing;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::json::Value;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::Fact;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a tool says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name decisions call it by.
    pub name: String,
    /// What it does and gives back, for whoever decides.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: serde_json::Value,
    /// What a call may do to the world.
    pub annotations: Annotations,
    /// Whether it walks a workspace, which takes a longer timeout.
    pub scan: bool,
    /// How long a call may take when nothing else is said.
    pub default_timeout: Duration,
}

/// What a call may do to the world; policy decides from this who must confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    /// It changes nothing.
    pub read_only: bool,
    /// It may overwrite or remove what was there.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It may reach beyond the workspace.
    pub open_world: bool,
}

impl Annotations {
    /// A tool that only looks.
    pub const READS: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false };
}

/// All that a tool can reach during one call. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Where the files are.
    pub folder: Arc<Folder>,
    /// What the step may write.
    pub write_scope: Arc<WriteScope>,
    /// What commands see of the environment.
    pub environment: Arc<Environment>,
    /// The call's idempotency key, the same in every repetition; a tool that can hand it on makes its
    /// effect once.
    pub call_id: Uuid,
    /// Whether the run's policy lets a command line go to a shell.
    pub shell_allowed: bool,
    /// When the call must have ended.
    pub deadline: Instant,
    /// Calls the call off.
    pub cancel: CancellationToken,
    /// Leaves a call that is called off no time to end itself.
    pub kill: CancellationToken,
}

impl ToolContext {
    /// The files.
    ///
    /// # Errors
    /// The folder cannot be made or opened.
    pub fn workspace(&self) -> Result<Arc<Workspace>, ToolError> {
        self.folder.workspace()
    }

    /// Whether the call may go on; long work asks again and again.
    ///
    /// # Errors
    /// `cancelled`, `timeout`.
    pub fn check(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            let message = "the call was called off before it ended";
            return Err(ToolError::new(ErrorCode::Cancelled, message));
        }
        if Instant::now() >= self.deadline {
            let message = "the deadline passed before the call ended; narrow it or allow more time";
            return Err(ToolError::new(ErrorCode::Timeout, message));
        }
        Ok(())
    }
}

/// What a call is about to do to the world, written down before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Nothing.
    None,
    /// One file gets this content.
    Write {
        /// Relative to the workspace's root.
        path: String,
        /// Hex SHA-256 of what is there now; none when nothing is.
        before_digest: Option<String>,
        /// Hex SHA-256 of what will be there; none for a deletion.
        after_digest: Option<String>,
    },
    /// Anything.
    Unknown,
}

/// What became of an effect whose call has no recorded outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It happened, and this is known from it.
    Happened(Vec<Fact>),
    /// The world is as it was before.
    DidNotHappen,
    /// Nothing certain can be said.
    Unknown,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// Whether it did what it was asked.
    pub success: bool,
    /// Why not; none when it did.
    pub error_code: Option<ErrorCode>,
    /// One line for a person.
    pub summary: String,
    /// The whole output, never cut.
    pub output: Vec<u8>,
    /// What is known now, in the order it was seen.
    pub facts: Vec<Fact>,
    /// Whether the deadline ended it.
    pub timed_out: bool,
}

impl ToolOutcome {
    /// A call that did what it was asked.
    pub fn done(summary: impl Into<String>, output: Vec<u8>, facts: Vec<Fact>) -> Self {
        Self {
            success: true,
            error_code: None,
            summary: summary.into(),
            output,
            facts,
            timed_out: false,
        }
    }

    /// A call that did not.
    pub fn failed(error: ToolError, output: Vec<u8>, facts: Vec<Fact>) -> Self {
        Self {
            success: false,
            error_code: Some(error.code),
            summary: error.message,
            output,
            facts,
            timed_out: error.code == ErrorCode::Timeout,
        }
    }

    /// Why the call failed, in words that hold nothing of its arguments: the code, and the exit
    /// code of a command that ended. None when it succeeded. The summary says more and belongs into
    /// the receipt only.
    pub fn failure(&self) -> Option<String> {
        if self.success {
            return None;
        }
        let code = self.error_code.map_or("it did not succeed", ErrorCode::as_str);
        let exit_code = self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Command { exit_code, .. } => Some(*exit_code),
            Fact::FileWritten { .. }
            | Fact::FileObserved { .. }
            | Fact::Content { .. }
            | Fact::Verification { .. }
            | Fact::Output { .. } => None,
        });
        Some(match exit_code {
            Some(exit_code) => format!("{code}, exit code {exit_code}"),
            None => code.to_owned(),
        })
    }
}

impl From<ToolError> for ToolOutcome {
    fn from(error: ToolError) -> Self {
        Self::failed(error, Vec::new(), Vec::new())
    }
}

/// One tool. Arguments have been validated against its schema before any method sees them.
pub trait Tool: Send + Sync {
    /// What it says about itself; the same at every call.
    fn spec(&self) -> &ToolSpec;

    /// What a call with these arguments would do to the world. It changes nothing; it may read
    /// files, so it blocks.
    ///
    /// # Errors
    /// The failure that the call itself would end with.
    fn intend(&self, _ctx: &ToolContext, _args: &Value) -> Result<Effect, ToolError> {
        Ok(if self.spec().annotations.read_only { Effect::None } else { Effect::Unknown })
    }

    /// Makes the call. Never panics, and ends soon after the deadline or the cancellation.
    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome>;

    /// Whether its facts name every file that a call writes. What other tools wrote is found out by
    /// comparing the workspace with what it was before the call.
    fn reports_writes(&self) -> bool {
        self.spec().annotations.read_only
    }

    /// What became of an effect that was written down and has no outcome. It may read files, so
    /// it blocks.
    fn probe(&self, ctx: &ToolContext, effect: &Effect) -> Probe {
        // What cannot be looked at is not known.
        ctx.workspace().map_or(Probe::Unknown, |workspace| effect.probe(&workspace))
    }

    /// How long the arguments themselves ask for, where a tool lets them.
    fn requested_timeout(&self, _args: &Value) -> Option<Duration> {
        None
    }

    /// The folder that a scan walks; none for other tools.
    fn scanned_folder(&self, _args: &Value) -> Option<String> {
        None
    }
}

/// What is known about the time of a call of this tool.
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
    /// Whether the effect happened, as far as the workspace tells.
    pub fn probe(&self, workspace: &Workspace) -> Probe {
        match self {
            Self::None => Probe::DidNotHappen,
            Self::Unknown => Probe::Unknown,
            Self::Write { path, before_digest, after_digest } => {
                let located = workspace.locate(path);
                let now = located.and_then(|path| Ok((workspace.digest(&path)?, path)));
                match now {
                    Ok((now, path)) if now == *after_digest => {
                        written(workspace, path, before_digest, after_digest)
                    }
                    Ok((now, _)) if now == *before_digest => Probe::DidNotHappen,
                    Ok(_) | Err(_) => Probe::Unknown,
                }
            }
        }
    }
}

/// The facts that the call itself would have told.
fn written(
    workspace: &Workspace,
    path: RelPath,
    before_digest: &Option<String>,
    after_digest: &Option<String>,
) -> Probe {
    let (before_digest, after_digest) = (before_digest.clone(), after_digest.clone());
    let Some(after_digest) = after_digest else {
        return Probe::Happened(vec![Fact::FileWritten {
            path: path.text(),
            before_digest,
            after_digest,
        }]);
    };
    match workspace.place(&path) {
        Ok(place) => Probe::Happened(
            write::Written { path, real: RelPath::real(place.real), before_digest, after_digest }
                .facts(),
        ),
        Err(_) => Probe::Unknown,
    }
}
