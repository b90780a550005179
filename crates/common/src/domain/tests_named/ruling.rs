//! The tests of the start that a check no longer runs, as receipts have them.

use crate::domain::receipt::{EvidenceReceipt, Fact};

/// The caution, and the output of a receipt that names such a test.
pub const TESTS_MISSING: &str = "tests_missing";
/// The output with the number of all of them.
const COUNT: &str = "tests_missing_count";
/// Tests that a receipt names.
const MAX_LISTED: usize = 20;
/// Tests that a caution names.
const MAX_NAMED: usize = 3;

/// Tests that ran at the start and do not run any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestsGone {
    count: usize,
    first: Vec<String>,
}

impl std::fmt::Display for TestsGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first: Vec<_> = self.first.iter().map(|name| format!("`{name}`")).collect();
        let more = self.count.saturating_sub(first.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let word = if self.count == 1 { "test" } else { "tests" };
        write!(f, "{} {word} of the start did not run: {}{more}", self.count, first.join(", "))
    }
}

/// The facts of a receipt about these tests.
pub fn facts_of_gone(gone: &[&str]) -> Vec<Fact> {
    let mut facts = Vec::new();
    if !gone.is_empty() {
        facts.push(Fact::of_output(COUNT, gone.len().to_string()));
    }
    let first = gone.iter().take(MAX_LISTED);
    facts.extend(first.map(|name| Fact::of_output(TESTS_MISSING, *name)));
    facts
}

/// What a receipt says; none where no test is missing.
pub fn gone_in(receipt: &EvidenceReceipt) -> Option<TestsGone> {
    let count = receipt.outputs(COUNT).next()?.parse().ok()?;
    let first: Vec<String> =
        receipt.outputs(TESTS_MISSING).take(MAX_NAMED).map(str::to_owned).collect();
    (!first.is_empty()).then_some(TestsGone { count, first })
}
