//! Turns within the limits: what the change that begins a turn may do, and what a reached limit ends.
//!
//! Steps that run beside one another count against the same limits, so only the change that begins a turn can tell
//! whether it may.

use super::limits::{self, Ends, Next, Reached, Used};
use std::sync::Arc;
use surety_common::domain::execution::budget::Shortage;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{Graph, StepProgress, Wait};
use surety_common::domain::limits::Limits;
use surety_common::domain::machine::Refusal;
use surety_common::domain::run::OnBudget;
use surety_common::domain::step::StepState;
use surety_common::domain::stop::StopReason;

/// Changes a run by a turn of a step, unless a limit forbids it by now. Returns none when the limit ended what it
/// ends, or when that has to wait.
///
/// # Errors
/// [`Refusal`] of the change.
pub fn begin<T>(
    draft: &mut Draft,
    (graph, limits): (&Graph, &Limits),
    (index, next): (usize, Next),
    change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    let used = Used::of(draft.execution(), index, draft.now());
    match limits::reached(limits, &used, next) {
        None => change(draft).map(Some),
        Some(reached) => end_for_limit(draft, graph, index, reached).map(|_| None),
    }
}

/// Ends what a reached limit ends: the step, or the run. Returns whether it is ended. A run with a call in progress
/// is not: the call counts against the limit, so its outcome is recorded first.
///
/// # Errors
/// [`Refusal`] when there is nothing to end.
pub fn end_for_limit(
    draft: &mut Draft,
    graph: &Graph,
    index: usize,
    reached: Reached,
) -> Result<bool, Refusal> {
    match reached.ends {
        Ends::Step => draft.fail_step(graph, index, reached.to_string()).map(|()| true),
        Ends::Run(stop_reason) => {
            let Reached { name, limit, .. } = reached;
            let end = match stop_reason == StopReason::DeadlineExceeded {
                true => Ending::late(limit),
                false => Ending {
                    stop_reason,
                    user_message: format!("The run used all of its {limit} turns."),
                    internal_reason: format!("{name} is {limit}"),
                },
            };
            end_run(draft, graph, end)
        }
    }
}

/// A turn for which a budget has nothing left: the step waits for a larger budget, or for what other steps release.
/// Where the policy says so and no other step can release anything, the run ends instead.
///
/// # Errors
/// [`Refusal`] unless the step is running.
pub fn short_of_budget(
    draft: &mut Draft,
    graph: &Graph,
    (index, wait): (usize, Wait),
    shortage: &Shortage,
    on_budget: OnBudget,
) -> Result<(), Refusal> {
    if on_budget == OnBudget::Fail && shortage.is_final() {
        return end_run(draft, graph, shortage.ending()).map(drop);
    }
    draft.await_budget(graph, index, wait, shortage)
}

/// Ends the run. Returns false while a call is in progress, whose outcome is recorded first.
fn end_run(draft: &mut Draft, graph: &Graph, end: Ending) -> Result<bool, Refusal> {
    let calls =
        |step: &Arc<StepProgress>| step.state == StepState::Running && step.open_call.is_some();
    if draft.execution().steps.iter().any(calls) {
        return Ok(false);
    }
    draft.stop(graph, end).map(|()| true)
}
