//! Turns without a decision to apply, and turns that repeat: each is counted in the change that records it, which ends
//! the run after too many.

use super::completion::{MissingCompletion, Reminder};
use super::correction::{AfterRefusal, Corrections};
use super::repeat::{REMINDER, Repeat, RepeatCycle, Turn};
use serde::Deserialize;
use surety_common::domain::decision::{ExecuteDecision, Usage};
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::domain::execution::{Graph, StepProgress};
use surety_common::domain::journal::Validation;
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::problem::Warning;
use surety_common::domain::stop::StopReason;

/// A refused turn.
#[derive(Debug, Clone, Default)]
pub struct RefusedTurn {
    /// The decision; none where the reply could not be read.
    pub decision: Option<ExecuteDecision>,
    /// Its validations, of which one failed.
    pub validations: Vec<Validation>,
    /// What was corrected in the decision before it was validated.
    pub warnings: Vec<Warning>,
    /// The correction for the driver.
    pub notice: String,
    /// The cost of a reply that the driver gave at once.
    pub usage: Usage,
}

impl RefusedTurn {
    /// Counts and records it. Answers what follows from the count.
    ///
    /// # Errors
    /// [`Refusal`] when there is no such step.
    pub fn record(
        self,
        draft: &mut Draft,
        (graph, limits): (&Graph, &Limits),
        index: usize,
    ) -> Result<AfterRefusal, Refusal> {
        let mut fuse = Corrections { in_a_row: progress(draft, index)?.corrections };
        let after = fuse.refuse(limits);
        let Self { decision, validations, warnings, notice, usage } = self;
        let outcome = TurnOutcome::Corrected { notice, in_a_row: fuse.in_a_row };
        let record = TurnRecord { decision, validations, warnings, outcome, usage };
        draft.record_turn(graph, index, record)?;
        count_without_call(draft, index)?;
        Ok(after)
    }
}

/// Ends the run of a step whose decisions were refused too often in a row, the last one by `validations`.
///
/// # Errors
/// [`Refusal`] when the run has ended.
pub fn stop_for_corrections(
    draft: &mut Draft,
    (graph, limits): (&Graph, &Limits),
    index: usize,
    validations: &[Validation],
) -> Result<(), Refusal> {
    let corrections = progress(draft, index)?.corrections;
    let end = Ending {
        stop_reason: StopReason::MaxConsecutiveCorrections,
        user_message: format!(
            "Step {} was refused {corrections} times in a row: {}",
            graph.id(index),
            first_reason(validations),
        ),
        internal_reason: format!(
            "max_consecutive_corrections is {}",
            limits.max_consecutive_corrections
        ),
    };
    draft.stop(graph, end)
}

fn first_reason(validations: &[Validation]) -> String {
    let refused = validations.iter().find(|validation| !validation.passed);
    refused
        .map(|refused| match refused.code {
            Some(code) => format!("{code}: {}", refused.reason),
            None => refused.reason.clone(),
        })
        .unwrap_or_default()
}

/// Answers a reply without a decision, and ends the run after too many.
///
/// # Errors
/// [`Refusal`] when there is no such step.
pub fn remind(
    draft: &mut Draft,
    (graph, limits): (&Graph, &Limits),
    index: usize,
    count: fn(&mut MissingCompletion, &Limits) -> Reminder,
    usage: Usage,
) -> Result<(), Refusal> {
    let StepProgress { missing_completions, thinking_only, .. } = progress(draft, index)?;
    let mut fuse =
        MissingCompletion { text_only: *missing_completions, thinking_only: *thinking_only };
    let reminder = count(&mut fuse, limits);
    let outcome = TurnOutcome::Reminded {
        notice: reminder.text().to_owned(),
        missing_completions: fuse.text_only,
        thinking_only: fuse.thinking_only,
    };
    let (decision, validations, warnings) = (None, Vec::new(), Vec::new());
    let record = TurnRecord { decision, validations, warnings, outcome, usage };
    draft.record_turn(graph, index, record)?;
    count_without_call(draft, index)?;
    match reminder {
        Reminder::Normal | Reminder::FinalWarning => Ok(()),
        Reminder::Stop => draft.stop(graph, no_completion((graph, limits), index, fuse)),
    }
}

fn no_completion(
    (graph, limits): (&Graph, &Limits),
    index: usize,
    fuse: MissingCompletion,
) -> Ending {
    let MissingCompletion { text_only, thinking_only } = fuse;
    Ending {
        stop_reason: StopReason::MissingCompletionSignal,
        user_message: format!(
            "The driver of step {} sent replies without a decision until the limit was reached.",
            graph.id(index)
        ),
        internal_reason: format!(
            "{text_only} replies with text only (max_missing_completion is {}), {thinking_only} with \
             thinking only (max_thinking_only is {})",
            limits.max_missing_completion, limits.max_thinking_only
        ),
    }
}

/// The stored state of the step's repeat detector; none before the first call. State of an incompatible program
/// version is dropped.
pub fn remembered(progress: &StepProgress) -> Option<RepeatCycle> {
    match progress.fuses.is_null() {
        true => None,
        false => RepeatCycle::deserialize(&progress.fuses).ok(),
    }
}

/// Counts a call of `tool` with its result: reminds the driver, or ends the run, of turns that repeat. Answers which,
/// and stores the detector's state.
///
/// # Errors
/// [`Refusal`] when there is no such step.
pub fn count_repeat(
    draft: &mut Draft,
    (graph, limits): (&Graph, &Limits),
    index: usize,
    turn: Turn,
    tool: &str,
) -> Result<Repeat, Refusal> {
    let before = draft.execution().step(index).and_then(remembered);
    let fresh = || RepeatCycle::new(limits.max_repeat_cycle).ok();
    let Some(mut cycle) = before.or_else(fresh) else { return Ok(Repeat::Ok) };
    let repeat = cycle.record(turn);
    // What cannot be stored would be forgotten in silence: such a change is refused as a defect.
    let stored = serde_json::to_value(&cycle).map_err(|_| Refusal::Meaningless)?;
    draft.remember_fuses(index, stored);
    match repeat {
        Repeat::Ok => {}
        Repeat::Remind => draft.remind(index, REMINDER)?,
        Repeat::Terminate => {
            let end = Ending {
                stop_reason: StopReason::RepeatCycle,
                user_message: format!(
                    "Step {} repeated its call of {tool} with the same result too often.",
                    graph.id(index)
                ),
                internal_reason: format!("max_repeat_cycle is {}", limits.max_repeat_cycle),
            };
            draft.stop(graph, end)?;
        }
    }
    Ok(repeat)
}

/// Counts a turn without a call: the turns before and after it are no neighbours.
///
/// # Errors
/// [`Refusal`] when there is no such step.
pub fn count_without_call(draft: &mut Draft, index: usize) -> Result<(), Refusal> {
    // Before the first call of the step there is nothing to count.
    let Some(mut cycle) = remembered(progress(draft, index)?) else { return Ok(()) };
    cycle.record_other();
    let stored = serde_json::to_value(&cycle).map_err(|_| Refusal::Meaningless)?;
    draft.remember_fuses(index, stored);
    Ok(())
}

fn progress(draft: &Draft, index: usize) -> Result<&StepProgress, Refusal> {
    draft.execution().step(index).ok_or(Refusal::Meaningless)
}
