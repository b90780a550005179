//! What the runner observes before the gate decides, and what the project's own tests came to. The
//! runner and the gate both go by these rules.

use super::check::{AcceptCheck, CheckKind, Reason, changed_paths};
use super::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use super::run::VerifyCommands;

/// The name under which the runner records the project's own tests.
pub const PROJECT_TESTS: &str = "project_tests";
/// The output that says that the project names no test command.
const SKIPPED: &str = "skipped";

/// One thing the runner does before the gate decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// Compares the workspace with what it was before the run, at paths that match these globs, or at
    /// all that are not ignored.
    Change(Vec<String>),
    /// Runs a command that a check names, exactly as written.
    Command(String),
    /// Runs the project's own test command, because files were written and no required check names a
    /// command.
    ProjectTests,
    /// Looks whether a path is there.
    File(String),
    /// Looks for a text in a file.
    Content {
        /// The file.
        path: String,
        /// The text.
        needle: String,
    },
}

/// What a plan's checks ask the runner to do, each thing once. What changed is looked at first, because
/// commands write too; files are looked at last, because commands may make them.
pub fn observations(
    checks: &[AcceptCheck],
    policy: VerifyCommands,
    wrote_files: bool,
) -> Vec<Observation> {
    let mut observations: Vec<Observation> = Vec::new();
    if policy == VerifyCommands::Runner {
        let changes = checks.iter().filter(|check| check.kind == CheckKind::WorkspaceChange);
        observations.extend(changes.map(|check| Observation::Change(changed_paths(check))));
        let required = required_commands(checks);
        observations.extend(required.map(|check| Observation::Command(check.target.clone())));
    }
    if wants_project_tests(checks, policy, wrote_files) {
        observations.push(Observation::ProjectTests);
    }
    observations.extend(checks.iter().filter_map(of_check));
    let mut once = Vec::new();
    observations.retain(|observation| {
        let new = !once.contains(observation);
        once.push(observation.clone());
        new
    });
    observations
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

fn of_check(check: &AcceptCheck) -> Option<Observation> {
    match check.kind {
        CheckKind::FileExists => Some(Observation::File(check.target.clone())),
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

    /// What the runner's last record about a plan revision says.
    pub fn of(receipts: &[EvidenceReceipt], plan_revision: u32) -> Self {
        let last = receipts.iter().rev().find(|receipt| {
            receipt.source == EvidenceSource::Probe
                && receipt.name == PROJECT_TESTS
                && receipt.plan_revision == plan_revision
        });
        let Some(last) = last else { return Self::NotRun };
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
        let file = || Observation::File("a".to_owned());
        let optional = r#"[{"kind":"command_success","target":"make","required":false}]"#;
        for (checks, policy, wrote, expected) in [
            (
                r#"["make test","./a","make test"]"#,
                VerifyCommands::Runner,
                true,
                vec![command(), Observation::File("./a".to_owned())],
            ),
            (
                r#"["make test","a.txt"]"#,
                VerifyCommands::ReceiptsOnly,
                true,
                vec![Observation::File("a.txt".to_owned())],
            ),
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
            assert_eq!(observations(&list, policy, wrote), expected, "{checks}");
        }
    }

    fn receipt(source: &str, revision: u32, success: bool, facts: &str) -> EvidenceReceipt {
        let text = format!(
            r#"{{"step_index":1,"plan_revision":{revision},"source":"{source}","success":{success},
                "name":"project_tests","facts":[{facts}]}}"#
        );
        read_receipt(&json::parse(&text).unwrap().value).unwrap()
    }

    #[test]
    fn the_last_record_of_the_runner_about_the_revision_says_what_the_tests_came_to() {
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
