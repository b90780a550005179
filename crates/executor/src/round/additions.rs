//! What a round has beside the workspace and its start.

use super::canary_memory::Hosts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::check::{OverlayFiles, Owner};
use surety_common::domain::receipt::Inputs;
use surety_common::domain::run::CanaryPolicy;
use surety_common::domain::verification::{Observation, Probe};

/// What a request gives the checks of a round.
#[derive(Debug, Clone)]
pub struct Additions {
    /// The files of hidden checks, by the digests that probes name.
    pub overlays: BTreeMap<String, Arc<OverlayFiles>>,
    /// When checks run with failing tests as well.
    pub canary: CanaryPolicy,
}

impl Default for Additions {
    /// Nothing beside the workspace, and no canary.
    fn default() -> Self {
        Self { overlays: BTreeMap::new(), canary: CanaryPolicy::Never }
    }
}

/// What a view of the workspace as steps left it has of the ignored files that they wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoredAsLeft {
    /// All: an earlier run had all of them, and names them where they decide.
    All,
    /// All, and the receipt of this run names them.
    AllAndNamed,
    /// What the package managers of changed manifests installed.
    Installed,
}

/// Whether a check holds with the original check inputs and all ignored files of the steps, which its receipt names. Beside
/// a dependency that was added, that run has what package managers installed, and no other of them.
pub(super) fn holds_with_all(so_far: &[(Inputs, bool)], has_installed: bool) -> bool {
    !has_installed && so_far.contains(&(Inputs::OriginalWithIgnored, true))
}

/// What the view of one command is made for.
#[derive(Debug, Clone)]
pub(super) struct ViewOrder {
    /// The id of the check.
    pub(super) check: String,
    /// The owner of the check.
    pub(super) owner: Owner,
    /// Its line; empty for the project's own tests.
    pub(super) line: String,
    /// The check inputs that it gets.
    pub(super) inputs: Inputs,
    /// The digest of the files that only this view has; empty for none.
    pub(super) overlay: String,
    /// Whether the command runs without a sandbox, in a copy.
    pub(super) unconfined: bool,
    /// The failing tests that it has.
    pub(super) canary: Option<Arc<Hosts>>,
    /// Whether the command is the check itself, and none about its runner.
    pub(super) is_check: bool,
    /// Whether it prepares the views of the commands after it.
    pub(super) prepares: bool,
    /// What a view of the workspace as steps left it has of the ignored files that they wrote.
    pub(super) ignored: IgnoredAsLeft,
    /// The time limit of the command; none for that of the round.
    pub(super) time_limit: Option<Duration>,
}

impl ViewOrder {
    /// The view of a probe that runs a command, after runs with these inputs and results. `has_installed` says that package
    /// managers installed what manifests were changed for.
    ///
    /// On the workspace as steps left it, a check with original check inputs gets their ignored files only where it
    /// does not hold without them, or where a run before it named all of them and held.
    pub(super) fn after(
        probe: &Probe,
        inputs: Inputs,
        (so_far, has_installed): (&[(Inputs, bool)], bool),
    ) -> Self {
        let ran = |wanted| so_far.iter().any(|(inputs, _)| *inputs == wanted);
        let ignored = if !ran(Inputs::Original) || holds_with_all(so_far, has_installed) {
            IgnoredAsLeft::All
        } else if ran(Inputs::AsLeft) {
            IgnoredAsLeft::AllAndNamed
        } else {
            IgnoredAsLeft::Installed
        };
        Self { ignored, ..Self::of(probe, inputs) }
    }

    /// The view of a probe that runs a command.
    pub(super) fn of(probe: &Probe, inputs: Inputs) -> Self {
        let line = match &probe.observation {
            Observation::Command(line) | Observation::Prepare(line) => line.clone(),
            Observation::Verification(verification) => verification.line.clone(),
            Observation::ProjectTests
            | Observation::Change(_)
            | Observation::File { .. }
            | Observation::Content { .. } => String::new(),
        };
        let (owner, overlay) = (probe.owner, probe.overlay.clone());
        let prepares = matches!(probe.observation, Observation::Prepare(_));
        let time_limit = match &probe.observation {
            Observation::Verification(it) => it.timeout_s.map(Duration::from_secs),
            Observation::Command(_)
            | Observation::Prepare(_)
            | Observation::ProjectTests
            | Observation::Change(_)
            | Observation::File { .. }
            | Observation::Content { .. } => None,
        };
        Self {
            check: probe.check_id.clone(),
            owner,
            line,
            inputs,
            overlay,
            unconfined: probe.unconfined,
            canary: None,
            is_check: true,
            prepares,
            ignored: IgnoredAsLeft::All,
            time_limit,
        }
    }

    /// The view of a command about the runner of a probe.
    pub(super) fn beside(probe: &Probe, inputs: Inputs) -> Self {
        Self { is_check: false, ..Self::of(probe, inputs) }
    }

    /// Whether later commands of this owner find what this one wrote to ignored paths. A copy keeps nothing that an overlay
    /// could use.
    pub(super) fn is_kept(&self) -> bool {
        let is_first = self.sees_earlier() && self.overlay.is_empty() && self.is_check;
        (is_first || self.prepares) && !self.unconfined
    }

    /// Whether this command finds what earlier checks of this owner wrote to ignored paths. What the first run of its own check
    /// wrote no further run finds: a product could tell them apart by it.
    pub(super) fn sees_earlier(&self) -> bool {
        // A plan's command without original check inputs runs once.
        let is_of_plan = self.owner == Owner::Plan && self.inputs == Inputs::AsLeft;
        (self.inputs == Inputs::Original || is_of_plan) && !self.unconfined
    }
}

/// The permissions of a file of an overlay: a script can be started.
pub(super) fn mode_of(content: &[u8]) -> u32 {
    if content.starts_with(b"#!") { 0o755 } else { 0o644 }
}
