//! Calls of tools over the run's own rows: todos change in the transaction of their turn, stored outputs are
//! read from the database, and a sleep is a wait for the clock.

use super::call_setup::{Call, Done};
use super::conclude::{Stored, begin, conclude, end_call};
use super::ended::Ended;
use super::evidence;
use super::judge::Passed;
use super::leased_run::LeasedRun;
use super::outcome;
use crate::fuse::limits::Next;
use crate::tool::builtin::read_output::{Picker, Wanted, read_wanted, unknown};
use crate::tool::builtin::{sleep, todo};
use crate::tool::{ErrorCode, RunTool, ToolError, ToolOutcome};
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::execution::{OpenCall, Wait};
use surety_common::domain::stop::WaitingOn;
use surety_common::domain::todo::TodoChange;
use surety_common::store::{self, OutputParts};
use surety_common::telemetry;
use tracing::Span;

/// The bytes of a stored output that are read at a time.
const PART_BYTES: u32 = 4 << 20;

/// Executes the call of a decision. Returns the steps that started because it was the last call of
/// its step.
pub(super) async fn carry_out(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (tool, call): (RunTool, Call),
) -> Result<Vec<usize>, Ended> {
    let span =
        telemetry::tool_span(&tracing::Span::current(), &call.tool_call.name, &call.id.to_string());
    let ended = match tool {
        RunTool::Todo => change_todos(run, index, passed, (call, &span)).await,
        RunTool::ReadOutput => {
            let outcome = read_output(run, &call).await.unwrap_or_else(ToolOutcome::from);
            mark(&span, &outcome);
            conclude(run, index, Done::now(run, call, outcome), Stored::Nothing(passed)).await
        }
        RunTool::Sleep => begin_sleep(run, index, passed, (call, &span)).await,
    };
    // The span lasts as long as the call.
    drop(span);
    ended
}

/// Marks the span of a call that failed.
fn mark(span: &Span, outcome: &ToolOutcome) {
    if let Some(code) = outcome.error_code {
        telemetry::fail(span, code.as_str());
    }
}

/// Changes the todos and records the turn, the change and its outcome together. Steps beside this one change the
/// same todos, so only the change itself knows what comes of it.
async fn change_todos(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (call, span): (Call, &Span),
) -> Result<Vec<usize>, Ended> {
    let driver = run.driver()?;
    let change = todo::read_change(&call.tool_call.arguments);
    run.change(|draft| {
        if !begin(draft, run, index, passed)? {
            return Ok(Vec::new());
        }
        let outcome = match change {
            Ok(change) => changed(draft, run, &change),
            Err(error) => error.into(),
        };
        mark(span, &outcome);
        let done = Done::now(run, call, outcome);
        let record = evidence::record(run, index, &done);
        end_call(draft, driver, (run, index), &done, &record)
    })
    .await
}

fn changed(draft: &mut Draft, run: &LeasedRun, change: &TodoChange) -> ToolOutcome {
    match draft.change_todos(&run.plan.todos, change) {
        Ok(todos) => todo::listed(change, &todos),
        Err(problem) => todo::refused(&problem),
    }
}

/// Makes the step wait for the time that the call names. The intent and the wait are one change, and the run holds
/// nothing after it.
async fn begin_sleep(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    (call, span): (Call, &Span),
) -> Result<Vec<usize>, Ended> {
    let now = run.engine.now();
    let deadline_at = run.execution().await.deadline_at;
    let until = match sleep::end_of(&call.tool_call.arguments, now, deadline_at) {
        Ok(until) => until,
        Err(error) => {
            let outcome = error.into();
            mark(span, &outcome);
            let done = Done::now(run, call, outcome);
            return conclude(run, index, done, Stored::Nothing(passed)).await;
        }
    };
    let open = OpenCall {
        call_id: call.id,
        tool: call.tool_call.name,
        arguments_json: call.tool_call.arguments.to_compact(),
        effect: Value::Null,
        intended_at: now,
    };
    run.change(|draft| {
        outcome::turn(draft, run, index, Next::Call, |draft| {
            outcome::record_applied(draft, run, index, &passed.judgement, passed.usage)?;
            draft.sleep_step(&run.graph, index, open, (until, timer(run, index, until)))
        })
    })
    .await?;
    Ok(Vec::new())
}

/// Ends the sleep of a step that this process has just leased. One whose time has not come goes on.
pub(super) async fn end_sleep(
    run: &LeasedRun,
    index: usize,
    call: Call,
    open: OpenCall,
) -> Result<Vec<usize>, Ended> {
    let (_, progress) = run.step(index).await?;
    let now = run.engine.now();
    match progress.sleep.map(|sleep| sleep.until).filter(|until| *until > now) {
        Some(until) => {
            let wait = timer(run, index, until);
            run.change(|draft| draft.sleep_step(&run.graph, index, open, (until, wait))).await?;
            Ok(Vec::new())
        }
        None => {
            let outcome = sleep::slept(open.intended_at, now);
            let done = Done { started_at: open.intended_at, ..Done::now(run, call, outcome) };
            conclude(run, index, done, Stored::Turn).await
        }
    }
}

fn timer(run: &LeasedRun, index: usize, until: DateTime<Utc>) -> Wait {
    Wait {
        step_index: Some(index),
        ..Wait::new(
            store::timer_id(until),
            WaitingOn::Timer,
            run.engine.now(),
            format!("the clock, at {}", until.to_rfc3339_opts(SecondsFormat::Secs, true)),
        )
    }
}

async fn read_output(run: &LeasedRun, call: &Call) -> Result<ToolOutcome, ToolError> {
    let Wanted { call_id, range } = read_wanted(&call.tool_call.arguments)?;
    let pool = &run.engine.pool;
    let failed = |error: store::StoreError| {
        let message = format!("the stored output could not be read: {error}");
        ToolError::new(ErrorCode::IoFailed, message)
    };
    // What this run has not stored yet is stored first.
    run.settle().await.map_err(|_| ToolError::called_off())?;
    let find = || store::output_of_step(pool, run.spec.id, call_id);
    let output = store::patiently(find).await.map_err(failed)?;
    let output = output.ok_or_else(|| unknown(&call_id.to_string()))?;
    let bytes = output.bytes;
    let mut picker = Picker::new(range);
    let mut parts = OutputParts::new(pool.clone(), output, picker.begin(), 0);
    while let Some(part) = parts.next(PART_BYTES).await.map_err(failed)? {
        if !picker.take(&part.data) {
            break;
        }
    }
    picker.finish(bytes)
}
