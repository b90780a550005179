//! An indeterminate call: its intent is committed and no outcome is recorded, because its executor
//! died or the database was away for too long.
//!
//! It is never repeated blindly. A read-only or idempotent tool is called again, a tool with a probe
//! is probed, and for any other tool the run asks a person.

use super::call_setup::{Call, CallSetup, Done, stored_arguments};
use super::conclude::{Stored, conclude};
use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::{outcome, recorded, run_tools, worker_calls};
use crate::tool::{Effect, ErrorCode, Probe, RunTool, ToolOutcome, redacted};
use surety_common::domain::execution::{CallAnswer, OpenCall, Wait};
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::EvidenceSource;
use surety_common::domain::stop::WaitingOn;
use uuid::Uuid;

/// The accepted answers about an open call.
pub(super) const CHOICES: [CallAnswer; 3] = CallAnswer::ALL;

/// Settles the open call of a step that this process has just leased.
pub(super) async fn settle(
    run: &LeasedRun,
    index: usize,
    open: OpenCall,
) -> Result<Vec<usize>, Ended> {
    let (_, progress) = run.step(index).await?;
    // A worker's answer, and the end of a sleep, are read from the row: they begin no call.
    let begins_none =
        progress.worker_call.is_some() || run.tools().run_tool(&open.tool) == Some(RunTool::Sleep);
    let is_due = progress.answer.is_some() || !begins_none;
    if is_due && !recorded::is_open(run, index, (&open, &progress)).await? {
        return Ok(Vec::new());
    }
    if progress.answer == Some(CallAnswer::Fail) {
        let reason = format!("it is unknown whether {} had happened", open.tool);
        return outcome::fail(run, index, &reason).await;
    }
    let arguments = stored_arguments(&open);
    let call =
        Call { id: open.call_id, tool_call: ToolCall { name: open.tool.clone(), arguments } };
    if run.tools().run_tool(&open.tool) == Some(RunTool::Sleep) {
        return run_tools::end_sleep(run, index, call, open).await;
    }
    if progress.answer == Some(CallAnswer::Happened) {
        return testified(run, index, call, &progress.answered_by).await;
    }
    if let Some(task) = progress.worker_call.as_deref() {
        if progress.answer == Some(CallAnswer::Repeat) {
            use_up_answer(run, index).await?;
            return worker_calls::again(run, index, call, open).await;
        }
        return match worker_calls::settle(run, index, task, (call, &open)).await? {
            Some(started) => Ok(started),
            None => ask(run, index, &open).await,
        };
    }
    // A server of tools may have been listed since this executor took the run.
    run.tools_with(Some(&open.tool)).await;
    let setup = match CallSetup::set_up(run, index, &call).await {
        Ok(setup) => setup,
        Err(error) => return ask_because(run, index, &open, &error.message).await,
    };
    if progress.answer == Some(CallAnswer::Repeat) {
        use_up_answer(run, index).await?;
        return again(run, index, &setup, call).await;
    }
    // Probed first even if it may be repeated: the facts of a repeated write would record no
    // change.
    let effect = serde_json::from_value(open.effect.clone()).unwrap_or(Effect::Unknown);
    match setup.probe(effect).await {
        Probe::Happened(facts) => {
            let summary = format!("{} had happened before the executor was replaced", open.tool);
            let done = Done::now(run, call, ToolOutcome::done(summary, Vec::new(), facts));
            conclude(run, index, done, Stored::Turn).await
        }
        Probe::DidNotHappen => again(run, index, &setup, call).await,
        Probe::Unknown if setup.may_repeat(run, &call) => again(run, index, &setup, call).await,
        Probe::Unknown => ask(run, index, &open).await,
    }
}

/// Records a person's word that the call happened. It has no facts: what a check asks for, the runner
/// still observes itself.
async fn testified(
    run: &LeasedRun,
    index: usize,
    call: Call,
    by: &str,
) -> Result<Vec<usize>, Ended> {
    let summary =
        format!("{by} saw that {} happened; no executor recorded it", call.tool_call.name);
    let outcome = ToolOutcome::done(summary, Vec::new(), Vec::new());
    let done = Done { source: Some(EvidenceSource::UserReply), ..Done::now(run, call, outcome) };
    conclude(run, index, done, Stored::Turn).await
}

/// Calls again with the same id: the intent is already in the journal.
async fn again(
    run: &LeasedRun,
    index: usize,
    setup: &CallSetup,
    call: Call,
) -> Result<Vec<usize>, Ended> {
    // Its outcome can only be recorded for a step that has begun in the row.
    run.settle().await?;
    let done = setup.perform(run, call).await;
    end_call_or_ask(run, index, done).await
}

/// Records the outcome of a call whose intent is committed. One that was lost in the middle has none: a person is asked.
pub(super) async fn end_call_or_ask(
    run: &LeasedRun,
    index: usize,
    done: Done,
) -> Result<Vec<usize>, Ended> {
    let is_asked = done.outcome.error_code == Some(ErrorCode::OutcomeUnknown);
    if !is_asked && !is_blind(run, &done) {
        return conclude(run, index, done, Stored::Intent).await;
    }
    let (_, progress) = run.step(index).await?;
    let Some(open) = progress.open_call.as_deref() else {
        return conclude(run, index, done, Stored::Intent).await;
    };
    let outcome = redacted(run.engine.secrets.redactor(), done.outcome);
    ask_because(run, index, open, &outcome.summary).await
}

/// Whether a script would make a call again that may have had its effect: a server outside got it and did not say what it came to.
/// A driver that thinks reads that and decides.
fn is_blind(run: &LeasedRun, done: &Done) -> bool {
    let is_unsaid = matches!(
        done.outcome.error_code,
        Some(ErrorCode::Timeout | ErrorCode::TooLarge | ErrorCode::McpProtocolError)
    );
    let (tools, name) = (run.tools(), &done.call.tool_call.name);
    let is_outside = tools.outsider(name).is_some();
    let may_repeat = tools.get(name).is_some_and(|tool| tool.spec().annotations.may_repeat());
    is_unsaid && is_outside && !may_repeat && !run.spec.driver.thinks()
}

async fn ask(run: &LeasedRun, index: usize, open: &OpenCall) -> Result<Vec<usize>, Ended> {
    ask_because(run, index, open, "").await
}

async fn ask_because(
    run: &LeasedRun,
    index: usize,
    open: &OpenCall,
    why: &str,
) -> Result<Vec<usize>, Ended> {
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    let wait = Wait {
        question: format!(
            "Step {}: {} with {} was started at {} and no end was recorded{why}. It may have \
             happened in whole, in part, or not at all. Check it, then answer `repeat` to call it \
             again, `happened` if you saw that it happened, or `fail` to end the step.",
            run.graph.id(index),
            open.tool,
            open.arguments_json,
            open.intended_at.to_rfc3339(),
        ),
        choices: CHOICES.map(|answer| answer.as_str().to_owned()).to_vec(),
        step_index: Some(index),
        ..Wait::new(
            Uuid::now_v7(),
            WaitingOn::User,
            run.engine.now(),
            "AnswerQuestion with `repeat`, `happened` or `fail`".to_owned(),
        )
    };
    run.change(|draft| draft.pause_step(&run.graph, index, wait.clone())).await?;
    Ok(Vec::new())
}

/// One answer allows one repetition: if this process dies during it, the question is asked again.
async fn use_up_answer(run: &LeasedRun, index: usize) -> Result<(), Ended> {
    run.change_now(|draft| draft.answer_call(index, None)).await
}
