//! A call that was written down and whose outcome nobody recorded: the executor that started it
//! died, or the database was away for too long.
//!
//! It is never repeated blindly. A tool that may be called again is; a tool that can look whether
//! it happened looks; for anything else the run asks.

use super::call::{self, Call, Done};
use super::held::{Ended, HeldRun};
use super::turn;
use crate::tool::{Effect, Probe, ToolContext, ToolOutcome};
use surety_common::domain::execution::{CallAnswer, OpenCall, Wait};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::stop::WaitingOn;
use uuid::Uuid;

/// The answers the question about an open call takes.
pub(super) const CHOICES: [&str; 2] = ["repeat", "fail"];

/// Settles the open call of a step that this process just took up.
pub(super) async fn settle(
    run: &HeldRun,
    index: usize,
    open: OpenCall,
) -> Result<Vec<usize>, Ended> {
    let (step, progress) = run.step(index).await?;
    let context = call::context(run, &step);
    let arguments = call::stored_arguments(&open);
    let call =
        Call { id: open.call_id, tool_call: ToolCall { name: open.tool.clone(), arguments } };
    match progress.answer {
        Some(CallAnswer::Repeat) => return again(run, index, &context, call).await,
        Some(CallAnswer::Fail) => {
            let reason = format!("whether {} had happened could not be told", open.tool);
            return give_up(run, index, &reason).await;
        }
        None => {}
    }
    if may_repeat(run, &call) {
        return again(run, index, &context, call).await;
    }
    match probe(run, &context, &open) {
        Probe::Happened(facts) => {
            let outcome = ToolOutcome::found_done(&open.tool, facts);
            call::conclude(run, index, Done::now(run, call, outcome), None).await
        }
        Probe::DidNotHappen => again(run, index, &context, call).await,
        Probe::Unknown => ask(run, index, &open).await,
    }
}

/// Whether the tool may be called again with the same key: its own word, or, for a command, the
/// submitter's.
fn may_repeat(run: &HeldRun, call: &Call) -> bool {
    run.engine.tools.get(&call.tool_call.name).is_some_and(|tool| {
        let annotations = &tool.spec().annotations;
        annotations.read_only
            || annotations.idempotent
            || tool.is_repeatable(&call.tool_call.arguments, &run.spec.policy.repeatable_commands)
    })
}

fn probe(run: &HeldRun, context: &ToolContext, open: &OpenCall) -> Probe {
    let effect: Result<Effect, _> = serde_json::from_value(open.effect.clone());
    match (run.engine.tools.get(&open.tool), effect) {
        (Some(tool), Ok(effect)) => tool.probe(context, &effect),
        (None, _) | (_, Err(_)) => Probe::Unknown,
    }
}

/// Calls again under the same id: the intent is already in the journal.
async fn again(
    run: &HeldRun,
    index: usize,
    context: &ToolContext,
    call: Call,
) -> Result<Vec<usize>, Ended> {
    let done = call::perform(run, context, call).await;
    call::conclude(run, index, done, None).await
}

async fn ask(run: &HeldRun, index: usize, open: &OpenCall) -> Result<Vec<usize>, Ended> {
    let wait = Wait {
        id: Uuid::now_v7(),
        waiting_on: WaitingOn::User,
        since: run.engine.now(),
        unblocks: "AnswerQuestion with `repeat` or `fail`".to_owned(),
        question: format!(
            "Step {}: {} with {} was started at {} and nobody recorded its end. It may have \
             happened in whole, in part, or not at all. Look, then answer `repeat` to call it \
             again or `fail` to end the step.",
            run.graph.id(index),
            open.tool,
            open.arguments_json,
            open.intended_at.to_rfc3339(),
        ),
        choices: CHOICES.map(str::to_owned).to_vec(),
        step_index: Some(index),
    };
    run.change(|draft| draft.pause_step(&run.graph, index, wait.clone())).await?;
    Ok(Vec::new())
}

async fn give_up(run: &HeldRun, index: usize, reason: &str) -> Result<Vec<usize>, Ended> {
    turn::fail(run, index, reason).await
}
