//! The repeat-cycle fuse of a step: the same call with the same result, again and again.

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

/// What the fuse of a step remembers; none before the first call. What an earlier version of this
/// program wrote and no longer reads starts afresh.
pub(super) fn remembered(progress: &StepProgress) -> Option<RepeatCycle> {
    match progress.fuses.is_null() {
        true => None,
        false => RepeatCycle::deserialize(&progress.fuses).ok(),
    }
}

/// Counts a call and its result. Answers what the fuse remembers then, and what it says.
pub(super) fn count(
    draft: &Draft,
    run: &LeasedRun,
    index: usize,
    done: &Done,
) -> (Option<RepeatCycle>, Repeat) {
    let before = draft.execution().steps.get(index).and_then(remembered);
    let fresh = || RepeatCycle::new(run.spec.limits.max_repeat_cycle).ok();
    let Some(mut cycle) = before.or_else(fresh) else { return (None, Repeat::Ok) };
    let result = String::from_utf8_lossy(&done.outcome.output);
    let said = cycle.record(Turn {
        call: call_signature([&done.call.tool_call]),
        result: result_fingerprint(&format!("{}\n{result}", done.outcome.summary)),
        subgoal: subgoal_fingerprint(run.graph.id(index), &[]),
    });
    (Some(cycle), said)
}

/// Ends the run, whose step went round and round.
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
                "Step {} called {} again and again with the same result.",
                run.graph.id(index),
                done.call.tool_call.name
            ),
            internal_reason: format!("max_repeat_cycle is {}", run.spec.limits.max_repeat_cycle),
        },
    )?;
    Ok(Vec::new())
}

/// Keeps what the fuse remembers, unless the step is done and remembers nothing any more.
pub(super) fn keep(draft: &mut Draft, index: usize, cycle: Option<&RepeatCycle>) {
    let fuses = cycle.map(serde_json::to_value).and_then(Result::ok).unwrap_or_default();
    draft.remember_fuses(index, fuses);
}
