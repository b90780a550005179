//! What the canary of a check says about its runner.

use super::doubt::Noted;
use super::evaluation::Evaluation;
use surety_common::domain::canary::{
    CANARY_NOT_RUN, CanaryRuling, CanaryRun, RUNNER_PATCHED, rule_canary,
};
use surety_common::domain::receipt::Inputs;
use surety_common::domain::verification::probed_with;

/// The caution that the canary of a check gives; none where there was none, or all is in order.
pub(super) fn noted(input: &Evaluation<'_>, round: u32, key: &str) -> Option<Noted> {
    let last = |inputs| probed_with(input.receipts, round, key, inputs).pop();
    let (now, start) = (last(Inputs::Canary)?, last(Inputs::CanaryAtStart));
    let at_start = start.as_ref().map(CanaryRun::of);
    match rule_canary(&CanaryRun::of(&now), at_start.as_ref()) {
        CanaryRuling::InOrder => None,
        CanaryRuling::Patched(detail) => Some(Noted::new(RUNNER_PATCHED, detail)),
        CanaryRuling::NotRun(detail) => Some(Noted::new(CANARY_NOT_RUN, detail)),
    }
}
