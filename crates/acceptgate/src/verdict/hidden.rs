//! What a verdict says of hidden checks: that they failed, and nothing else. A reader may be the author of
//! what they examine.

use super::doubt::Standing;
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::verdict::CheckResult;
use surety_common::domain::verification::HIDDEN_CHECK_FAILED;

/// Takes the reasons of hidden checks out of their results.
pub(super) fn conceal(checks: &[AcceptCheck], results: &mut [CheckResult]) {
    let first = results.len().saturating_sub(checks.len());
    let own = results.iter_mut().skip(first).zip(checks);
    for (result, _) in own.filter(|(result, check)| check.is_hidden() && !result.passed) {
        result.reason = HIDDEN_CHECK_FAILED.to_owned();
    }
}

/// Takes what was observed about hidden checks out of their cautions.
pub(super) fn conceal_noted(checks: &[AcceptCheck], standings: &mut [Standing]) {
    let first = standings.len().saturating_sub(checks.len());
    let own = standings.iter_mut().skip(first).zip(checks);
    for noted in own.filter(|(_, check)| check.is_hidden()).flat_map(|(it, _)| &mut it.noted) {
        noted.detail.clear();
        noted.code.clone_into(&mut noted.reason);
    }
}
