//! How a turn or a step ends: the changes that several modules make in the same way.

use super::ended::Ended;
use super::judge::Judgement;
use super::leased_run::LeasedRun;
use crate::fuse::limits::Next;
use crate::fuse::replies;
use crate::fuse::turn as fuse;
use surety_common::domain::decision::{Action, ExecuteDecision, Usage};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::domain::journal::Cause;
use surety_common::domain::machine::Refusal;
use surety_common::domain::run::DriverKind;

/// Why a step ended whose driver sent a completion signal without other text.
const SIGNALLED: &str = "the driver signalled completion";

/// Changes a run by a turn, unless a limit forbids it by now: steps that run beside this one count against the
/// same limits, so only the change that begins the turn can tell. Returns none when the limit ended what it ends,
/// or when that has to wait.
pub(super) fn turn<T>(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    next: Next,
    change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    fuse::begin(draft, (&run.graph, &run.spec.limits), (index, next), change)
}

/// Records a turn whose decision is applied.
pub(super) fn record_applied(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    judgement: &Judgement,
    usage: Usage,
) -> Result<(), Refusal> {
    let record = TurnRecord {
        decision: Some(judgement.decision.clone()),
        validations: judgement.validations.clone(),
        warnings: judgement.warnings.clone(),
        outcome: TurnOutcome::Applied,
        usage,
    };
    draft.record_turn(&run.graph, index, record)?;
    let Judgement { decision, .. } = judgement;
    let goes_on = matches!(decision.action, Action::Continue | Action::Confirm | Action::AskUser);
    match &decision.tool_call {
        None if goes_on => replies::count_without_call(draft, index),
        None | Some(_) => Ok(()),
    }
}

/// Ends the step and starts the steps that it makes ready, without a queue.
pub(super) fn finish(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    decision: &ExecuteDecision,
) -> Result<Vec<usize>, Refusal> {
    let cause: Cause = match decision.goal_check.as_str() {
        "" => SIGNALLED.into(),
        goal_check => goal_check.to_owned().into(),
    };
    draft.finish_step(&run.graph, index, cause)?;
    if run.spec.driver != DriverKind::Script && draft.execution().is_work_over() {
        draft.set_final_answer(decision.last_word());
    }
    draft.lease_steps(&run.graph, run.spec.limits.max_parallel_steps)
}

/// Fails the step.
pub(super) async fn fail(run: &LeasedRun, index: usize, reason: &str) -> Result<Vec<usize>, Ended> {
    run.change(|draft| draft.fail_step(&run.graph, index, reason.to_owned())).await?;
    Ok(Vec::new())
}
