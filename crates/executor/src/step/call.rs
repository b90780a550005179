//! One tool call: written down before it is started when it can change something, carried out,
//! and recorded with what it showed.

use super::judge::Judgement;
use super::leased_run::{Ended, LeasedRun};
use super::resource_wait::wait_for_resources;
use super::{evidence, open_call, repeat, turn};
use crate::driver::{Move, script};
use crate::fuse::repeat::Repeat;
use crate::fuse::timeout::{CallEnd, Timing};
use crate::tool::{
    Effect, ErrorCode, Probe, Tool, ToolContext, ToolError, ToolOutcome, WriteScope, timing,
};
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::decision::Action;
use surety_common::domain::execution::OpenCall;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::journal::{Entry, Intent};
use surety_common::domain::json::{self, Value};
use surety_common::domain::machine::Refusal;
use surety_common::domain::plan::ToolCall;
use surety_common::domain::receipt::counts_as_evidence;
use surety_common::telemetry;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

/// Carries out a validated call. Answers the steps that were started by the step's end, when this
/// was its last call.
pub(super) async fn carry_out(
    run: &LeasedRun,
    index: usize,
    judgement: &Judgement,
    tool_call: &ToolCall,
) -> Result<Vec<usize>, Ended> {
    let call = Call { id: Uuid::now_v7(), tool_call: tool_call.clone() };
    let setup = match CallSetup::set_up(run, index, &call).await {
        Ok(setup) => setup,
        Err(error) => {
            let done = Done::now(run, call, error.into());
            return conclude(run, index, done, Some(judgement)).await;
        }
    };
    if setup.tool.spec().annotations.read_only {
        let done = setup.perform(run, call).await;
        return conclude(run, index, done, Some(judgement)).await;
    }
    match setup.intend(run, &call).await {
        Err(error) => {
            let done = Done::now(run, call, error.into());
            conclude(run, index, done, Some(judgement)).await
        }
        Ok(effect) => {
            intend(run, index, judgement, &call, &effect).await?;
            crash::point("executor.after_intent");
            let done = setup.perform(run, call).await;
            crash::point("executor.after_effect");
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
    pub(super) fn now(run: &LeasedRun, call: Call, outcome: ToolOutcome) -> Self {
        let now = run.engine.now();
        Self { call, outcome, started_at: now, finished_at: now }
    }
}

/// A tool, and what its call may touch and for how long.
pub(super) struct CallSetup {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) context: ToolContext,
    timing: Timing,
    /// What the call may take, once there is room for it.
    budget: Duration,
    /// When the step must be over.
    until: Instant,
}

impl CallSetup {
    /// Makes a tool ready for one call of a step.
    ///
    /// # Errors
    /// The failure that the call itself would end with.
    pub(super) async fn set_up(
        run: &LeasedRun,
        index: usize,
        call: &Call,
    ) -> Result<Self, ToolError> {
        let name = &call.tool_call.name;
        let Some(tool) = run.engine.tools.get(name) else {
            // The flow validation knows the same tools, so only a stored call of another version
            // of this program comes here.
            return Err(ToolError::new(
                ErrorCode::ProgramNotFound,
                format!("this executor has no tool named {name:?}"),
            ));
        };
        let scope = run.plan.steps.get(index).map_or(&[][..], |step| &step.write_scope);
        // No call outlives its step.
        let left = run.time_left(index).await;
        let timing = timing(tool.as_ref(), &call.tool_call);
        let budget_s = run.timeouts().budget_s(&timing);
        let budget = Duration::from_secs(budget_s);
        let until = Instant::now() + left;
        let context = ToolContext {
            folder: Arc::clone(&run.folder),
            write_scope: Arc::new(WriteScope::new(scope)?),
            environment: Arc::clone(&run.engine.environment),
            call_id: call.id,
            shell_allowed: false,
            deadline: until.min(Instant::now() + budget),
            cancel: run.calls.child_token(),
            kill: run.kill.clone(),
        };
        Ok(Self { tool, context, timing, budget, until })
    }

    /// What the call would do to the world.
    pub(super) async fn intend(&self, run: &LeasedRun, call: &Call) -> Result<Effect, ToolError> {
        wait_for_resources(run, self.time_left(), || async {
            let (tool, context) = (Arc::clone(&self.tool), self.context.clone());
            let arguments = call.tool_call.arguments.clone();
            blocking(move || tool.intend(&context, &arguments)).await?
        })
        .await
    }

    fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// What became of an effect that was written down.
    pub(super) async fn probe(&self, effect: Effect) -> Probe {
        let (tool, context) = (Arc::clone(&self.tool), self.context.clone());
        blocking(move || tool.probe(&context, &effect)).await.unwrap_or(Probe::Unknown)
    }

    /// Starts the tool and waits for its end.
    pub(super) async fn perform(&self, run: &LeasedRun, call: Call) -> Done {
        let annotations = self.tool.spec().annotations;
        let _begun = if annotations.read_only {
            None
        } else {
            let repeated = open_call::may_repeat(run, self, &call);
            match run.begin_call(repeated).await {
                Some(begun) => Some(begun),
                None => return Done::now(run, call, call_off().into()),
            }
        };
        let span = telemetry::tool_span(
            &tracing::Span::current(),
            &call.tool_call.name,
            &call.id.to_string(),
        );
        let started_at = run.engine.now();
        let calling = wait_for_resources(run, self.time_left(), || async {
            // The time that was waited is not the call's.
            let deadline = self.until.min(Instant::now() + self.budget);
            let context = ToolContext { deadline, ..self.context.clone() };
            self.tool.call(&context, &call.tool_call.arguments).await
        });
        let outcome = calling.instrument(span.clone()).await;
        if let Some(code) = outcome.error_code {
            span.record("error.type", code.as_str());
        }
        let end = if outcome.timed_out { CallEnd::DeadlinePassed } else { CallEnd::Returned };
        run.timeouts().record(&self.timing, end);
        Done { call, outcome, started_at, finished_at: run.engine.now() }
    }
}

/// Runs what reads files beside the runtime's own threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        ToolError::new(ErrorCode::InternalError, format!("a look at the workspace failed: {error}"))
    })
}

/// Writes the effect down, with the turn that wants it.
async fn intend(
    run: &LeasedRun,
    index: usize,
    judgement: &Judgement,
    call: &Call,
    effect: &Effect,
) -> Result<(), Ended> {
    let arguments_json = call.tool_call.arguments.to_compact();
    let effect = serde_json::to_value(effect).map_err(|error| {
        surety_common::store::StoreError::Corrupt {
            what: "the effect of a call".to_owned(),
            why: error.to_string(),
        }
    })?;
    let intended_at = run.engine.now();
    run.change_now(|draft| {
        turn::record(draft, run, index, judgement, "")?;
        draft.journal(Entry::Intent(Intent {
            step_id: run.graph.id(index).to_owned(),
            call_id: call.id,
            tool: call.tool_call.name.clone(),
            arguments_json: arguments_json.clone(),
        }));
        let progress = draft.execution_mut().steps.get_mut(index).ok_or(Refusal::Meaningless)?;
        progress.open_call = Some(Box::new(OpenCall {
            call_id: call.id,
            tool: call.tool_call.name.clone(),
            arguments_json: arguments_json.clone(),
            effect: effect.clone(),
            intended_at,
        }));
        Ok(())
    })
    .await
}

/// Records the outcome. For a script, what follows from it is known at once and goes into the same
/// transaction: the step's end after its last call, or its failure after one that failed.
pub(super) async fn conclude(
    run: &LeasedRun,
    index: usize,
    done: Done,
    judgement: Option<&Judgement>,
) -> Result<Vec<usize>, Ended> {
    called_off(run, &done.outcome)?;
    let left = run.time_left(index).await;
    let make = |done: &Done| evidence::record(run, index, done);
    let (done, record) = evidence::keep(run, done, left, make).await?;
    let place = u32::try_from(index).unwrap_or(u32::MAX);
    let conclusion = |draft: &mut Draft| {
        if let Some(judgement) = judgement {
            turn::record(draft, run, index, judgement, "")?;
        }
        draft.receipt(record.receipt.clone());
        record.output.iter().for_each(|output| draft.journal(Entry::Output(output.clone())));
        draft.execution_mut().counters.tool_calls += 1;
        let revision = draft.execution().plan_revision;
        let progress = draft.execution_mut().steps.get_mut(index).ok_or(Refusal::Meaningless)?;
        progress.open_call = None;
        progress.answer = None;
        progress.tool_calls += 1;
        progress.proofs += u32::from(counts_as_evidence(&record.receipt, place, revision));
        progress.script_position += u32::from(done.outcome.success);
        let (cycle, said) = repeat::count(draft, run, index, &done);
        let started = match said {
            Repeat::Terminate => repeat::stop(draft, run, index, &done)?,
            Repeat::Ok | Repeat::Remind => follow(draft, run, index, &done)?,
        };
        repeat::keep(draft, index, cycle.as_ref());
        Ok(started)
    };
    match judgement {
        // Nothing happened to the world: should the change be lost, the turn is taken again.
        Some(_) => run.change(conclusion).await,
        // Something did, and its intent is on the disk.
        None => run.insist(conclusion).await,
    }
}

/// What a call ends with that was called off before it began.
pub(super) fn call_off() -> ToolError {
    ToolError::new(ErrorCode::Cancelled, "the work on its run was called off before it began")
}

/// A call that was cut short here is left open: nobody knows how far it came.
///
/// # Errors
/// [`Ended::NotHeld`], [`Ended::Draining`]
pub(super) fn called_off(run: &LeasedRun, outcome: &ToolOutcome) -> Result<(), Ended> {
    let cut = outcome.error_code == Some(ErrorCode::Cancelled) && run.engine.drain.is_cancelled();
    if cut || run.lost.is_cancelled() { Err(run.called_off()) } else { Ok(()) }
}

/// What a script does after a call, where that needs no further look at the world.
fn follow(
    draft: &mut Draft,
    run: &LeasedRun,
    index: usize,
    done: &Done,
) -> Result<Vec<usize>, Refusal> {
    let step = run.plan.steps.get(index).ok_or(Refusal::Meaningless)?;
    let position = draft.execution().steps.get(index).map_or(0, |step| step.script_position);
    let failure = done.outcome.failure();
    match script::next_move(step, position, failure.as_deref()) {
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
