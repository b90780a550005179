//! The repeat limit of a step: the same call with the same result too often.

use super::call_setup::Done;
use super::leased_run::LeasedRun;
use crate::fuse::repeat::{
    Repeat, RepeatCycle, Turn, call_signature, result_fingerprint, subgoal_fingerprint,
};
use serde::Deserialize;
use surety_common::domain::execution::StepProgress;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::machine::Refusal;
use surety_common::domain::stop::StopReason;

/// The stored state of the step's detector; none before the first call. State of an incompatible
/// program version is dropped.
pub(super) fn remembered(progress: &StepProgress) -> Option<RepeatCycle> {
    match progress.fuses.is_null() {
        true => None,
        false => RepeatCycle::deserialize(&progress.fuses).ok(),
    }
}

/// Counts a call and its result. Returns the new state of the detector, and its result.
pub(super) fn count(
    draft: &Draft,
    run: &LeasedRun,
    index: usize,
    done: &Done,
) -> (Option<RepeatCycle>, Repeat) {
    let before = draft.execution().step(index).and_then(remembered);
    let fresh = || RepeatCycle::new(run.spec.limits.max_repeat_cycle).ok();
    let Some(mut cycle) = before.or_else(fresh) else { return (None, Repeat::Ok) };
    let result = String::from_utf8_lossy(&done.outcome.output);
    let todos = draft.execution().todos.current(&run.plan.todos);
    let open = todos.iter().filter(|todo| !todo.status.is_terminal());
    let open: Vec<&str> = open.map(|todo| todo.id.as_str()).collect();
    let said = cycle.record(Turn {
        call: call_signature([&done.call.tool_call]),
        result: result_fingerprint(&format!("{}\n{result}", done.outcome.summary)),
        subgoal: subgoal_fingerprint(run.graph.id(index), &open),
    });
    (Some(cycle), said)
}

/// Ends the run because of repeated turns.
pub(super) fn stop(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    done: &Done,
) -> Result<Vec<usize>, Refusal> {
    draft.stop(
        &run.graph,
        Ending {
            stop_reason: StopReason::RepeatCycle,
            user_message: format!(
                "Step {} repeated its call of {} with the same result too often.",
                run.graph.id(index),
                done.call.tool_call.name
            ),
            internal_reason: format!("max_repeat_cycle is {}", run.spec.limits.max_repeat_cycle),
        },
    )?;
    Ok(Vec::new())
}

/// Stores the detector's state, unless the step is done.
pub(super) fn keep(draft: &mut Draft, index: usize, cycle: Option<&RepeatCycle>) {
    let fuses = cycle.map(serde_json::to_value).and_then(Result::ok).unwrap_or_default();
    draft.remember_fuses(index, fuses);
}
