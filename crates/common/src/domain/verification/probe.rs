//! What the runner observes, by the checks of a plan and the policy of the run.

use super::hidden::{HIDDEN_CHECK, OPERATORS_HIDDEN_CHECK};
use super::named::{Verification, is_verification};
use super::project_tests::PROJECT_TESTS_CHECK;
use crate::domain::check::{
    AcceptCheck, CheckKind, FileType, Owner, changed_paths, check_key, is_thin,
};
use crate::domain::run::{Policy, VerifyCommands};

/// What the check ids of the lines of `policy.prepare` begin with; their number in brackets follows.
pub const PREPARE_CHECK: &str = "system.prepare";

/// One observation of the runner before the gate decides, for one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The check that it decides, as [`check_key`] names it.
    pub check_id: String,
    /// The owner of the check. The commands of owners with less trust run first.
    pub owner: Owner,
    /// What is observed.
    pub observation: Observation,
    /// The digest of the files that only the view of this check has; empty for none.
    pub overlay: String,
    /// Whether its command runs without a sandbox, as its author asks for.
    pub unconfined: bool,
}

impl Probe {
    /// Whether participants see nothing of it but its result.
    pub const fn is_hidden(&self) -> bool {
        !self.overlay.is_empty()
    }

    /// The name of its command in receipts, where it is hidden.
    pub const fn hidden_name(&self) -> Option<&'static str> {
        match (self.is_hidden(), self.owner) {
            (false, _) => None,
            (true, Owner::Operator) => Some(OPERATORS_HIDDEN_CHECK),
            (true, Owner::Plan | Owner::User) => Some(HIDDEN_CHECK),
        }
    }
}

/// What the runner observes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// Compares the workspace with its state before the run, at paths that match these globs, or at
    /// all that are not ignored.
    Change(Vec<String>),
    /// Runs a line of `policy.prepare`. What it writes to ignored paths is there for later commands.
    Prepare(String),
    /// Runs a command of a check, exactly as written.
    Command(String),
    /// Runs a named verification command.
    Verification(Verification),
    /// Runs the project's own test command, because files were written and no required check names a
    /// command.
    ProjectTests,
    /// Observes whether a path exists.
    File {
        /// The path, or a glob where no file has that name.
        path: String,
        /// What must stand there.
        file_type: FileType,
    },
    /// Searches a file for a text.
    Content {
        /// The file, or a glob where no file has that name.
        path: String,
        /// The text.
        needle: String,
    },
}

/// The observations for a plan's checks, one for each check. The comparison of the workspace is first,
/// because commands write too; then the commands, those of the plan before those of the operator and
/// those of the user, with the lines that prepare the view before these two; files are last, because commands
/// may create them.
pub fn probes(checks: &[AcceptCheck], policy: &Policy, wrote_files: bool) -> Vec<Probe> {
    let of = |wanted: fn(&AcceptCheck) -> Option<Observation>| {
        let probes = checks.iter().enumerate().filter_map(move |(index, check)| {
            let observation = wanted(check)?;
            let check_id = check_key(checks, index);
            let overlay = check.overlay.digest().to_owned();
            let (owner, unconfined) = (check.owner, check.is_unconfined());
            Some(Probe { check_id, owner, observation, overlay, unconfined })
        });
        probes.collect::<Vec<_>>()
    };
    let mut probes = Vec::new();
    let mut commands = Vec::new();
    if policy.verify_commands == VerifyCommands::Runner {
        probes.extend(of(change));
        commands.extend(of(command));
        commands.extend(verifications(checks, policy));
        // The command of an owner that is trusted less cannot see what one that is trusted more left.
        commands.sort_by_key(|probe| probe.owner);
    }
    if wants_project_tests(checks, policy.verify_commands, wrote_files) {
        commands.push(Probe {
            check_id: PROJECT_TESTS_CHECK.to_owned(),
            owner: Owner::Operator,
            observation: Observation::ProjectTests,
            overlay: String::new(),
            unconfined: false,
        });
    }
    // Commands of the plan run in the workspace as it was left.
    if let Some(first) = commands.iter().position(|probe| probe.owner != Owner::Plan) {
        commands.splice(first..first, preparing(policy));
    }
    probes.extend(commands);
    probes.extend(of(file));
    probes
}

/// The named commands that checks ask for, one probe each. Each belongs to the owner of its command, so a check of
/// the plan gets the original check inputs, too. The creation of a run refuses a check without a command.
fn verifications<'c>(
    checks: &'c [AcceptCheck],
    policy: &'c Policy,
) -> impl Iterator<Item = Probe> + 'c {
    checks.iter().enumerate().filter_map(|(index, check)| {
        let (owner, verification) = Verification::of_check(check, policy).ok().flatten()?;
        Some(Probe {
            check_id: check_key(checks, index),
            owner,
            observation: Observation::Verification(verification),
            overlay: String::new(),
            unconfined: false,
        })
    })
}

/// The lines that prepare the view, one probe each.
fn preparing(policy: &Policy) -> impl Iterator<Item = Probe> {
    policy.prepare_lines().enumerate().map(|(place, (owner, line))| Probe {
        check_id: format!("{PREPARE_CHECK}[{place}]"),
        owner,
        observation: Observation::Prepare(line.to_owned()),
        overlay: String::new(),
        unconfined: false,
    })
}

/// Whether the project's own tests decide the verdict: the runner verifies, files were written, and
/// no required check names a command. Under checks of users and operators a plan's command that cannot fail is none.
pub fn wants_project_tests(
    checks: &[AcceptCheck],
    policy: VerifyCommands,
    wrote_files: bool,
) -> bool {
    let has_others = checks.iter().any(|check| check.owner != Owner::Plan);
    let counts = |check: &AcceptCheck| check.owner != Owner::Plan || !has_others || !is_thin(check);
    policy == VerifyCommands::Runner && wrote_files && !required_commands(checks).any(counts)
}

fn required_commands(checks: &[AcceptCheck]) -> impl Iterator<Item = &AcceptCheck> {
    checks.iter().filter(|check| check.required && check.kind == CheckKind::CommandSuccess)
}

fn change(check: &AcceptCheck) -> Option<Observation> {
    (check.kind == CheckKind::WorkspaceChange).then(|| Observation::Change(changed_paths(check)))
}

fn command(check: &AcceptCheck) -> Option<Observation> {
    let runs = check.required && check.kind == CheckKind::CommandSuccess;
    runs.then(|| Observation::Command(check.target.clone()))
}

fn file(check: &AcceptCheck) -> Option<Observation> {
    match check.kind {
        CheckKind::FileExists => Some(Observation::File {
            path: check.target.clone(),
            file_type: FileType::of(check).unwrap_or_default(),
        }),
        CheckKind::ContentContains => {
            let needle = check.params.get("contains")?.clone();
            Some(Observation::Content { path: check.target.clone(), needle })
        }
        CheckKind::OutputOnly
        | CheckKind::WorkspaceChange
        | CheckKind::CommandSuccess
        | CheckKind::ToolFact
        | CheckKind::ActionReport
        | CheckKind::Expression
        | CheckKind::HttpProbe
        | CheckKind::Unknown(_) => None,
    }
}

/// Whether a check is decided by the runner's own probe of the round, where the runner verifies.
/// Commands of optional checks are not run, so what the steps recorded decides them.
pub fn is_probed(check: &AcceptCheck) -> bool {
    is_verification(check)
        || [change, command, file].into_iter().any(|probe| probe(check).is_some())
}

/// Whether a command of the round decides a check, where the runner verifies.
pub fn is_commanded(check: &AcceptCheck) -> bool {
    is_verification(check) || command(check).is_some()
}
