//! Calls that workers outside the executor make: the step waits, and the run holds nothing meanwhile.
//!
//! ```text
//!   carry_out: turn, intent and wait in one change --> (a worker answers, is lost, or the time passes)
//!   settle: the receipt in the worker's words | called again | a person is asked
//! ```

use super::call_setup::{Call, Done};
use super::conclude::{Stored, conclude};
use super::ended::Ended;
use super::history::Base;
use super::intent::{base_for, opened};
use super::judge::Passed;
use super::leased_run::LeasedRun;
use super::outcome;
use crate::fuse::limits::Next;
use crate::tool::{Effect, ErrorCode, ToolError, ToolOutcome, WorkerTool};
use chrono::TimeDelta;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{OpenCall, Wait, WorkerCall, WorkerCallEnd, WorkerResult};
use surety_common::domain::json;
use surety_common::domain::machine::Refusal;
use surety_common::domain::receipt::{Fact, read_receipt};
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{self, StoreError};
use surety_common::telemetry;
use uuid::Uuid;

/// Makes the step wait for a worker. Returns the steps that started because a call that cannot begin was the last one
/// of its step.
pub(super) async fn carry_out(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (tool, call): (&WorkerTool, Call),
) -> Result<Vec<usize>, Ended> {
    let begun = match prepare(run, index, tool, &call).await? {
        Ok(begun) => begun,
        Err(error) => {
            let done = Done::now(run, call, error.into());
            return conclude(run, index, done, Stored::Nothing(passed)).await;
        }
    };
    run.change(|draft| {
        outcome::turn(draft, run, index, Next::Call, |draft| {
            outcome::record_applied(draft, run, index, &passed.judgement, passed.usage)?;
            begun.begin(draft, run)
        })
    })
    .await?;
    Ok(Vec::new())
}

/// A call that is about to wait for a worker.
pub(super) struct Begun<'r> {
    index: usize,
    open: OpenCall,
    task: WorkerCall,
    wait: Wait,
    /// The workspace before the first call that could write; none for a call that only reads.
    base: Option<&'r Base>,
}

impl Begun<'_> {
    /// Makes the step wait.
    pub(super) fn begin(&self, draft: &mut Draft, run: &LeasedRun) -> Result<(), Refusal> {
        if let Some(base) = self.base {
            base.refer(draft);
        }
        let waits = (self.task.clone(), self.wait.clone());
        draft.call_worker(&run.graph, self.index, self.open.clone(), waits)
    }
}

/// Prepares a call of a worker's tool, which may write on this machine.
pub(super) async fn prepare<'r>(
    run: &'r LeasedRun,
    index: usize,
    tool: &WorkerTool,
    call: &Call,
) -> Result<Result<Begun<'r>, ToolError>, Ended> {
    let base = match tool.spec.annotations.read_only {
        true => None,
        false => match base_for(run).await? {
            Ok(base) => Some(base),
            Err(error) => return Ok(Err(error)),
        },
    };
    let open = opened(run, call, &Effect::Unknown)?;
    let (task, wait) = waiting(run, index, tool);
    Ok(Ok(Begun { index, open, task, wait, base }))
}

fn waiting(run: &LeasedRun, index: usize, tool: &WorkerTool) -> (WorkerCall, Wait) {
    let now = run.engine.now();
    let limit = TimeDelta::from_std(tool.spec.default_timeout).unwrap_or(TimeDelta::MAX);
    let deadline_at = now.checked_add_signed(limit).unwrap_or(now);
    let mut task = WorkerCall::new(tool.attempts, tool.may_repeat, now, deadline_at);
    task.span = telemetry::begin_call_span(&tracing::Span::current());
    let (name, namespace) = (&tool.spec.name, &run.spec.namespace);
    let unblocks = format!("a worker that serves the tool {name} in the namespace {namespace}");
    let wait = Wait::new(Uuid::now_v7(), WaitingOn::Worker, now, unblocks);
    (task, Wait { step_index: Some(index), ..wait })
}

/// Records what a call came to. None when that is unknown, so that a person has to be asked.
pub(super) async fn settle(
    run: &LeasedRun,
    index: usize,
    task: &WorkerCall,
    (call, open): (Call, &OpenCall),
) -> Result<Option<Vec<usize>>, Ended> {
    let started_at = open.intended_at;
    let (name, call_id) = (&call.tool_call.name, call.id.to_string());
    let span = match &task.span {
        Some(begun) => telemetry::end_call_span(begun, started_at, name, &call_id),
        None => telemetry::tool_span(&tracing::Span::current(), name, &call_id),
    };
    let done = match &task.end {
        Some(WorkerCallEnd::Answered(result)) => answered(run, call, open, result).await?,
        Some(WorkerCallEnd::TimedOut) => {
            let message = "no worker answered before the deadline of the call";
            let error = ToolError::new(ErrorCode::Timeout, message);
            Done::since(started_at, run, call, error.into())
        }
        Some(WorkerCallEnd::Lost) | None if task.may_repeat => {
            let message =
                format!("the call was given to {} workers, and each was lost", task.attempt);
            let error = ToolError::new(ErrorCode::WorkerLost, message);
            Done::since(started_at, run, call, error.into())
        }
        Some(WorkerCallEnd::Lost) | None => return Ok(None),
    };
    if let Some(code) = done.outcome.error_code {
        telemetry::fail(&span, code.as_str());
    }
    conclude(run, index, done, Stored::Turn).await.map(Some)
}

/// Offers a call again of which a person says so.
pub(super) async fn again(
    run: &LeasedRun,
    index: usize,
    call: Call,
    open: OpenCall,
) -> Result<Vec<usize>, Ended> {
    let tools = run.tools_with(Some(&open.tool)).await;
    let Some(tool) = tools.worker_tool(&open.tool) else {
        let message = format!("no worker serves {:?} any more", open.tool);
        let error = ToolError::new(ErrorCode::ToolNotServed, message);
        let done = Done::since(open.intended_at, run, call, error.into());
        return conclude(run, index, done, Stored::Turn).await;
    };
    let waits = waiting(run, index, tool);
    run.change(|draft| draft.call_worker(&run.graph, index, open, waits)).await?;
    Ok(Vec::new())
}

async fn answered(
    run: &LeasedRun,
    call: Call,
    open: &OpenCall,
    result: &WorkerResult,
) -> Result<Done, Ended> {
    let WorkerResult { by, success, summary, error, output, output_digest, facts, at } = result;
    let output = match output_digest.as_str() {
        "" => output.clone().into_bytes(),
        digest => kept(run, digest).await?,
    };
    let summary = match (summary.as_str(), error.as_str()) {
        (summary, "") => summary.to_owned(),
        ("", error) => error.to_owned(),
        (summary, error) => format!("{summary}: {error}"),
    };
    let outcome = ToolOutcome {
        success: *success,
        error_code: (!success).then_some(ErrorCode::WorkerFailed),
        summary,
        output,
        facts: stored_facts(facts)?,
        timed_out: false,
        sandbox: String::new(),
        attachments: Vec::new(),
    };
    let done = Done::since(open.intended_at, run, call, outcome);
    Ok(Done { finished_at: *at, reporter: by.clone(), ..done })
}

/// An output that was stored when it arrived.
async fn kept(run: &LeasedRun, digest: &str) -> Result<Vec<u8>, Ended> {
    let read = || store::artifact_body(&run.engine.pool, digest);
    let body = store::patiently(read).await?;
    body.ok_or_else(|| {
        let why = "the artifact is not kept".to_owned();
        StoreError::Corrupt { what: format!("the output {digest} of a worker"), why }.into()
    })
}

fn stored_facts(text: &str) -> Result<Vec<Fact>, Ended> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let corrupt =
        |why: String| StoreError::Corrupt { what: "the facts of a worker".to_owned(), why };
    let value = json::parse(text).map_err(|error| corrupt(error.to_string()))?.value;
    let receipt = read_receipt(&value).map_err(|problem| corrupt(problem.to_string()))?;
    Ok(receipt.facts)
}
