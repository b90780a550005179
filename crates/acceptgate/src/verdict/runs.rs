//! A check that ran more than once in a round: with the original check inputs and without them.

use super::doubt::Noted;
use super::evaluation::Evaluation;
use surety_common::domain::check::Reason;
use surety_common::domain::check_inputs::{CheckRun, Failure, overwritten_in, rule};
use surety_common::domain::receipt::{EvidenceReceipt, Inputs};
use surety_common::domain::verification::{probed, probed_with};

/// Cautions that refuse only where the check holds by nothing else.
const OF_INPUTS: [&str; 2] = [CHECK_INPUTS_CHANGED, "ignored_inputs_changed"];
const CHECK_INPUTS_CHANGED: &str = "check_inputs_changed";

/// The reason why a check does not hold, empty where it holds but for what was observed, and that; none for a
/// check without a run on the original check inputs.
pub(super) fn rule_over(
    input: &Evaluation<'_>,
    key: &str,
    evaluated: impl Fn(&[EvidenceReceipt]) -> Result<(), Reason>,
) -> Option<(String, Vec<Noted>)> {
    let runs = [Inputs::Original, Inputs::OriginalWithIgnored, Inputs::AsLeft]
        .map(|inputs| of_run(input, key, inputs));
    let [original, with_ignored, as_left] = runs.each_ref().map(|own| {
        let receipt = own.last()?;
        Some(CheckRun { receipt, result: evaluated(own) })
    });
    let ruling = rule(original?, with_ignored, as_left);
    let (failure, inputs) = match ruling.result {
        Ok(()) => (String::new(), None),
        Err(Failure::OfRun(reason)) => (reason.as_str().to_owned(), None),
        Err(Failure::OfInputs { code, reason }) => (String::new(), Some((code, reason))),
    };
    let noted = ruling.cautions.into_iter().map(|(code, detail)| match &inputs {
        Some((refusing, reason)) if *refusing == code => {
            Noted { reason: reason.clone(), ..Noted::new(code, detail) }
        }
        Some(_) => Noted::new(code, detail),
        None => Noted { only_shown: OF_INPUTS.contains(&code), ..Noted::new(code, detail) },
    });
    Some((failure, noted.collect()))
}

/// The receipts of the run on the original check inputs.
pub(super) fn original(input: &Evaluation<'_>, key: &str) -> Vec<EvidenceReceipt> {
    of_run(input, key, Inputs::Original)
}

fn of_run(input: &Evaluation<'_>, key: &str, inputs: Inputs) -> Vec<EvidenceReceipt> {
    let mut own =
        input.round.map_or_else(Vec::new, |round| probed_with(input.receipts, round, key, inputs));
    // As left it may run once more, with the ignored files of the steps.
    if inputs == Inputs::AsLeft {
        own.drain(..own.len().saturating_sub(1));
    }
    own
}

/// The caution about check inputs that the command of a check wrote itself, where it does not write them with the code
/// of the start. Where that is not known, it is only shown.
pub(super) fn overwritten(input: &Evaluation<'_>, round: u32, key: &str) -> Option<Noted> {
    let at_start = probed_with(input.receipts, round, key, Inputs::TestsAtStart).pop();
    let (detail, is_known) = overwritten_in(&deciding(input, round, key)?, at_start.as_ref())?;
    Some(Noted { only_shown: !is_known, ..Noted::new(CHECK_INPUTS_CHANGED, detail) })
}

/// The receipt of the run by which a check that holds is decided.
pub(super) fn deciding(input: &Evaluation<'_>, round: u32, key: &str) -> Option<EvidenceReceipt> {
    let with = |inputs| probed_with(input.receipts, round, key, inputs).pop();
    let held = |inputs| with(inputs).filter(|receipt| receipt.success);
    held(Inputs::Original)
        .or_else(|| held(Inputs::OriginalWithIgnored))
        .or_else(|| probed(input.receipts, round, Some(key)).pop())
}
