//! What operators ask of every run of a namespace. A request can only tighten it.

mod admission;
mod prepare;
mod stored;
#[cfg(test)]
mod tests;

pub use prepare::read_prepare;

use crate::domain::caution::check_codes;
use crate::domain::check::{
    AcceptCheck, Author, Overlay, OverlayFiles, Owner, read_checks, validate_check,
};
use crate::domain::check_inputs::read_globs;
use crate::domain::confirmation::read_tools;
use crate::domain::json::Value;
use crate::domain::limits::Limits;
use crate::domain::problem::{Code, Problem};
use crate::domain::run::{InDoubt, Policy};
use crate::domain::tool_workers::{ToolWorkerPolicy, check_entries};
use crate::domain::verification::Verification;
use crate::domain::verify_tool::{VerifyTool, read_verify_tools};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The most checks that a namespace may ask of a run.
const MAX_CHECKS: usize = 100;
/// All files of the hidden checks of a namespace, in bytes.
const MAX_OVERLAYS: usize = 4 << 20;
/// The most folders in which a namespace's workspaces lie.
const MAX_ROOTS: usize = 100;

/// The policy of a namespace. The default asks nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamespacePolicy {
    /// The highest value of a limit, by the limit's name.
    pub ceilings: BTreeMap<String, u64>,
    /// Whether a second person has to approve what the first one requested.
    pub four_eyes: bool,
    /// Whether every check's command is run by the runner itself: `receipts_only` is refused.
    pub refuse_receipts_only: bool,
    /// Whether no run may declare commands that are safe to run again.
    pub refuse_repeatable_commands: bool,
    /// Checks of every run, in front of its plan's, with the owner `operator`.
    pub checks: Vec<AcceptCheck>,
    /// Whether commands reach no network.
    pub refuse_network: bool,
    /// Whether no run may have commands without a sandbox.
    pub refuse_unsandboxed: bool,
    /// Whether commands of every run need the sandbox's level full.
    pub require_full_sandbox: bool,
    /// Whether a verdict that rests on checks of the plan alone is refused for every run.
    pub require_independent: bool,
    /// The folders in which workspaces lie; empty allows every folder.
    pub workspace_roots: Vec<String>,
    /// The most lenient value of a run's `in_doubt`; none allows every one.
    pub in_doubt: Option<InDoubt>,
    /// Cautions that refuse in every run.
    pub refuse_on: Vec<String>,
    /// Globs of check inputs of every run.
    pub protect: Vec<String>,
    /// Whether no run may name check inputs that it changes.
    pub refuse_may_change: bool,
    /// Globs that bound what runs may change; empty bounds nothing.
    pub may_change_within: Vec<String>,
    /// Lines that prepare the view of every run's checks, before those of the run.
    pub prepare: Vec<String>,
    /// Names and patterns of tools of which each call needs a confirmation in every run.
    pub confirm_tools: Vec<String>,
    /// Whether calls of every tool that may destroy data need one.
    pub confirm_destructive: bool,
    /// Whether calls of every tool with effects outside the workspace need one.
    pub confirm_open_world: bool,
    /// Which identities may serve which tools as workers.
    pub tool_workers: Vec<ToolWorkerPolicy>,
    /// Verification commands of every run.
    pub verify_tools: Vec<VerifyTool>,
}

impl NamespacePolicy {
    /// The keys that have an effect; any other is refused when the policy is set.
    pub const KEYS: [&str; 21] = [
        "ceilings",
        "checks",
        "confirm_destructive",
        "confirm_open_world",
        "confirm_tools",
        "four_eyes",
        "in_doubt",
        "may_change_within",
        "prepare",
        "protect",
        "refuse_may_change",
        "refuse_network",
        "refuse_on",
        "refuse_receipts_only",
        "refuse_repeatable_commands",
        "refuse_unsandboxed",
        "require_full_sandbox",
        "require_independent",
        "tool_workers",
        "verify_tools",
        "workspace_roots",
    ];

    /// Looks at the whole policy, and brings its checks into their one form.
    ///
    /// # Errors
    /// `limit_out_of_range` for a ceiling of no limit
    /// or outside the limit's range; `too_large` for too many checks, folders or bytes of overlays;
    /// `overlay_unknown` for an overlay without its files ([`Self::with_known_overlays`]);
    /// `type_mismatch` for a folder that is no absolute path and for a name that is no caution; the codes of
    /// checks.
    pub fn validated(mut self) -> Result<Self, Problem> {
        for (name, ceiling) in &self.ceilings {
            let at = |message: String| {
                Problem::at(Code::LimitOutOfRange, format!("ceilings.{name}"), message)
            };
            let (low, high) = Limits::range_of(name)
                .ok_or_else(|| at(format!("{name:?} is no limit of a run")))?;
            if !(low..=high).contains(ceiling) {
                return Err(at(format!(
                    "{ceiling} is outside {low}..{high}; choose a value inside"
                )));
            }
        }
        if self.checks.len() > MAX_CHECKS {
            let message = format!("has more than {MAX_CHECKS} checks; leave some out");
            return Err(Problem::at(Code::TooLarge, "checks", message));
        }
        check_roots(&self.workspace_roots)?;
        self.refuse_on = check_codes("refuse_on", self.refuse_on)?;
        read_globs("protect", &self.protect)?;
        read_globs("may_change_within", &self.may_change_within)?;
        self.prepare = read_prepare("prepare", self.prepare)?;
        self.confirm_tools = read_tools("confirm_tools", self.confirm_tools)?;
        check_entries("tool_workers", &self.tool_workers)?;
        self.verify_tools = read_verify_tools("verify_tools", self.verify_tools)?;
        let stored = Value::Array(self.checks.iter().map(AcceptCheck::to_json).collect());
        let (checks, _) = read_checks(&stored, "checks", Author::Operator)?;
        let checks: Vec<_> = checks.into_iter().map(of_operator).collect();
        let known: Vec<_> = self.checks.iter().map(|check| check.overlay.clone()).collect();
        self.checks = with_overlays(checks, &known);
        self.check_overlays()?;
        self.check_verifications()?;
        Ok(self)
    }

    /// With the files of overlays that the stored policy has under the same digests: answers and requests to
    /// change another key name them by their digests alone.
    #[must_use]
    pub fn with_known_overlays(self, stored: &Self) -> Self {
        let known: Vec<_> = stored.checks.iter().map(|check| check.overlay.clone()).collect();
        self.with_overlays(&known)
    }

    /// With the files of these overlays, where a check names their digests.
    #[must_use]
    pub fn with_overlays(mut self, overlays: &[Overlay]) -> Self {
        self.checks = with_overlays(self.checks, overlays);
        self
    }

    /// The files of every hidden check, by their digests.
    pub fn overlays(&self) -> BTreeMap<&str, &OverlayFiles> {
        let files = self
            .checks
            .iter()
            .filter_map(|check| Some((check.overlay.digest(), check.overlay.files()?.as_ref())));
        files.collect()
    }

    /// A check of every run can only name commands that every run has.
    fn check_verifications(&self) -> Result<(), Problem> {
        let always_verify_tools = self.verify_tools.clone();
        let policy = Policy { always_verify_tools, ..Policy::default() };
        for (index, check) in self.checks.iter().enumerate() {
            Verification::of_check(check, &policy)
                .map_err(|problem| problem.under(&format!("checks[{index}].params")))?;
        }
        Ok(())
    }

    fn check_overlays(&self) -> Result<(), Problem> {
        for (index, check) in self.checks.iter().enumerate() {
            let path = format!("checks[{index}]");
            validate_check(check, &path)?;
            if check.is_hidden() && check.overlay.files().is_none() {
                let message = "the policy has no overlay with this digest; send the files";
                return Err(Problem::at(Code::OverlayUnknown, format!("{path}.overlay"), message));
            }
        }
        let sizes = self.overlays().into_values().flat_map(BTreeMap::values).map(Vec::len);
        let bytes: usize = sizes.sum();
        if bytes > MAX_OVERLAYS {
            let message = format!(
                "its hidden checks have {bytes} bytes of files; at most {MAX_OVERLAYS} are kept"
            );
            return Err(Problem::at(Code::TooLarge, "checks", message));
        }
        Ok(())
    }
}

fn check_roots(roots: &[String]) -> Result<(), Problem> {
    if roots.len() > MAX_ROOTS {
        let message = format!("has more than {MAX_ROOTS} folders; leave some out");
        return Err(Problem::at(Code::TooLarge, "workspace_roots", message));
    }
    for (index, root) in roots.iter().enumerate() {
        let path = Path::new(root);
        let climbs = path.components().any(|part| part == Component::ParentDir);
        if !path.is_absolute() || climbs {
            let message = format!("{root:?} is not an absolute path without `..`; write it so");
            let field = format!("workspace_roots[{index}]");
            return Err(Problem::at(Code::TypeMismatch, field, message));
        }
    }
    Ok(())
}

/// Gives checks the files of their overlays, where these are known.
fn with_overlays(mut checks: Vec<AcceptCheck>, known: &[Overlay]) -> Vec<AcceptCheck> {
    for check in checks.iter_mut().filter(|check| check.is_hidden()) {
        let same = known.iter().find(|it| it.files().is_some() && **it == check.overlay);
        if let Some(same) = same.filter(|_| check.overlay.files().is_none()) {
            check.overlay = same.clone();
        }
    }
    checks
}

fn of_operator(check: AcceptCheck) -> AcceptCheck {
    AcceptCheck { owner: Owner::Operator, ..check }
}
