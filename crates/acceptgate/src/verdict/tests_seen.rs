//! What the tests of a check's command say about its exit code of 0.
//!
//! ```text
//!   params.min_tests, params.max_skipped not kept  -> the check fails
//!   a runner ran no test                           -> caution no_tests_seen
//!   announced tests neither ran nor were skipped   -> caution tests_missing
//!   tests that ran at the start do not run         -> caution tests_missing
//! ```

use super::doubt::Noted;
use super::evaluation::Evaluation;
use surety_common::domain::check::{AcceptCheck, MAX_SKIPPED, MIN_TESTS};
use surety_common::domain::receipt::{EvidenceReceipt, Fact, Inputs};
use surety_common::domain::tests_named::{TESTS_MISSING, gone_in};
use surety_common::domain::tests_seen::Counts;
use surety_common::domain::verification::probed_with;

/// The cautions.
const NO_TESTS_SEEN: &str = "no_tests_seen";
/// The reasons of a check whose own bounds were not kept.
const TOO_FEW_TESTS: &str = "too_few_tests";
const TOO_MANY_SKIPPED: &str = "too_many_skipped";
const TESTS_NOT_COUNTED: &str = "tests_not_counted";

/// What the runners of one command reported.
fn reports(probe: &EvidenceReceipt) -> impl Iterator<Item = (&str, Counts)> {
    probe.facts.iter().filter_map(|fact| match fact {
        Fact::Tests { runner, counts } => Some((runner.as_str(), *counts)),
        Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Command { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. } => None,
    })
}

/// The cautions about the tests of a check, by the probe of its command that ended with 0.
pub(super) fn cautions(probe: &EvidenceReceipt) -> Vec<Noted> {
    let of = |(runner, counts): (&str, Counts)| {
        let Counts { ran, failed: _, skipped, missing } = counts;
        let gone = (missing > 0).then(|| {
            let detail = format!("`{runner}` announced {missing} tests that it did not run");
            Noted::new(TESTS_MISSING, detail)
        });
        let none = (ran == 0).then(|| {
            let detail = format!("`{runner}` ended with 0 and ran no test ({skipped} skipped)");
            Noted::new(NO_TESTS_SEEN, detail)
        });
        [none, gone]
    };
    reports(probe).flat_map(of).flatten().collect()
}

/// The caution about tests of the start that a check no longer runs. On the workspace as the steps left it they
/// are only shown, because the caution about changed check inputs refuses there.
pub(super) fn gone(input: &Evaluation<'_>, round: u32, key: &str) -> Option<Noted> {
    let found = |inputs| gone_in(&probed_with(input.receipts, round, key, inputs).pop()?);
    let noted = |detail: String| Noted::new(TESTS_MISSING, detail);
    let at_start = found(Inputs::TestsAtStart).map(|gone| noted(gone.to_string()));
    let shown = |gone: &dyn ToString| Noted { only_shown: true, ..noted(gone.to_string()) };
    at_start.or_else(|| found(Inputs::AsLeft).map(|gone| shown(&gone)))
}

/// The cautions about the project's own tests. A project without any test is in order.
pub(super) fn of_project(probe: &EvidenceReceipt) -> Vec<Noted> {
    let shown = |noted: Noted| Noted { only_shown: noted.code == NO_TESTS_SEEN, ..noted };
    cautions(probe).into_iter().map(shown).collect()
}

/// The first bound of the check's own params that was not kept.
pub(super) fn out_of_bounds(check: &AcceptCheck, probe: &EvidenceReceipt) -> Option<String> {
    let bound = |key: &str| check.params.get(key).and_then(|value| value.parse::<u64>().ok());
    let (least, most) = (bound(MIN_TESTS), bound(MAX_SKIPPED));
    if least.is_none() && most.is_none() {
        return None;
    }
    let (mut seen, mut ran, mut skipped) = (false, 0_u64, 0_u64);
    for (_, counts) in reports(probe) {
        seen = true;
        ran = ran.saturating_add(counts.ran);
        skipped = skipped.saturating_add(counts.skipped);
    }
    if !seen {
        return Some(format!("{TESTS_NOT_COUNTED}: the command's output names no number of tests"));
    }
    if let Some(least) = least.filter(|least| ran < *least) {
        return Some(format!("{TOO_FEW_TESTS}: {ran} ran, {MIN_TESTS} is {least}"));
    }
    let most = most.filter(|most| skipped > *most)?;
    Some(format!("{TOO_MANY_SKIPPED}: {skipped} were skipped, {MAX_SKIPPED} is {most}"))
}
