//! One tool call of a turn: the intent of a call with effects is committed before it starts.

use super::call_setup::{Call, CallSetup, Done};
use super::conclude::{Stored, conclude};
use super::ended::Ended;
use super::history::Base;
use super::intent::{intend, opened};
use super::judge::Passed;
use super::leased_run::LeasedRun;
use super::open_call::end_call_or_ask;
use super::outcome;
use super::run_tools;
use super::worker_calls;
use crate::fuse::limits::Next;
use crate::tool::Effect;
use surety_common::crash;
use surety_common::domain::decision::ExecuteDecision;
use surety_common::domain::plan::ToolCall;
use uuid::Uuid;

/// Executes the call of a decision. Returns the steps that started because it was the last call of
/// its step.
pub(super) async fn carry_out(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    tool_call: &ToolCall,
) -> Result<Vec<usize>, Ended> {
    let call = Call { id: Uuid::now_v7(), tool_call: tool_call.clone() };
    let tools = run.tools();
    if let Some(tool) = tools.worker_tool(&call.tool_call.name) {
        return Box::pin(worker_calls::carry_out(run, index, passed, (tool, call))).await;
    }
    if let Some(tool) = tools.run_tool(&call.tool_call.name) {
        return Box::pin(run_tools::carry_out(run, index, passed, (tool, call))).await;
    }
    let setup = match CallSetup::set_up(run, index, &call).await {
        Ok(setup) => setup,
        Err(error) => {
            let done = Done::now(run, call, error.into());
            return conclude(run, index, done, Stored::Nothing(passed)).await;
        }
    };
    if !setup.tool.may_write() {
        return read(run, index, passed, (&setup, call)).await;
    }
    Box::pin(write(run, index, passed, (&setup, call))).await
}

/// Executes a call that may write, once its intent is committed.
async fn write(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (setup, call): (&CallSetup, Call),
) -> Result<Vec<usize>, Ended> {
    match intend(run, setup, &call).await {
        Err(error) => {
            let done = Done::now(run, call, error.into());
            conclude(run, index, done, Stored::Nothing(passed)).await
        }
        Ok((effect, base)) => {
            if !open(run, index, passed, &call, (&effect, Some(base))).await? {
                return Ok(Vec::new());
            }
            // The call begins once its intent is committed.
            run.settle().await?;
            crash::point("executor.after_intent");
            let done = setup.perform(run, call).await;
            crash::point("executor.after_effect");
            end_call_or_ask(run, index, done).await
        }
    }
}

/// Executes a call that only reads. What the driver says with it, or the reason that it gives, is stored first,
/// without waiting: people who follow the run see it while a long call runs. Scripts say neither.
async fn read(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (setup, call): (&CallSetup, Call),
) -> Result<Vec<usize>, Ended> {
    let ExecuteDecision { speak, reason, .. } = &passed.judgement.decision;
    let speaks = !speak.is_empty() || !reason.is_empty();
    if speaks && !Box::pin(open(run, index, passed, &call, (&Effect::None, None))).await? {
        return Ok(Vec::new());
    }
    let done = setup.perform(run, call).await;
    let stored = if speaks { Stored::Turn } else { Stored::Nothing(passed) };
    conclude(run, index, done, stored).await
}

/// Stores the intent together with the turn that decided it. Returns false when a limit forbids the turn.
async fn open(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    call: &Call,
    (effect, base): (&Effect, Option<&Base>),
) -> Result<bool, Ended> {
    let open = opened(run, call, effect)?;
    let opened = run
        .change(|draft| {
            outcome::turn(draft, run, index, Next::Call, |draft| {
                outcome::record_applied(draft, run, index, &passed.judgement, passed.usage)?;
                if let Some(base) = base {
                    base.refer(draft);
                }
                draft.open_call(&run.graph, index, open.clone())
            })
        })
        .await?;
    Ok(opened.is_some())
}
