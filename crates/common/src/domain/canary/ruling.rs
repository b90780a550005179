//! What the runs of a canary come to.
//!
//! ```text
//!   V0 reports all                             in order
//!   V0 misses some that S0 reports             runner_patched
//!   V0 and S0 miss the same, but not all       in order: the line selects a part
//!   V0 and S0 report none; S0 is not known     canary_not_run
//!   the line holds at S0, its programs do not  the same over what these report; none of it is in order
//! ```

use crate::domain::receipt::{EvidenceReceipt, Fact};
use std::collections::BTreeSet;

/// The caution of a check whose runner passes failing tests. No person may accept it.
pub const RUNNER_PATCHED: &str = "runner_patched";
/// The caution of a check whose canary could not be run.
pub const CANARY_NOT_RUN: &str = "canary_not_run";
/// The outputs of a run's receipt: a test that was added, one that the line reported as failed, and one that a program of the
/// line did.
const ADDED: &str = "canary_test";
const FAILED: &str = "canary_failed";
const FAILED_WITHIN: &str = "canary_failed_within";

/// The facts of a run, by which the gate decides.
pub fn facts_of(
    tests: &[String],
    failed: &BTreeSet<String>,
    within: &BTreeSet<String>,
) -> Vec<Fact> {
    let output =
        |key: &str, value: &str| Fact::Output { key: key.to_owned(), value: value.to_owned() };
    let added = tests.iter().map(|test| output(ADDED, test));
    let failed = failed.iter().map(|test| output(FAILED, test));
    added.chain(failed).chain(within.iter().map(|test| output(FAILED_WITHIN, test))).collect()
}

/// The fact of a canary that is not run.
pub fn not_run(why: &str) -> Fact {
    Fact::Output { key: CANARY_NOT_RUN.to_owned(), value: why.to_owned() }
}

/// One run of a canary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CanaryRun<'r> {
    added: BTreeSet<&'r str>,
    failed: BTreeSet<&'r str>,
    within: BTreeSet<&'r str>,
    not_run: Option<&'r str>,
}

impl<'r> CanaryRun<'r> {
    /// What a receipt says.
    pub fn of(receipt: &'r EvidenceReceipt) -> Self {
        let mut run = Self::default();
        for fact in &receipt.facts {
            let Fact::Output { key, value } = fact else { continue };
            match key.as_str() {
                ADDED => drop(run.added.insert(value)),
                FAILED => drop(run.failed.insert(value)),
                FAILED_WITHIN => drop(run.within.insert(value)),
                CANARY_NOT_RUN => run.not_run = Some(value),
                _ => {}
            }
        }
        run
    }
}

/// What the runs of a canary come to: a code, and what was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanaryRuling {
    /// The line reports failing tests.
    InOrder,
    /// It reports as passed what it reports as failed at the start.
    Patched(String),
    /// Nothing is known.
    NotRun(String),
}

/// Rules over the run on the workspace of the round, and the one on that of the start.
pub fn rule_canary(now: &CanaryRun<'_>, start: Option<&CanaryRun<'_>>) -> CanaryRuling {
    if let Some(why) = now.not_run {
        return CanaryRuling::NotRun(why.to_owned());
    }
    if !now.added.is_empty() && now.failed == now.added {
        return CanaryRuling::InOrder;
    }
    let (all, some) = (now.added.len(), now.failed.len());
    let Some(start) = start.filter(|start| start.not_run.is_none()) else {
        let why = start.and_then(|start| start.not_run).unwrap_or("it is not known at the start");
        return CanaryRuling::NotRun(format!(
            "of {all} failing tests that were added the line reports {some}: {why}"
        ));
    };
    let misses = |before: &BTreeSet<&str>, now: &BTreeSet<&str>| !before.is_subset(now);
    if misses(&start.failed, &now.failed) || misses(&start.within, &now.within) {
        let (some, before) = match misses(&start.failed, &now.failed) {
            true => (some, start.failed.len()),
            false => (now.within.len(), start.within.len()),
        };
        return CanaryRuling::Patched(format!(
            "of {all} failing tests that were added the line reports {some} as failed, and {before} \
             with the code of the start"
        ));
    }
    if now.failed.is_empty() {
        let why = match start.within.is_empty() && now.within.is_empty() {
            true => "the line runs none of the tests that were added",
            false => "the line holds although programs of it fail: end it as its tests do",
        };
        return CanaryRuling::NotRun(why.to_owned());
    }
    CanaryRuling::InOrder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_patched_where_it_reports_less_than_at_the_start() {
        let run = |failed: &[&'static str]| CanaryRun {
            added: BTreeSet::from(["a", "b"]),
            failed: failed.iter().copied().collect(),
            ..CanaryRun::default()
        };
        let within =
            |it: &[&'static str]| CanaryRun { within: it.iter().copied().collect(), ..run(&[]) };
        let (all, one, none) = (run(&["a", "b"]), run(&["a"]), run(&[]));
        let (all_within, one_within) = (within(&["a", "b"]), within(&["a"]));
        let unknown = CanaryRun { not_run: Some("why"), ..CanaryRun::default() };
        let code = |ruling: CanaryRuling| match ruling {
            CanaryRuling::InOrder => "",
            CanaryRuling::Patched(_) => RUNNER_PATCHED,
            CanaryRuling::NotRun(_) => CANARY_NOT_RUN,
        };
        for (now, start, expected) in [
            (&all, None, ""),
            (&one, Some(&all), RUNNER_PATCHED),
            (&none, Some(&one), RUNNER_PATCHED),
            (&one, Some(&one), ""),
            (&one, Some(&none), ""),
            (&none, Some(&none), CANARY_NOT_RUN),
            (&none, None, CANARY_NOT_RUN),
            (&one, Some(&unknown), CANARY_NOT_RUN),
            (&unknown, None, CANARY_NOT_RUN),
            (&one_within, Some(&all_within), RUNNER_PATCHED),
            (&none, Some(&one_within), RUNNER_PATCHED),
            (&all_within, Some(&one), RUNNER_PATCHED),
            (&all_within, Some(&all_within), CANARY_NOT_RUN),
            (&all_within, Some(&none), CANARY_NOT_RUN),
        ] {
            assert_eq!(code(rule_canary(now, start)), expected, "{now:?} {start:?}");
        }
    }
}
