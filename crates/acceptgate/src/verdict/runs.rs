//! A check that ran more than once in a round: with the original check inputs and without them.

use super::evaluation::Evaluation;
use surety_common::domain::check::Reason;
use surety_common::domain::check_inputs::{CheckRun, Failure, rule};
use surety_common::domain::receipt::{EvidenceReceipt, Inputs};
use surety_common::domain::verdict::Caution;
use surety_common::domain::verification::{probed, probed_with};

/// What was observed, by the codes of cautions.
pub(super) type Noted = Vec<(&'static str, String)>;

/// The reason why a check does not hold, empty where it holds, and what was observed; none for a check without
/// a run on the original check inputs.
pub(super) fn rule_over(
    input: &Evaluation<'_>,
    key: &str,
    evaluated: impl Fn(&[EvidenceReceipt]) -> Result<(), Reason>,
) -> Option<(String, Noted)> {
    let runs = [Inputs::Original, Inputs::OriginalWithIgnored, Inputs::AsLeft]
        .map(|inputs| of_run(input, key, inputs));
    let [original, with_ignored, as_left] = runs.each_ref().map(|own| {
        let receipt = own.last()?;
        Some(CheckRun { receipt, result: evaluated(own) })
    });
    let ruling = rule(original?, with_ignored, as_left);
    let reason = match ruling.result {
        Ok(()) => String::new(),
        Err(Failure::OfRun(reason)) => reason.as_str().to_owned(),
        Err(Failure::OfInputs(reason)) => reason,
    };
    Some((reason, ruling.cautions))
}

/// The receipts of the run on the original check inputs.
pub(super) fn original(input: &Evaluation<'_>, key: &str) -> Vec<EvidenceReceipt> {
    of_run(input, key, Inputs::Original)
}

fn of_run(input: &Evaluation<'_>, key: &str, inputs: Inputs) -> Vec<EvidenceReceipt> {
    input.round.map_or_else(Vec::new, |round| probed_with(input.receipts, round, key, inputs))
}

/// The cautions of one check.
pub(super) fn cautions(check: &str, noted: Noted) -> impl Iterator<Item = Caution> + use<'_> {
    noted.into_iter().map(move |(code, detail)| Caution {
        code: code.to_owned(),
        check: check.to_owned(),
        detail,
    })
}

/// The receipt of the run by which a check that holds is decided.
pub(super) fn deciding(input: &Evaluation<'_>, round: u32, key: &str) -> Option<EvidenceReceipt> {
    let with = |inputs| probed_with(input.receipts, round, key, inputs).pop();
    let held = |inputs| with(inputs).filter(|receipt| receipt.success);
    held(Inputs::Original)
        .or_else(|| held(Inputs::OriginalWithIgnored))
        .or_else(|| probed(input.receipts, round, Some(key)).pop())
}
