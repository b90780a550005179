//! The turns of one step: ask the driver, take its reply, apply the decision.

use super::call_setup::called_off;
use super::ended::Ended;
use super::judge::Passed;
use super::leased_run::LeasedRun;
use super::reply::{Taken, take};
use super::{approved_call, call, open_call, outcome, repository, snapshots};
use crate::driver::{Content, Need, Next, Reply, Situation};
use crate::fuse::limits::{self, Reached, Used};
use crate::fuse::turn::{end_for_limit, short_of_budget};
use chrono::TimeDelta;
use surety_common::domain::confirmation::{CallToConfirm, call_digest};
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::execution::budget::Reservation;
use surety_common::domain::execution::{StepProgress, SuppliedReply, Wait};
use surety_common::domain::json::Value;
use surety_common::domain::plan::{PlanStep, ToolCall};
use surety_common::domain::step::StepState;
use surety_common::domain::stop::WaitingOn;
use surety_common::telemetry;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

/// Takes turns until the step no longer runs here. Returns the steps that its end started.
pub(super) async fn work_step(run: &LeasedRun, index: usize) -> Result<Vec<usize>, Ended> {
    let mut started = Vec::new();
    while started.is_empty() && run.is_step_running(index).await {
        if run.engine.drain.is_cancelled() {
            return Err(Ended::Draining);
        }
        // No intent is committed for a call that would not begin.
        if run.lease.lost.is_cancelled() {
            return Err(Ended::NotHeld);
        }
        let begun = Instant::now();
        run.engine.tools.refresh().await;
        let (step, progress) = run.step(index).await?;
        started = if let Some(open) = progress.open_call.as_deref().cloned() {
            Box::pin(open_call::settle(run, index, open)).await?
        } else if let Some(approved) = progress.approved.as_deref() {
            Box::pin(approved_call::carry_out(run, index, approved)).await?
        } else if let Some(reached) = limit_reached(run, index).await {
            let ending = run.change(|draft| end_for_limit(draft, &run.graph, index, reached));
            if !Box::pin(ending).await? {
                return Ok(Vec::new());
            }
            Vec::new()
        } else {
            let led_to = take_turn(run, index, step, &progress).await?;
            if has_taken_turn(run, index, progress.rounds).await {
                telemetry::record_turn_duration(run.spec.driver.as_str(), begun.elapsed());
            }
            led_to
        };
    }
    Ok(started)
}

/// Whether the step took a turn since it had taken so many: a pass may also only ask the driver, or end the step for a
/// limit. A step that is done has forgotten its turns, and only a turn makes it done.
async fn has_taken_turn(run: &LeasedRun, index: usize, before: u32) -> bool {
    let execution = run.execution().await;
    let step = execution.steps.get(index);
    step.is_some_and(|step| step.rounds > before || step.state == StepState::Done)
}

/// The limit that forbids another turn.
async fn limit_reached(run: &LeasedRun, index: usize) -> Option<Reached> {
    let execution = run.execution().await;
    let used = Used::of(&execution, index, run.engine.now());
    limits::reached(&run.spec.limits, &used, limits::Next::Turn)
}

async fn take_turn(
    run: &LeasedRun,
    index: usize,
    step: &PlanStep,
    progress: &StepProgress,
) -> Result<Vec<usize>, Ended> {
    let reply = match progress.reply.as_deref() {
        Some(SuppliedReply { text, usage, trace_parent, model, .. }) => {
            let (step_span, run_id) = (run.present_span(), run.spec.id.to_string());
            let number = progress.rounds.saturating_add(1);
            let span = telemetry::turn_span(&step_span, &run_id, number, trace_parent);
            let content = match model.as_deref().is_some_and(|model| model.cut) {
                true => Content::Cut,
                false => Content::Text(text.clone()),
            };
            let reply = Reply { content, usage: usage.unwrap_or_default() };
            return Box::pin(act_on(run, index, reply)).instrument(span).await;
        }
        None => match run.driver()?.next(&Situation { step, progress, failure: None }) {
            Next::Now(reply) => reply,
            Next::Later(need) => {
                return Box::pin(wait_for_reply(run, index, need, &progress.notice)).await;
            }
        },
    };
    act_on(run, index, reply).await
}

/// Takes a reply, and applies the decision in it.
async fn act_on(run: &LeasedRun, index: usize, reply: Reply) -> Result<Vec<usize>, Ended> {
    match take(run, index, reply).await? {
        Taken::Over => Ok(Vec::new()),
        Taken::Decision(passed) => apply(run, index, *passed).await,
    }
}

/// Applies a decision that passed its validations. All but a call lie in futures of their own: every future around this
/// one has its size, and is moved with it.
async fn apply(run: &LeasedRun, index: usize, passed: Passed) -> Result<Vec<usize>, Ended> {
    let decision = &passed.judgement.decision;
    match (decision.action, &decision.tool_call) {
        (Action::Continue, Some(tool_call)) => {
            call::carry_out(run, index, &passed, tool_call).await
        }
        // The validations turn a confirm of a tool that only reads into a continue.
        (Action::Confirm, Some(tool_call)) => {
            Box::pin(confirm(run, index, &passed, tool_call)).await
        }
        // The reader refuses a confirm without a call.
        (Action::Continue | Action::Confirm, None) => Box::pin(record(run, index, &passed)).await,
        (Action::NextPlan | Action::Done, _) => Box::pin(finish(run, index, &passed)).await,
        (Action::AskUser, _) => {
            let wait = question(run, index, decision);
            Box::pin(ask(run, index, &passed, wait)).await
        }
        (Action::Abort, _) => Box::pin(abort(run, index, &passed)).await,
    }
}

/// Asks for the confirmation of a call, or makes the call where a grant covers it.
async fn confirm(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    tool_call: &ToolCall,
) -> Result<Vec<usize>, Ended> {
    let wait = confirmation(run, index, &passed.judgement.decision, tool_call).await?;
    let shown = wait.confirmation.as_deref();
    let execution = run.execution().await;
    if shown.is_some_and(|call| execution.has_grant_for(call, run.engine.now())) {
        return approved_call::carry_out_granted(run, index, passed, (tool_call, &wait)).await;
    }
    ask(run, index, passed, wait).await
}

/// Records a turn that asks for nothing.
async fn record(run: &LeasedRun, index: usize, passed: &Passed) -> Result<Vec<usize>, Ended> {
    run.change(|draft| {
        outcome::turn(draft, run, index, limits::Next::Turn, |draft| {
            outcome::record_applied(draft, run, index, &passed.judgement, passed.usage)
        })
    })
    .await?;
    Ok(Vec::new())
}

/// Finishes the step, after the repository of the run has taken its files.
async fn finish(run: &LeasedRun, index: usize, passed: &Passed) -> Result<Vec<usize>, Ended> {
    let Some(accepted) = repository::accept(run).await? else {
        return Ok(Vec::new());
    };
    let Passed { judgement, usage } = passed;
    let started = run
        .change(|draft| {
            outcome::turn(draft, run, index, limits::Next::Turn, |draft| {
                outcome::record_applied(draft, run, index, judgement, *usage)?;
                accepted.refer(draft, index);
                outcome::finish(draft, run, index, &judgement.decision)
            })
        })
        .await?;
    Ok(started.unwrap_or_default())
}

/// Ends the run as the driver asks.
async fn abort(run: &LeasedRun, index: usize, passed: &Passed) -> Result<Vec<usize>, Ended> {
    let Passed { judgement, usage } = passed;
    let abort = judgement.decision.abort.clone().unwrap_or_default();
    run.change(|draft| {
        outcome::turn(draft, run, index, limits::Next::Turn, |draft| {
            outcome::record_applied(draft, run, index, judgement, *usage)?;
            draft.abort(&run.graph, abort.clone())
        })
    })
    .await?;
    Ok(Vec::new())
}

/// The driver replies later: the step waits. When no other work of the run is in progress, the run
/// releases its lease and its slot.
async fn wait_for_reply(
    run: &LeasedRun,
    index: usize,
    need: Need,
    notice: &str,
) -> Result<Vec<usize>, Ended> {
    // A driver outside this process may write without a tool call as soon as it is asked. A base that the row
    // names already is not read: the turns of most drivers do not need it.
    let base = match snapshots::has_stored_base(run).await {
        true => None,
        false => match snapshots::base(run).await {
            Ok(base) => Some(base),
            Err(error) => {
                called_off(run, &error.clone().into())?;
                return outcome::fail(run, index, &error.to_string()).await;
            }
        },
    };
    let Need { waiting_on, unblocks, of_model } = need;
    let model = of_model.then(Box::default);
    let limits = &run.spec.limits;
    let step_deadline_s = Some(limits.step_deadline_s);
    let question = notice.to_owned();
    let wait = Wait { waiting_on, unblocks, model, step_deadline_s, ..wait(run, index, question) };
    let others_ready = run
        .change(|draft| {
            if let Some(base) = base {
                base.refer(draft);
            }
            match draft.reserve(index, limits)? {
                Reservation::Made => draft.await_reply(&run.graph, index, wait.clone())?,
                Reservation::Short(shortage) => {
                    let unblocks = "call ExtendBudget with more, or with stop".to_owned();
                    let wait = Wait { unblocks, ..self::wait(run, index, String::new()) };
                    let on_budget = run.spec.policy.on_budget;
                    short_of_budget(draft, &run.graph, (index, wait), &shortage, on_budget)?;
                }
            }
            Ok(limits.has_budget() && draft.execution().steps_in(StepState::Ready).next().is_some())
        })
        .await?;
    // A step that waited for a part of the budget may start beside the others.
    if others_ready {
        run.lease.news.notify_one();
    }
    Ok(Vec::new())
}

async fn ask(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    wait: Wait,
) -> Result<Vec<usize>, Ended> {
    run.change(|draft| {
        outcome::turn(draft, run, index, limits::Next::Turn, |draft| {
            outcome::record_applied(draft, run, index, &passed.judgement, passed.usage)?;
            draft.pause_step(&run.graph, index, wait.clone())
        })
    })
    .await?;
    Ok(Vec::new())
}

fn question(run: &LeasedRun, index: usize, decision: &ExecuteDecision) -> Wait {
    let schema = decision.answer_schema.as_ref().map(Value::to_compact);
    let wait = wait(run, index, crate::decision::words(decision).to_owned());
    Wait { answer_schema: schema.unwrap_or_default(), ..wait }
}

/// A confirmation shows exactly the call, with its digest over tool, arguments and plan.
async fn confirmation(
    run: &LeasedRun,
    index: usize,
    decision: &ExecuteDecision,
    call: &ToolCall,
) -> Result<Wait, Ended> {
    let (_, progress) = run.step(index).await?;
    let asked_by = progress.reply.as_deref().map(|reply| reply.by.clone()).unwrap_or_default();
    let question = format!("{} The call: {}.", crate::decision::words(decision), call.name);
    let wait = wait(run, index, question);
    let ttl = TimeDelta::seconds(i64::try_from(run.spec.limits.confirm_ttl_s).unwrap_or(i64::MAX));
    let shown = CallToConfirm {
        digest: call_digest(call, &run.plan_digest),
        tool: call.name.clone(),
        arguments_json: call.arguments.to_compact(),
        expires_at: wait.since + ttl,
        asked_by,
    };
    Ok(Wait {
        waiting_on: WaitingOn::Approver,
        unblocks: format!(
            "an approver, or the creator of the run unless the namespace asks for four eyes, calls \
             ResolveConfirmation; `surety approve {}` shows the call",
            wait.id
        ),
        confirmation: Some(Box::new(shown)),
        ..wait
    })
}

fn wait(run: &LeasedRun, index: usize, question: String) -> Wait {
    Wait {
        question,
        step_index: Some(index),
        ..Wait::new(
            Uuid::now_v7(),
            WaitingOn::User,
            run.engine.now(),
            "call AnswerQuestion with the answer".to_owned(),
        )
    }
}
