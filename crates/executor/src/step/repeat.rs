//! The repeat-cycle fuse of a step: the same call with the same result, again and again.

use super::call::Done;
use super::held::HeldRun;
use crate::fuse::repeat::{
    Repeat, RepeatCycle, Turn, result_fingerprint, signature_of, subgoal_fingerprint,
};
use serde::Deserialize;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::machine::Refusal;
use surety_common::domain::stop::StopReason;

/// Counts a call and its result. Answers whether that ended the run.
pub(super) fn record(
    draft: &mut Draft,
    run: &HeldRun,
    index: usize,
    done: &Done,
) -> Result<bool, Refusal> {
    let progress = draft.execution_mut().steps.get_mut(index).ok_or(Refusal::Meaningless)?;
    let fresh = || RepeatCycle::new(run.spec.limits.max_repeat_cycle).ok();
    // What an earlier version of this program wrote and no longer reads starts afresh.
    let Some(mut cycle) = RepeatCycle::deserialize(&progress.fuses).ok().or_else(fresh) else {
        return Ok(false);
    };
    let result = String::from_utf8_lossy(&done.outcome.output);
    let said = record_turn(
        &mut cycle,
        Turn {
            call: signature_of(&done.call.tool_call),
            result: result_fingerprint(&format!("{}\n{result}", done.outcome.summary)),
            subgoal: subgoal_fingerprint(run.graph.id(index), &[]),
        },
    );
    progress.fuses = serde_json::to_value(&cycle).unwrap_or_default();
    if said != Repeat::Terminate {
        return Ok(false);
    }
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
    Ok(true)
}

fn record_turn(cycle: &mut RepeatCycle, turn: Turn) -> Repeat {
    cycle.record(turn)
}
