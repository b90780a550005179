//! What the tests of a check's command say about its exit code of 0.
//!
//! ```text
//!   params.min_tests, params.max_skipped not kept  -> the check fails
//!   a runner ran no test                           -> no_tests_seen  \ of users and operators the
//!   announced tests neither ran nor were skipped   -> tests_missing  / check fails, else shown only
//! ```

use surety_common::domain::check::{AcceptCheck, MAX_SKIPPED, MIN_TESTS, Owner};
use surety_common::domain::receipt::{EvidenceReceipt, Fact};
use surety_common::domain::tests_seen::Counts;
use surety_common::domain::verdict::Caution;

/// The cautions.
const NO_TESTS_SEEN: &str = "no_tests_seen";
const TESTS_MISSING: &str = "tests_missing";
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
pub(super) fn cautions(name: &str, probe: &EvidenceReceipt) -> Vec<Caution> {
    let caution = |code: &str, detail: String| Caution {
        code: code.to_owned(),
        check: name.to_owned(),
        detail,
    };
    let of = |(runner, counts): (&str, Counts)| {
        let Counts { ran, failed: _, skipped, missing } = counts;
        let gone = (missing > 0).then(|| {
            let detail = format!("`{runner}` announced {missing} tests that it did not run");
            caution(TESTS_MISSING, detail)
        });
        let none = (ran == 0).then(|| {
            let detail = format!("`{runner}` ended with 0 and ran no test ({skipped} skipped)");
            caution(NO_TESTS_SEEN, detail)
        });
        [none, gone]
    };
    reports(probe).flat_map(of).flatten().collect()
}

/// Why a check fails although its command ended with 0; none when it does not.
pub(super) fn refusal(
    check: &AcceptCheck,
    probe: &EvidenceReceipt,
    cautions: &[Caution],
) -> Option<String> {
    if let Some(reason) = out_of_bounds(check, probe) {
        return Some(reason);
    }
    let refuses = match check.owner {
        Owner::Plan => None,
        Owner::User | Owner::Operator => cautions.first(),
    };
    refuses.map(reason)
}

/// Why the project's own tests fail although their command ended with 0. A project without any test is
/// in order.
pub(super) fn missing(cautions: &[Caution]) -> Option<String> {
    cautions.iter().find(|caution| caution.code == TESTS_MISSING).map(reason)
}

fn reason(caution: &Caution) -> String {
    format!("{}: {}", caution.code, caution.detail)
}

/// The first bound of the check's own params that was not kept.
fn out_of_bounds(check: &AcceptCheck, probe: &EvidenceReceipt) -> Option<String> {
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
