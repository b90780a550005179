//! What the runner observes before the gate decides, and what the project's own tests came to. The
//! runner and the gate both go by these rules.

use super::check::{AcceptCheck, CheckKind, FileType, Owner, Reason, changed_paths, check_key};
use super::receipt::{CheckProbe, EvidenceReceipt, EvidenceSource, Fact, Inputs};
use super::run::{Policy, VerifyCommands};
use std::collections::BTreeSet;

/// The name under which the runner records the project's own tests.
pub const PROJECT_TESTS: &str = "project_tests";
/// The check id of the project's own tests, which is also the name of their result.
pub const PROJECT_TESTS_CHECK: &str = "system.project_tests";
/// The check id of the runner's observation that the workspace changed during a round, which is also the name
/// of its result.
pub const WORKSPACE_CHECK: &str = "system.workspace";
/// What the check ids of the lines of `policy.prepare` begin with; their number in brackets follows.
pub const PREPARE_CHECK: &str = "system.prepare";
/// The output with the digest of the workspace at the end of a round, in the last receipt of that id.
pub const WORKSPACE_DIGEST: &str = "workspace_digest";
/// Its reason.
pub const WORKSPACE_CHANGED: &str = "workspace_changed_during_verification";
/// The names under which the runner records the commands of hidden checks, those of users and those of
/// operators: only owners and operators see such receipts and their outputs whole.
const HIDDEN_CHECK: &str = "hidden_check";
const OPERATORS_HIDDEN_CHECK: &str = "hidden_operator_check";
/// The reason of a hidden check that does not hold, whatever it failed by.
pub const HIDDEN_CHECK_FAILED: &str = "hidden_check_failed";
/// The reason of a command check whose command could not be started; the cause follows it.
const NOT_STARTED: &str = "command_not_started";
/// The reason of a command check that did not run because a line of `policy.prepare` failed; the line follows
/// it.
pub const PREPARE_FAILED: &str = "prepare_failed";
/// The output with a host that a command asked for and was refused.
const NETWORK_REFUSED: &str = "network_refused";
/// The output that says how the participant of a verification was confined, and the value of one that was not.
const PARTICIPANT: &str = "participant";
const UNCONFINED: &str = "unconfined";
/// The output that says that the project names no test command.
const SKIPPED: &str = "skipped";

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

/// Which hidden checks a reader sees whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// None.
    Nothing,
    /// Those of the user that the run works for.
    OfUser,
    /// All of them.
    All,
}

impl Sight {
    /// Whether it covers the hidden checks of this owner.
    pub const fn covers(self, owner: Owner) -> bool {
        match (self, owner) {
            (Self::All, _) | (Self::OfUser, Owner::Plan | Owner::User) => true,
            (Self::OfUser, Owner::Operator) | (Self::Nothing, _) => false,
        }
    }

    /// Whether it covers a receipt.
    pub fn covers_receipt(self, receipt: &EvidenceReceipt) -> bool {
        hidden_owner(receipt).is_none_or(|owner| self.covers(owner))
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
            Some(Probe { check_id, owner: check.owner, observation, overlay })
        });
        probes.collect::<Vec<_>>()
    };
    let mut probes = Vec::new();
    let mut commands = Vec::new();
    if policy.verify_commands == VerifyCommands::Runner {
        probes.extend(of(change));
        commands.extend(of(command));
        commands.sort_by_key(|probe| order(probe.owner));
    }
    if wants_project_tests(checks, policy.verify_commands, wrote_files) {
        commands.push(Probe {
            check_id: PROJECT_TESTS_CHECK.to_owned(),
            owner: Owner::Operator,
            observation: Observation::ProjectTests,
            overlay: String::new(),
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

/// The lines that prepare the view, one probe each.
fn preparing(policy: &Policy) -> impl Iterator<Item = Probe> {
    policy.prepare_lines().enumerate().map(|(place, (owner, line))| Probe {
        check_id: format!("{PREPARE_CHECK}[{place}]"),
        owner,
        observation: Observation::Prepare(line.to_owned()),
        overlay: String::new(),
    })
}

/// The command of an owner that is trusted less cannot see what one that is trusted more left.
const fn order(owner: Owner) -> u8 {
    match owner {
        Owner::Plan => 0,
        Owner::Operator => 1,
        Owner::User => 2,
    }
}

/// Whether the project's own tests decide the verdict: the runner verifies, files were written, and
/// no required check names a command.
pub fn wants_project_tests(
    checks: &[AcceptCheck],
    policy: VerifyCommands,
    wrote_files: bool,
) -> bool {
    policy == VerifyCommands::Runner && wrote_files && required_commands(checks).next().is_none()
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
    [change, command, file].into_iter().any(|probe| probe(check).is_some())
}

/// The receipts of the runner's probes of one round, or of one check in it. Probes at the end of a step are
/// of no round.
pub fn probed(
    receipts: &[EvidenceReceipt],
    round: u32,
    check_id: Option<&str>,
) -> Vec<EvidenceReceipt> {
    let is_of = |probe: &CheckProbe| {
        probe.round == round && check_id.is_none_or(|check_id| probe.check_id == check_id)
    };
    let own = receipts.iter().filter(|receipt| {
        receipt.source == EvidenceSource::Probe
            && receipt.step_id.is_empty()
            && receipt.probe_of.as_ref().is_some_and(is_of)
    });
    own.cloned().collect()
}

/// The receipts of one run of a check in a round.
pub fn probed_with(
    receipts: &[EvidenceReceipt],
    round: u32,
    check_id: &str,
    inputs: Inputs,
) -> Vec<EvidenceReceipt> {
    let mut own = probed(receipts, round, Some(check_id));
    own.retain(|receipt| receipt.probe_of.as_ref().is_some_and(|probe| probe.inputs == inputs));
    own
}

/// The receipts of a round by which a check over all of them is decided: of a check that ran more than once
/// only the run that decides first.
pub fn probed_first(receipts: &[EvidenceReceipt], round: u32) -> Vec<EvidenceReceipt> {
    let mut own = probed(receipts, round, None);
    let id_of = |receipt: &EvidenceReceipt, inputs: &[Inputs]| {
        let probe = receipt.probe_of.as_ref().filter(|probe| inputs.contains(&probe.inputs));
        probe.map(|probe| probe.check_id.clone())
    };
    let ran: BTreeSet<String> =
        own.iter().filter_map(|receipt| id_of(receipt, &[Inputs::Original])).collect();
    let second = [Inputs::OriginalWithIgnored, Inputs::AsLeft];
    let is_beside = |receipt: &EvidenceReceipt| {
        let inputs = receipt.probe_of.as_ref().map(|probe| probe.inputs);
        inputs.is_some_and(|inputs| inputs.is_about_runner() || inputs.is_at_start())
    };
    own.retain(|receipt| {
        !is_beside(receipt) && id_of(receipt, &second).is_none_or(|id| !ran.contains(&id))
    });
    own
}

/// The reason of a command check whose command could not be started, by the receipt of its probe.
pub fn not_started(probe: &EvidenceReceipt) -> String {
    if probe.summary.starts_with(PREPARE_FAILED) {
        return probe.summary.clone();
    }
    format!("{NOT_STARTED}: {}", probe.summary)
}

/// Whether a call of this name is the command of a hidden check.
pub fn is_hidden_name(name: &str) -> bool {
    matches!(name, HIDDEN_CHECK | OPERATORS_HIDDEN_CHECK)
}

/// Whose hidden check a receipt is of; none for any other receipt.
fn hidden_owner(receipt: &EvidenceReceipt) -> Option<Owner> {
    if receipt.source != EvidenceSource::Probe {
        return None;
    }
    match receipt.name.as_str() {
        HIDDEN_CHECK => Some(Owner::User),
        OPERATORS_HIDDEN_CHECK => Some(Owner::Operator),
        _ => None,
    }
}

/// A receipt as participants see it: of a hidden check only that it held or not. Its digest is that of the
/// whole one.
#[must_use]
pub fn concealed(receipt: EvidenceReceipt) -> EvidenceReceipt {
    if hidden_owner(&receipt).is_none() {
        return receipt;
    }
    let held = if receipt.success { "held" } else { "failed" };
    EvidenceReceipt {
        summary: format!("hidden check {held}"),
        facts: Vec::new(),
        output_digest: String::new(),
        started_at: None,
        finished_at: None,
        ..receipt
    }
}

/// The digest of the workspace at the end of a round; empty where none was recorded.
pub fn workspace_digest(receipts: &[EvidenceReceipt], round: u32) -> String {
    let last = probed(receipts, round, Some(WORKSPACE_CHECK)).pop();
    let named = last.iter().flat_map(|receipt| &receipt.facts).find_map(|fact| match fact {
        Fact::Output { key, value } if key == WORKSPACE_DIGEST => Some(value.clone()),
        Fact::Output { .. }
        | Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Command { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Tests { .. } => None,
    });
    named.unwrap_or_default()
}

/// The fact by which the runner records that a command asked for a host that its policy does not allow.
pub fn network_refused(host: &str) -> Fact {
    Fact::Output { key: NETWORK_REFUSED.to_owned(), value: host.to_owned() }
}

/// The hosts that a command asked for and was refused.
pub fn hosts_refused(receipt: &EvidenceReceipt) -> Vec<&str> {
    let refused = receipt.facts.iter().filter_map(|fact| match fact {
        Fact::Output { key, value } if key == NETWORK_REFUSED => Some(value.as_str()),
        Fact::Output { .. }
        | Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Command { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Tests { .. } => None,
    });
    refused.collect()
}

/// The fact by which the runner records that the participant of a verification was not confined.
pub fn unconfined() -> Fact {
    Fact::Output { key: PARTICIPANT.to_owned(), value: UNCONFINED.to_owned() }
}

/// Whether any receipt says that a file was written.
pub fn wrote_files(receipts: &[EvidenceReceipt]) -> bool {
    let facts = || receipts.iter().flat_map(|receipt| &receipt.facts);
    facts().any(|fact| matches!(fact, Fact::FileWritten { .. }))
}

/// What the project's own tests came to in a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectTests {
    /// They passed.
    Passed,
    /// They failed.
    Failed,
    /// The project names no test command. That is recorded and proves nothing.
    Skipped,
    /// They were not started, or nothing is recorded of them.
    NotRun,
}

impl ProjectTests {
    /// The fact by which the runner records that the project names no test command.
    pub fn skipped() -> Fact {
        Fact::Output { key: PROJECT_TESTS.to_owned(), value: SKIPPED.to_owned() }
    }

    /// What the runner's last record in a verification round says, by the run that decides first.
    pub fn of(receipts: &[EvidenceReceipt], round: u32) -> Self {
        let mut own = probed_first(receipts, round);
        own.retain(|receipt| {
            receipt.probe_of.as_ref().is_some_and(|probe| probe.check_id == PROJECT_TESTS_CHECK)
        });
        own.last().map_or(Self::NotRun, Self::of_receipt)
    }

    /// What one record says.
    pub fn of_receipt(last: &EvidenceReceipt) -> Self {
        let ran = last.facts.iter().any(|fact| matches!(fact, Fact::Command { .. }));
        match (ran, last.success) {
            (true, true) => Self::Passed,
            (true, false) => Self::Failed,
            (false, _) if last.facts.contains(&Self::skipped()) => Self::Skipped,
            (false, _) => Self::NotRun,
        }
    }

    /// The result in the verdict; none when the tests were skipped.
    pub const fn result(self) -> Option<Result<(), Reason>> {
        match self {
            Self::Passed => Some(Ok(())),
            Self::Failed => Some(Err(Reason::ProjectTestsFailed)),
            Self::NotRun => Some(Err(Reason::ProjectTestsNotRun)),
            Self::Skipped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check::{Author, read_checks};
    use crate::domain::json;
    use crate::domain::receipt::read_receipt;

    #[test]
    fn the_checks_and_the_policy_say_what_is_looked_at() {
        let command = || Observation::Command("make test".to_owned());
        let named =
            |path: &str| Observation::File { path: path.to_owned(), file_type: FileType::File };
        let file = || named("a");
        let optional = r#"[{"kind":"command_success","target":"make","required":false}]"#;
        for (checks, policy, wrote, expected) in [
            (
                r#"["make test","./a","make test"]"#,
                VerifyCommands::Runner,
                true,
                vec![command(), named("./a")],
            ),
            (r#"["make test","a.txt"]"#, VerifyCommands::ReceiptsOnly, true, vec![named("a.txt")]),
            ("[]", VerifyCommands::Runner, true, vec![Observation::ProjectTests]),
            ("[]", VerifyCommands::Runner, false, vec![]),
            (optional, VerifyCommands::Runner, true, vec![Observation::ProjectTests]),
            (optional, VerifyCommands::Runner, false, vec![]),
            (optional, VerifyCommands::ReceiptsOnly, true, vec![]),
            (
                r#"[{"kind":"file_exists","target":"a"}]"#,
                VerifyCommands::Runner,
                true,
                vec![Observation::ProjectTests, file()],
            ),
            (
                r#"["make test",{"kind":"workspace_change"},
                    {"kind":"workspace_change","params":{"paths":"src/**, {a,b}.txt"}}]"#,
                VerifyCommands::Runner,
                true,
                vec![
                    Observation::Change(vec![]),
                    Observation::Change(vec!["src/**".to_owned(), "{a,b}.txt".to_owned()]),
                    command(),
                ],
            ),
            (r#"[{"kind":"workspace_change"}]"#, VerifyCommands::ReceiptsOnly, true, vec![]),
        ] {
            let list = json::parse(checks).unwrap().value;
            let (list, _) = read_checks(&list, "verify", Author::Model).unwrap();
            let policy = Policy { verify_commands: policy, ..Policy::default() };
            let found = probes(&list, &policy, wrote);
            let found: Vec<_> = found.into_iter().map(|probe| probe.observation).collect();
            assert_eq!(found, expected, "{checks}");
        }
    }

    #[test]
    fn each_check_has_a_probe_of_its_own_and_less_trusted_commands_run_first() {
        let checks = r#"[
            {"kind":"command_success","target":"make test","owner":"user"},
            {"kind":"command_success","target":"make test","owner":"operator"},
            {"id":"a","kind":"command_success","target":"make test","owner":"plan"}]"#;
        let list = json::parse(checks).unwrap().value;
        let (list, _) = read_checks(&list, "verify", Author::Operator).unwrap();
        let policy = Policy {
            prepare: vec!["npm ci".to_owned()],
            always_prepare: vec!["make tools".to_owned()],
            ..Policy::default()
        };
        let found = probes(&list, &policy, true);
        let found: Vec<_> =
            found.iter().map(|probe| (probe.check_id.as_str(), probe.owner)).collect();
        assert_eq!(
            found,
            [
                ("a", Owner::Plan),
                ("system.prepare[0]", Owner::Operator),
                ("system.prepare[1]", Owner::User),
                ("command_success[1]", Owner::Operator),
                ("command_success[0]", Owner::User),
            ]
        );
        let lines: Vec<_> = policy.prepare_lines().map(|(_, line)| line).collect();
        assert_eq!(lines, ["make tools", "npm ci"]);
        let own = |check: &AcceptCheck| check.owner == Owner::Plan;
        let of_plan: Vec<_> = list.iter().filter(|check| own(check)).cloned().collect();
        assert_eq!(probes(&of_plan, &policy, true).len(), 1, "nothing needs the view");
    }

    fn receipt(source: &str, round: u32, success: bool, facts: &str) -> EvidenceReceipt {
        let text = format!(
            r#"{{"step_index":1,"check_id":"system.project_tests","round":{round},
                "source":"{source}","success":{success},
                "name":"project_tests","facts":[{facts}]}}"#
        );
        read_receipt(&json::parse(&text).unwrap().value).unwrap()
    }

    #[test]
    fn the_last_record_of_the_runner_in_the_round_says_what_the_tests_came_to() {
        use ProjectTests::{Failed, NotRun, Passed, Skipped};
        let ran = r#"{"fact":"command","argv":["cargo","test"],"exit_code":0}"#;
        let failed = r#"{"fact":"command","argv":["cargo","test"],"exit_code":1}"#;
        let skipped = r#"{"fact":"output","key":"project_tests","value":"skipped"}"#;
        let (good, bad) = (receipt("probe", 2, true, ran), receipt("probe", 2, false, failed));
        for (receipts, expected) in [
            (vec![], NotRun),
            (vec![good.clone()], Passed),
            (vec![bad.clone()], Failed),
            (vec![good.clone(), bad.clone()], Failed),
            (vec![bad, good.clone()], Passed),
            (vec![receipt("probe", 2, false, skipped)], Skipped),
            (vec![good, receipt("probe", 2, false, "")], NotRun),
            (vec![receipt("probe", 1, true, ran)], NotRun),
            (vec![receipt("tool_observation", 2, true, ran)], NotRun),
            (vec![receipt("tool_observation", 2, true, skipped)], NotRun),
        ] {
            assert_eq!(ProjectTests::of(&receipts, 2), expected, "{receipts:?}");
        }
    }
}
