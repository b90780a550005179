//! The turns of one step: decide, validate, apply.

use super::leased_run::{Ended, LeasedRun};
use super::{call, judge, open_call, work};
use crate::driver::{Move, script};
use surety_common::domain::decision::{Abort, Action, ExecuteDecision};
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::execution::{StepProgress, Wait};
use surety_common::domain::journal::{Entry, Turn, Validation};
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::PlanStep;
use surety_common::domain::problem::Code;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::telemetry;
use tokio::time::Instant;
use uuid::Uuid;

/// Takes turns until the step is no longer running here. Answers the steps that its end started.
pub(super) async fn work_step(run: &LeasedRun, index: usize) -> Result<Vec<usize>, Ended> {
    let mut started = Vec::new();
    while started.is_empty() && work::is_running(run, index).await {
        if run.engine.drain.is_cancelled() {
            return Err(Ended::Draining);
        }
        // Before anything is written down that would not be begun.
        if run.lost.is_cancelled() {
            return Err(Ended::NotHeld);
        }
        let begun = Instant::now();
        let (step, progress) = run.step(index).await?;
        started = if let Some(open) = progress.open_call.as_deref().cloned() {
            open_call::settle(run, index, open).await?
        } else if let Some(reason) = spent(run, &progress).await {
            fail(run, index, &reason).await?
        } else {
            take_turn(run, index, step, &progress).await?
        };
        telemetry::record_turn_duration(run.spec.driver.as_str(), begun.elapsed());
    }
    Ok(started)
}

/// The fuse that ends this attempt before another turn, in words.
async fn spent(run: &LeasedRun, progress: &StepProgress) -> Option<String> {
    let limits = &run.spec.limits;
    if progress.rounds >= limits.max_step_rounds {
        return Some(format!("max_step_rounds ({}) is reached", limits.max_step_rounds));
    }
    let deadline = chrono::TimeDelta::try_seconds(i64::try_from(limits.step_deadline_s).ok()?)?;
    let started_at = progress.started_at?;
    (run.engine.now() - started_at >= deadline)
        .then(|| format!("step_deadline ({} s) is over", limits.step_deadline_s))
}

async fn take_turn(
    run: &LeasedRun,
    index: usize,
    step: &PlanStep,
    progress: &StepProgress,
) -> Result<Vec<usize>, Ended> {
    let rounds = run.execution().await.counters.rounds;
    if rounds >= run.spec.limits.max_run_rounds {
        return stop(run, max_rounds(run)).await;
    }
    let decision = match script::next_move(step, progress.script_position, None) {
        Move::Decide(decision) => *decision,
        Move::Replan(reason) => return fail(run, index, &reason).await,
    };
    let calls = run.spec.limits.max_step_tool_calls;
    if decision.tool_call.is_some() && progress.tool_calls >= calls {
        return fail(run, index, &format!("max_step_tool_calls ({calls}) is reached")).await;
    }
    let judgement = judge::judge(run, index, &decision).await?;
    if !judgement.passed() {
        return correct(run, index, judgement).await;
    }
    apply(run, index, judgement).await
}

/// Applies a decision that passed its validations.
async fn apply(
    run: &LeasedRun,
    index: usize,
    judgement: judge::Judgement,
) -> Result<Vec<usize>, Ended> {
    let decision = judgement.decision.clone();
    match (decision.action, &decision.tool_call) {
        (Action::Continue | Action::Confirm, Some(tool_call)) => {
            call::carry_out(run, index, &judgement, tool_call).await
        }
        (Action::Continue | Action::Confirm, None) => {
            run.change(|draft| record(draft, run, index, &judgement, "")).await?;
            Ok(Vec::new())
        }
        (Action::NextPlan | Action::Done, _) => {
            run.change(|draft| {
                record(draft, run, index, &judgement, "")?;
                finish(draft, run, index, &decision)
            })
            .await
        }
        (Action::AskUser, _) => ask(run, index, &judgement).await,
        (Action::Abort, _) => {
            let end = aborted(decision.abort.unwrap_or_default());
            run.change(|draft| {
                record(draft, run, index, &judgement, "")?;
                draft.stop(&run.graph, end.clone())
            })
            .await?;
            Ok(Vec::new())
        }
    }
}

/// Journals the turn and counts it.
pub(super) fn record(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    judgement: &judge::Judgement,
    correction: &str,
) -> Result<(), Refusal> {
    draft.execution_mut().counters.rounds += 1;
    let progress = draft.execution_mut().steps.get_mut(index).ok_or(Refusal::Meaningless)?;
    progress.rounds += 1;
    if correction.is_empty() {
        progress.corrections = 0;
    } else {
        progress.corrections += 1;
    }
    let turn = Turn {
        step_id: run.graph.id(index).to_owned(),
        attempt: progress.attempt,
        number: progress.rounds,
        decision: Some(judgement.decision.clone()),
        validations: judgement.validations.clone(),
        correction: correction.to_owned(),
    };
    draft.journal(Entry::Turn(Box::new(turn)));
    Ok(())
}

/// Ends the step and starts what its end made ready, so that the next step needs no queue.
pub(super) fn finish(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    decision: &ExecuteDecision,
) -> Result<Vec<usize>, Refusal> {
    draft.finish_step(&run.graph, index, &decision.goal_check)?;
    draft.lease_steps(&run.graph, run.spec.limits.max_parallel_steps)
}

/// Fails the step.
pub(super) async fn fail(run: &LeasedRun, index: usize, reason: &str) -> Result<Vec<usize>, Ended> {
    run.change(|draft| draft.fail_step(&run.graph, index, reason)).await?;
    Ok(Vec::new())
}

async fn stop(run: &LeasedRun, end: Ending) -> Result<Vec<usize>, Ended> {
    run.change(|draft| draft.stop(&run.graph, end.clone())).await?;
    Ok(Vec::new())
}

/// Records a refused decision with what the driver is told, and stops the run after too many.
async fn correct(
    run: &LeasedRun,
    index: usize,
    judgement: judge::Judgement,
) -> Result<Vec<usize>, Ended> {
    let limit = run.spec.limits.max_consecutive_corrections;
    let correction = judgement.correction();
    let fuse = judgement.validations.iter().find(|said| said.code == Some(Code::FuseReached));
    run.change(|draft| {
        record(draft, run, index, &judgement, &correction)?;
        // A fuse that has gone stays gone: no other answer would get the step any further.
        if let Some(fuse) = fuse {
            return draft.fail_step(&run.graph, index, &fuse.reason);
        }
        let corrections = draft.execution().steps.get(index).map_or(0, |step| step.corrections);
        if corrections < limit {
            return Ok(());
        }
        draft.stop(
            &run.graph,
            Ending {
                stop_reason: StopReason::MaxConsecutiveCorrections,
                user_message: format!(
                    "Step {} was refused {corrections} times in a row: {}",
                    run.graph.id(index),
                    first_reason(&judgement.validations),
                ),
                internal_reason: format!("max_consecutive_corrections is {limit}"),
            },
        )
    })
    .await?;
    Ok(Vec::new())
}

fn first_reason(validations: &[Validation]) -> String {
    validations
        .iter()
        .find(|validation| !validation.passed)
        .map(|refused| match refused.code {
            Some(code) => format!("{code}: {}", refused.reason),
            None => refused.reason.clone(),
        })
        .unwrap_or_default()
}

async fn ask(
    run: &LeasedRun,
    index: usize,
    judgement: &judge::Judgement,
) -> Result<Vec<usize>, Ended> {
    let wait = Wait {
        id: Uuid::now_v7(),
        waiting_on: WaitingOn::User,
        since: run.engine.now(),
        unblocks: "AnswerQuestion with the answer".to_owned(),
        question: judgement.decision.speak.clone(),
        choices: Vec::new(),
        step_index: Some(index),
    };
    run.change(|draft| {
        record(draft, run, index, judgement, "")?;
        draft.pause_step(&run.graph, index, wait.clone())
    })
    .await?;
    Ok(Vec::new())
}

fn aborted(abort: Abort) -> Ending {
    Ending {
        stop_reason: StopReason::Aborted,
        user_message: abort.user_message,
        internal_reason: match abort.code.is_empty() {
            true => abort.internal_reason,
            false => format!("{}: {}", abort.code, abort.internal_reason),
        },
    }
}

fn max_rounds(run: &LeasedRun) -> Ending {
    let limit = run.spec.limits.max_run_rounds;
    Ending {
        stop_reason: StopReason::MaxRoundsReached,
        user_message: format!("The run took all of its {limit} turns."),
        internal_reason: format!("max_run_rounds is {limit}"),
    }
}
