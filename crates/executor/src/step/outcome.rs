//! How a turn or a step ends: the changes that several modules make in the same way.

use super::ended::Ended;
use super::judge::Judgement;
use super::leased_run::LeasedRun;
use crate::fuse::limits::{self, Ends, Next, Reached, Used};
use std::sync::Arc;
use surety_common::domain::decision::{ExecuteDecision, Usage};
use surety_common::domain::execution::StepProgress;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::turns::{TurnOutcome, TurnRecord};
use surety_common::domain::machine::Refusal;
use surety_common::domain::run::DriverKind;
use surety_common::domain::step::StepState;
use surety_common::domain::stop::StopReason;

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
    let used = Used::of(draft.execution(), index, draft.now());
    match limits::reached(&run.spec.limits, &used, next) {
        None => change(draft).map(Some),
        Some(reached) => end_for_limit(draft, run, index, reached).map(|_| None),
    }
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
    draft.record_turn(&run.graph, index, record)
}

/// Ends the step and starts the steps that it makes ready, without a queue.
pub(super) fn finish(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    decision: &ExecuteDecision,
) -> Result<Vec<usize>, Refusal> {
    draft.finish_step(&run.graph, index, &decision.goal_check)?;
    if run.spec.driver != DriverKind::Script && draft.execution().is_work_over() {
        draft.set_final_answer(decision.last_word());
    }
    draft.lease_steps(&run.graph, run.spec.limits.max_parallel_steps)
}

/// Fails the step.
pub(super) async fn fail(run: &LeasedRun, index: usize, reason: &str) -> Result<Vec<usize>, Ended> {
    run.change(|draft| draft.fail_step(&run.graph, index, reason)).await?;
    Ok(Vec::new())
}

/// Ends what a reached limit ends: the step, or the run. Returns whether it is ended. A run with a call in progress
/// is not: the call counts against the limit, so its outcome is recorded first.
pub(super) fn end_for_limit(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    reached: Reached,
) -> Result<bool, Refusal> {
    let calls =
        |step: &Arc<StepProgress>| step.state == StepState::Running && step.open_call.is_some();
    match reached.ends {
        Ends::Step => draft.fail_step(&run.graph, index, &reached.to_string()).map(|()| true),
        Ends::Run if draft.execution().steps.iter().any(calls) => Ok(false),
        Ends::Run => {
            let Reached { name, limit, .. } = reached;
            let end = Ending {
                stop_reason: StopReason::MaxRoundsReached,
                user_message: format!("The run used all of its {limit} turns."),
                internal_reason: format!("{name} is {limit}"),
            };
            draft.stop(&run.graph, end).map(|()| true)
        }
    }
}
