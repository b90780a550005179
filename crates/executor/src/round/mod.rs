//! A verification round: carries out the runner's probes in one folder.
//!
//! ```text
//!   Probe -- Round::probe --> ToolOutcome with the facts of the receipt
//!     command, project tests --> run in the sandbox
//!     file, content          --> read from the workspace
//!     change                 --> compared with the workspace before the run
//! ```
//!
//! Nothing here needs a database, a lease or a run: the engine records what a probe observed, and a
//! command line without any service uses the same round. The caller decides the order of the probes.

mod command;
mod compare;
mod observation;
mod record;
mod tests_seen;
mod whole;

pub use compare::{Start, counted};
pub use record::{EndedCall, Place, call_of, observing, receipt};
pub use whole::{CarriedOut, Chain};

use crate::tool::{Environment, Folder, Sandbox, ToolContext, ToolError, ToolOutcome, WriteScope};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surety_common::domain::check::Owner;
use surety_common::domain::manifest::Manifest;
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::verification::{Observation, Probe};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a round works with.
#[derive(Debug)]
pub struct Setup {
    /// The workspace.
    pub folder: Arc<Folder>,
    /// The environment of commands.
    pub environment: Arc<Environment>,
    /// The sandbox of commands, with the policy of the run.
    pub sandbox: Arc<Sandbox>,
    /// The workspace before the run; none when nothing could have written since.
    pub start: Result<Option<Start>, ToolError>,
    /// The last known snapshot: files that did not change since are not read again.
    pub latest: Option<Arc<Manifest>>,
    /// The run's receipts before the round.
    pub receipts: Vec<EvidenceReceipt>,
    /// The time limit of each probe.
    pub time_limit: Duration,
    /// Cancels the probe.
    pub cancel: CancellationToken,
    /// Ends a cancelled command at once, without a grace period.
    pub kill: CancellationToken,
}

/// One verification round.
#[derive(Debug)]
pub struct Round {
    setup: Setup,
    latest: Mutex<Option<Arc<Manifest>>>,
}

impl Round {
    /// A round that has carried out nothing yet.
    pub fn new(mut setup: Setup) -> Self {
        let latest = Mutex::new(setup.latest.take());
        Self { setup, latest }
    }

    /// Carries out one probe. `call_id` is the idempotency key of its command. Dropping the future ends
    /// the command.
    pub async fn probe(&self, probe: &Probe, call_id: Uuid) -> ToolOutcome {
        let observed = match &probe.observation {
            Observation::Change(globs) => return self.observe_change(globs).await,
            Observation::Command(line) => self.run_line(line, probe.owner, call_id).await,
            Observation::ProjectTests => self.run_project_tests(call_id).await,
            Observation::File { path, file_type } => self.observe_file(path, *file_type).await,
            Observation::Content { path, needle } => self.observe_content(path, needle).await,
        };
        observed.unwrap_or_else(ToolOutcome::from)
    }

    fn context(&self, call_id: Uuid) -> ToolContext {
        let Setup { folder, environment, sandbox, cancel, kill, time_limit, .. } = &self.setup;
        ToolContext {
            folder: Arc::clone(folder),
            write_scope: Arc::new(WriteScope::whole()),
            environment: Arc::clone(environment),
            sandbox: Arc::clone(sandbox),
            call_id,
            shell_allowed: false,
            deadline: Instant::now() + *time_limit,
            cancel: cancel.child_token(),
            kill: kill.clone(),
        }
    }
}

/// Whether a probe starts a process.
pub const fn runs_command(probe: &Probe) -> bool {
    match probe.observation {
        Observation::Command(_) | Observation::ProjectTests => true,
        Observation::Change(_) | Observation::File { .. } | Observation::Content { .. } => false,
    }
}

/// Whether the author of a command is trusted with a shell.
const fn may_use_shell(owner: Owner) -> bool {
    match owner {
        Owner::Plan => false,
        Owner::User | Owner::Operator => true,
    }
}
