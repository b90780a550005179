//! What the project's own tests came to.

use super::recorded::probed_first;
use crate::domain::check::Reason;
use crate::domain::receipt::{EvidenceReceipt, Fact};

/// The name under which the runner records the project's own tests.
pub const PROJECT_TESTS: &str = "project_tests";
/// The check id of the project's own tests, which is also the name of their result.
pub const PROJECT_TESTS_CHECK: &str = "system.project_tests";
/// The output that says that the project names no test command.
const SKIPPED: &str = "skipped";
/// What stands in front of the program that is not there at the start.
const LACKS: &str = "lacks ";

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
        Fact::of_output(PROJECT_TESTS, SKIPPED)
    }

    /// The fact by which the runner records that this program of theirs is not there.
    pub fn lacks(program: &str) -> Fact {
        Fact::of_output(PROJECT_TESTS, format!("{LACKS}{program}"))
    }

    /// The program that is not there, by such a fact.
    pub fn lacking(fact: &Fact) -> Option<&str> {
        let Fact::Output { key, value } = fact else { return None };
        value.strip_prefix(LACKS).filter(|_| key == PROJECT_TESTS)
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
