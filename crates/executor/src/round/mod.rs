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

mod added_data;
mod additions;
mod begin;
mod canary;
mod canary_memory;
mod canary_run;
mod command;
mod compare;
mod copy;
mod difference;
mod ended;
mod foreign;
mod hiding;
mod listening;
mod merge;
mod observation;
mod opening;
mod originals;
mod own_harness;
mod preparation;
mod prepare;
mod record;
mod recorded;
mod recording;
mod replaced;
mod repositories;
mod repository;
mod start_facts;
mod start_files;
mod tests_gone;
mod tests_seen;
mod threads;
mod view;
mod view_changes;
mod view_content;
mod view_folder;
mod view_kept;
mod view_layers;
mod view_time;
mod whole;

#[cfg(test)]
mod tests;

pub use additions::Additions;
pub use compare::{Start, counted};
pub use ended::{Ended, rules_text};
pub use opening::lines_with_originals;
pub use originals::{MAX_FILE as MAX_ORIGINAL, Originals};
pub use record::{EndedCall, Place, call_of, observing, receipt};
pub use start_facts::{Reading, StartFacts};
pub use view_folder::sweep_views;
pub use whole::{Begun, CarriedOut, Chain};

use crate::tool::{
    Environment, Folder, RunSecrets, RunServers, Sandbox, ToolContext, ToolError, ToolOutcome,
    WriteScope,
};
use additions::{ViewOrder, holds_with_all};
use canary_memory::{Memory, base_of};
use opening::{Given, Opening, line_with_originals};
use preparation::Preparation;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use surety_common::domain::check::Owner;
use surety_common::domain::check_inputs::{Exam, InputRules};
use surety_common::domain::manifest::Manifest;
use surety_common::domain::receipt::Inputs;
use surety_common::domain::verification::{Observation, Probe};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use view_folder::ViewFolder;

/// What a round works with.
#[derive(Debug)]
pub struct Setup {
    /// The workspace.
    pub folder: Arc<Folder>,
    /// The environment of commands.
    pub environment: Arc<Environment>,
    /// The sandbox of commands, with the policy of the run.
    pub sandbox: Arc<Sandbox>,
    /// What is taken out of the output of commands. No command of a round gets a secret.
    pub secrets: Arc<RunSecrets>,
    /// The workspace before the run; none when nothing could have written since.
    pub start: Result<Option<Start>, ToolError>,
    /// The last known snapshot: files that did not change since are not read again.
    pub latest: Option<Arc<Manifest>>,
    /// Which files are check inputs.
    pub rules: InputRules,
    /// What the request gives its checks beside the workspace.
    pub additions: Additions,
    /// The time limit of each probe.
    pub time_limit: Duration,
    /// Whether views are copies, because the workspace may be written while they are in use.
    pub copies: bool,
    /// The parent of the round's own spans, outside of a probe's; none where nothing is traced.
    pub span: tracing::Span,
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
    opening: OnceLock<Result<Opening, ToolError>>,
    /// The opening of a round whose workspace nothing could have changed.
    unopened: Opening,
    originals: OnceLock<Given>,
    /// Why they could not be taken.
    not_given: OnceLock<ToolError>,
    views: OnceLock<ViewFolder>,
    has_foreign_folders: OnceLock<bool>,
    memory: Mutex<Memory>,
    /// Files of the start that were read from git's objects.
    start_files: OnceLock<BTreeSet<Vec<u8>>>,
    preparation: Preparation,
}

impl Round {
    /// A round that has carried out nothing yet.
    pub fn new(mut setup: Setup) -> Arc<Self> {
        let latest = Mutex::new(setup.latest.take());
        Arc::new(Self {
            setup,
            latest,
            opening: OnceLock::new(),
            unopened: Opening::default(),
            originals: OnceLock::new(),
            not_given: OnceLock::new(),
            views: OnceLock::new(),
            has_foreign_folders: OnceLock::new(),
            memory: Mutex::default(),
            start_files: OnceLock::new(),
            preparation: Preparation::default(),
        })
    }

    /// With which check inputs a probe is carried out next, after runs with these inputs and results; none
    /// when they decide. A probe without a command has one run.
    ///
    /// A check of a user or an operator runs with the original check inputs. Where that fails, it runs with
    /// the ignored files of the steps as well; where steps changed check inputs, also on the workspace as
    /// they left it, at first without these files where no run has held with them. A check that holds then runs
    /// with failing tests, where its canary is due, and with the workspace of the start, where its test files spell
    /// more tests than ran.
    pub fn next_inputs(&self, probe: &Probe, so_far: &[(Inputs, bool)]) -> Option<Inputs> {
        let next = self.next_run(probe, so_far);
        next.or_else(|| {
            line_with_originals(probe)?;
            self.next_canary(probe, so_far).or_else(|| self.next_tests(probe, so_far))
        })
    }

    fn next_run(&self, probe: &Probe, so_far: &[(Inputs, bool)]) -> Option<Inputs> {
        let ran = |inputs| so_far.iter().find(|(ran, _)| *ran == inputs).map(|(_, held)| *held);
        if !runs_command(probe) {
            return so_far.is_empty().then_some(Inputs::Unstated);
        }
        let Some(line) = line_with_originals(probe) else {
            return so_far.is_empty().then_some(Inputs::AsLeft);
        };
        if matches!(probe.observation, Observation::Prepare(_)) || self.unprepared().is_some() {
            return so_far.is_empty().then_some(Inputs::Original);
        }
        let Some(held) = ran(Inputs::Original) else { return Some(Inputs::Original) };
        let opening = self.opening().ok()?;
        if !held && !opening.ignored.is_empty() && ran(Inputs::OriginalWithIgnored).is_none() {
            return Some(Inputs::OriginalWithIgnored);
        }
        let differs = opening.exams.get(line).is_some_and(Exam::differs)
            || self.merged_for(line).any(|(_, merged)| merged.differs());
        let as_left = differs && (ran(Inputs::AsLeft).is_none() || self.needs_ignored(so_far));
        as_left.then_some(Inputs::AsLeft).or_else(|| self.next_at_start(probe, so_far))
    }

    /// Whether a check failed on the workspace as steps left it, which had no ignored files of theirs. Then it runs
    /// with these as well.
    fn needs_ignored(&self, so_far: &[(Inputs, bool)]) -> bool {
        let mut as_left = so_far.iter().filter(|(inputs, _)| *inputs == Inputs::AsLeft);
        let failed_once = as_left.next().is_some_and(|(_, held)| !held) && as_left.next().is_none();
        let (_, installed) = self.installed();
        let more = |opening: &Opening| opening.ignored.iter().any(|path| !installed.contains(path));
        failed_once
            && !holds_with_all(so_far, !installed.is_empty())
            && self.opening().is_ok_and(more)
    }

    /// The project's own tests that fail run on the workspace of the start as well.
    fn next_at_start(&self, probe: &Probe, so_far: &[(Inputs, bool)]) -> Option<Inputs> {
        let is_done = so_far.iter().any(|(inputs, held)| *held || *inputs == Inputs::AtStart);
        let is_due = probe.observation == Observation::ProjectTests && !is_done;
        let could_fail = self.did_run(probe) || self.memory().lacks_program;
        (is_due && could_fail).then_some(Inputs::AtStart)
    }

    /// Carries out one probe with the inputs that [`Round::next_inputs`] says, after runs with these. `call_id`
    /// is the idempotency key of its command. Dropping the future ends the command.
    pub async fn probe(
        self: &Arc<Self>,
        probe: &Probe,
        inputs: Inputs,
        so_far: &[(Inputs, bool)],
        call_id: Uuid,
    ) -> ToolOutcome {
        let base = base_of(so_far).unwrap_or(Inputs::Original);
        match inputs {
            Inputs::Canary | Inputs::CanaryAtStart => {
                let ran = self.run_canary(probe, (inputs, base), call_id).await;
                return ran.unwrap_or_else(ToolOutcome::from);
            }
            Inputs::TestsAtStart => {
                let ran = self.run_tests_at_start(probe, base, call_id).await;
                return ran.unwrap_or_else(ToolOutcome::from);
            }
            Inputs::Unstated
            | Inputs::Original
            | Inputs::OriginalWithIgnored
            | Inputs::AsLeft
            | Inputs::AtStart => {}
        }
        let before = (so_far, !self.installed().1.is_empty());
        let observed = match &probe.observation {
            Observation::Change(globs) => return self.observe_change(globs).await,
            Observation::Prepare(_) => self.prepare_views(probe, inputs, call_id).await,
            Observation::Command(_) => {
                self.run_line(probe, ViewOrder::after(probe, inputs, before), call_id).await
            }
            Observation::Verification(verification) => {
                let order = ViewOrder::after(probe, inputs, before);
                self.run_line(probe, order, call_id).await.map(|mut outcome| {
                    outcome.facts.push(verification.fact(outcome.success));
                    outcome
                })
            }
            Observation::ProjectTests => {
                self.run_project_tests(probe, ViewOrder::after(probe, inputs, before), call_id)
                    .await
            }
            Observation::File { path, file_type } => {
                self.observe_file(path, *file_type, probe.owner).await
            }
            Observation::Content { path, needle } => {
                self.observe_content(path, needle, probe.owner).await
            }
        };
        observed.unwrap_or_else(ToolOutcome::from)
    }

    fn context(&self, call_id: Uuid) -> ToolContext {
        let Setup { folder, environment, sandbox, secrets, cancel, kill, time_limit, .. } =
            &self.setup;
        ToolContext {
            folder: Arc::clone(folder),
            write_scope: Arc::new(WriteScope::whole()),
            environment: Arc::new(environment_of_checks(environment)),
            sandbox: Arc::clone(sandbox),
            view: None,
            call_id,
            shell_allowed: false,
            verify_tools: Arc::default(),
            secrets: Arc::clone(secrets),
            servers: RunServers::default(),
            forge: crate::tool::RunForge::default(),
            deadline: Instant::now() + *time_limit,
            cancel: cancel.child_token(),
            kill: kill.clone(),
        }
    }
}

/// The environment of checks, which run in views.
fn environment_of_checks(environment: &Environment) -> Environment {
    environment
        .clone()
        // Without it Python writes byte code beside the tests, and what a product writes there would look the same.
        .holding("PYTHONDONTWRITEBYTECODE", "1")
        // A view is a file system of its own, and the repository may lie in a folder above it.
        .holding("GIT_DISCOVERY_ACROSS_FILESYSTEM", "1")
        // npm asks its registry for a newer npm, which a check does not ask for.
        .holding("NPM_CONFIG_UPDATE_NOTIFIER", "false")
}

/// Whether a probe starts a process.
pub const fn runs_command(probe: &Probe) -> bool {
    match probe.observation {
        Observation::Command(_)
        | Observation::Verification(_)
        | Observation::Prepare(_)
        | Observation::ProjectTests => true,
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
