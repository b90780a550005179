//! One tool call: written down before it is started when it can change something, carried out,
//! and recorded with what it showed.

use super::held::{Ended, HeldRun};
use super::judge::Judgement;
use super::{evidence, turn};
use crate::driver::{Move, script};
use crate::tool::{Effect, ToolContext, ToolOutcome};
use std::time::Duration;
use surety_common::domain::decision::Action;
use surety_common::domain::execution::OpenCall;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::journal::{Entry, Intent};
use surety_common::domain::json::{self, Value};
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::{PlanStep, ToolCall};
use uuid::Uuid;

/// Carries out a validated call. Answers the steps that were started by the step's end, when this
/// was its last call.
pub(super) async fn carry_out(
    run: &HeldRun,
    index: usize,
    judgement: &Judgement,
    tool_call: &ToolCall,
) -> Result<Vec<usize>, Ended> {
    let (step, progress) = run.step(index).await?;
    if progress.tool_calls >= run.spec.limits.max_step_tool_calls {
        let limit = run.spec.limits.max_step_tool_calls;
        return turn::fail(run, index, &format!("max_step_tool_calls ({limit}) is reached")).await;
    }
    let context = context(run, &step);
    let call = Call { id: Uuid::now_v7(), tool_call: tool_call.clone() };
    let Some(tool) = run.engine.tools.get(&tool_call.name) else {
        // The flow validation knows the same tools.
        return Err(Ended::Refused(Refusal::Meaningless));
    };
    match tool.intend(&context, &tool_call.arguments) {
        Err(error) => {
            let outcome = ToolOutcome::refused(&error);
            let done = Done::now(run, call, outcome);
            conclude(run, index, done, Some(judgement)).await
        }
        Ok(Effect::None) => {
            let done = perform(run, &context, call).await;
            conclude(run, index, done, Some(judgement)).await
        }
        Ok(effect) => {
            intend(run, index, judgement, &call, &effect).await?;
            let done = perform(run, &context, call).await;
            conclude(run, index, done, None).await
        }
    }
}

/// A call with its id, which is its idempotency key in every repetition.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: Uuid,
    pub(super) tool_call: ToolCall,
}

/// A call and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) call: Call,
    pub(super) outcome: ToolOutcome,
    pub(super) started_at: chrono::DateTime<chrono::Utc>,
    pub(super) finished_at: chrono::DateTime<chrono::Utc>,
}

impl Done {
    /// An outcome that took no time.
    pub(super) fn now(run: &HeldRun, call: Call, outcome: ToolOutcome) -> Self {
        let now = run.engine.now();
        Self { call, outcome, started_at: now, finished_at: now }
    }
}

/// What a step's calls may touch, and for how long.
pub(super) fn context(run: &HeldRun, step: &PlanStep) -> ToolContext {
    let deadline = Duration::from_secs(run.spec.limits.step_deadline_s);
    ToolContext::new(run.workspace.clone(), &step.write_scope, deadline, run.lost.child_token())
}

/// Writes the effect down, with the turn that wants it.
async fn intend(
    run: &HeldRun,
    index: usize,
    judgement: &Judgement,
    call: &Call,
    effect: &Effect,
) -> Result<(), Ended> {
    let arguments_json = call.tool_call.arguments.to_compact();
    let effect = serde_json::to_value(effect)
        .map_err(|error| surety_common::store::StoreError::Corrupt {
            what: "the effect of a call".to_owned(),
            why: error.to_string(),
        })?;
    let intended_at = run.engine.now();
    run.change(|draft| {
        turn::record(draft, run, index, judgement, "")?;
        draft.journal(Entry::Intent(Intent {
            step_id: run.graph.id(index).to_owned(),
            call_id: call.id,
            tool: call.tool_call.name.clone(),
            arguments_json: arguments_json.clone(),
        }));
        let progress = draft.execution_mut().steps.get_mut(index).ok_or(Refusal::Meaningless)?;
        progress.open_call = Some(OpenCall {
            call_id: call.id,
            tool: call.tool_call.name.clone(),
            arguments_json: arguments_json.clone(),
            effect: effect.clone(),
            intended_at,
        });
        Ok(())
    })
    .await
}

/// Starts the tool and waits for its end.
pub(super) async fn perform(run: &HeldRun, context: &ToolContext, call: Call) -> Done {
    let started_at = run.engine.now();
    let outcome = match run.engine.tools.get(&call.tool_call.name) {
        Some(tool) => tool.call(context, &call.tool_call.arguments).await,
        None => ToolOutcome::unknown(&call.tool_call.name),
    };
    Done { call, outcome, started_at, finished_at: run.engine.now() }
}

/// Records the outcome. For a script, what follows from it is known at once and goes into the same
/// transaction: the step's end after its last call, or its failure after one that failed.
pub(super) async fn conclude(
    run: &HeldRun,
    index: usize,
    done: Done,
    judgement: Option<&Judgement>,
) -> Result<Vec<usize>, Ended> {
    if run.lost.is_cancelled() {
        return Err(Ended::NotHeld);
    }
    if interrupted(run, &done) {
        return Err(Ended::Draining);
    }
    let record = evidence::record(run, index, &done);
    run.change_with(record.artifacts.clone(), |draft| {
        if let Some(judgement) = judgement {
            turn::record(draft, run, index, judgement, "")?;
        }
        draft.receipt(record.receipt.clone());
        draft.journal(Entry::Output(record.output.clone()));
        draft.execution_mut().counters.tool_calls += 1;
        let progress = draft.execution_mut().steps.get_mut(index).ok_or(Refusal::Meaningless)?;
        progress.open_call = None;
        progress.answer = None;
        progress.tool_calls += 1;
        if done.outcome.success {
            progress.proofs += 1;
            progress.script_position += 1;
        }
        follow(draft, run, index, &done)
    })
    .await
}

/// A drain that cut a call short leaves it open: nobody knows how far it came.
fn interrupted(run: &HeldRun, done: &Done) -> bool {
    run.engine.drain.is_cancelled() && done.outcome.cancelled
}

/// What a script does after a call, where that needs no further look at the world.
fn follow(
    draft: &mut Draft,
    run: &HeldRun,
    index: usize,
    done: &Done,
) -> Result<Vec<usize>, Refusal> {
    let step = run.plan.steps.get(index).ok_or(Refusal::Meaningless)?;
    let position = draft.execution().steps.get(index).map_or(0, |step| step.script_position);
    let failure = (!done.outcome.success).then_some(done.outcome.summary.as_str());
    match script::next_move(step, position, failure) {
        Move::Replan(reason) => {
            draft.fail_step(&run.graph, index, &reason)?;
            Ok(Vec::new())
        }
        Move::Decide(decision) if decision.action == Action::NextPlan && step.verify.is_empty() => {
            let judgement = Judgement::closing(run, draft.execution(), index, *decision);
            if !judgement.passed() {
                return Ok(Vec::new());
            }
            turn::record(draft, run, index, &judgement, "")?;
            turn::finish(draft, run, index, &judgement.decision)
        }
        // The next call, or checks that are looked at in a turn of their own.
        Move::Decide(_) => Ok(Vec::new()),
    }
}

/// The arguments of a stored call.
pub(super) fn stored_arguments(open: &OpenCall) -> Value {
    json::parse(&open.arguments_json)
        .map_or_else(|_| Value::Object(Vec::new()), |parsed| parsed.value)
}
