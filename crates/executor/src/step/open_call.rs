//! A call that was written down and whose outcome nobody recorded: the executor that started it
//! died, or the database was away for too long.
//!
//! It is never repeated blindly. A tool that may be called again is; a tool that can look whether
//! it happened looks; for anything else the run asks.

use super::call::{self, Call, CallSetup, Done};
use super::leased_run::{Ended, LeasedRun};
use super::turn;
use crate::tool::{Effect, Probe, ToolOutcome};
use surety_common::domain::check::Match;
use surety_common::domain::command::CommandLine;
use surety_common::domain::execution::{CallAnswer, OpenCall, Wait};
use surety_common::domain::json::Value;
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::Command;
use surety_common::domain::stop::WaitingOn;
use uuid::Uuid;

/// The answers the question about an open call takes.
pub(super) const CHOICES: [&str; 2] = ["repeat", "fail"];

/// Settles the open call of a step that this process just took up.
pub(super) async fn settle(
    run: &LeasedRun,
    index: usize,
    open: OpenCall,
) -> Result<Vec<usize>, Ended> {
    let (_, progress) = run.step(index).await?;
    if progress.answer == Some(CallAnswer::Fail) {
        let reason = format!("whether {} had happened could not be told", open.tool);
        return turn::fail(run, index, &reason).await;
    }
    let arguments = call::stored_arguments(&open);
    let call =
        Call { id: open.call_id, tool_call: ToolCall { name: open.tool.clone(), arguments } };
    let setup = match CallSetup::set_up(run, index, &call).await {
        Ok(setup) => setup,
        Err(_) => return ask(run, index, &open).await,
    };
    if progress.answer == Some(CallAnswer::Repeat) {
        use_up_answer(run, index).await?;
        return again(run, index, &setup, call).await;
    }
    // Looked at first even where it may be repeated: a write that is made twice would tell as its
    // facts that it changed nothing.
    let effect = serde_json::from_value(open.effect.clone()).unwrap_or(Effect::Unknown);
    match setup.probe(effect).await {
        Probe::Happened(facts) => {
            let summary = format!("{} had happened before the executor was replaced", open.tool);
            let done = Done::now(run, call, ToolOutcome::done(summary, Vec::new(), facts));
            call::conclude(run, index, done, None).await
        }
        Probe::DidNotHappen => again(run, index, &setup, call).await,
        Probe::Unknown if may_repeat(run, &setup, &call) => again(run, index, &setup, call).await,
        Probe::Unknown => ask(run, index, &open).await,
    }
}

/// Whether the tool may be called again with the same key: its own word, or, for a command, the
/// submitter's.
pub(super) fn may_repeat(run: &LeasedRun, setup: &CallSetup, call: &Call) -> bool {
    let annotations = setup.tool.spec().annotations;
    annotations.read_only
        || annotations.idempotent
        || declared_repeatable(&call.tool_call, &run.spec.policy.repeatable_commands)
}

/// Whether a command begins with the whole arguments of one that the submitter declared.
fn declared_repeatable(call: &ToolCall, declared: &[String]) -> bool {
    let Some(argv) = call.arguments.get("argv").and_then(Value::as_array) else { return false };
    let Some(argv) = argv.iter().map(|part| part.as_str().map(str::to_owned)).collect() else {
        return false;
    };
    let argv = Command::Argv(argv);
    declared
        .iter()
        .any(|line| CommandLine::of(&argv).matches(&CommandLine::parse(line), Match::Prefix))
}

/// Calls again under the same id: the intent is already in the journal.
async fn again(
    run: &LeasedRun,
    index: usize,
    setup: &CallSetup,
    call: Call,
) -> Result<Vec<usize>, Ended> {
    let done = setup.perform(run, call).await;
    call::conclude(run, index, done, None).await
}

async fn ask(run: &LeasedRun, index: usize, open: &OpenCall) -> Result<Vec<usize>, Ended> {
    let wait = Wait {
        id: Uuid::now_v7(),
        waiting_on: WaitingOn::User,
        since: run.engine.now(),
        unblocks: "AnswerQuestion with `repeat` or `fail`".to_owned(),
        question: format!(
            "Step {}: {} with {} was started at {} and nobody recorded its end. It may have \
             happened in whole, in part, or not at all. Observation, then answer `repeat` to call it \
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

/// One answer allows one repetition: should this process die in the middle of it, the question is
/// asked again.
async fn use_up_answer(run: &LeasedRun, index: usize) -> Result<(), Ended> {
    run.change_now(|draft| {
        let steps = &mut draft.execution_mut().steps;
        steps.get_mut(index).ok_or(Refusal::Meaningless)?.answer = None;
        Ok(())
    })
    .await
}
