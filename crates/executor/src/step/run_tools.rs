//! Calls of tools over the run's own rows: todos change in the transaction of their turn, and stored outputs
//! are read from the database.

use super::call_setup::{Call, Done};
use super::conclude::{Stored, begin, conclude, end_call};
use super::ended::Ended;
use super::evidence;
use super::judge::Passed;
use super::leased_run::LeasedRun;
use crate::tool::builtin::read_output::{Picker, Wanted, read_wanted, unknown};
use crate::tool::builtin::todo;
use crate::tool::{ErrorCode, RunTool, ToolError, ToolOutcome};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::todo::TodoChange;
use surety_common::store::{self, OutputParts};
use surety_common::telemetry;

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
        RunTool::Todo => change_todos(run, index, passed, call).await,
        RunTool::ReadOutput => {
            let outcome = read_output(run, &call).await.unwrap_or_else(ToolOutcome::from);
            conclude(run, index, Done::now(run, call, outcome), Stored::Nothing(passed)).await
        }
    };
    // The span lasts as long as the call.
    drop(span);
    ended
}

/// Changes the todos and records the turn, the change and its outcome together. Steps beside this one change the
/// same todos, so only the change itself knows what comes of it.
async fn change_todos(
    run: &LeasedRun,
    index: usize,
    passed: &Passed,
    call: Call,
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

async fn read_output(run: &LeasedRun, call: &Call) -> Result<ToolOutcome, ToolError> {
    let Wanted { call_id, range } = read_wanted(&call.tool_call.arguments)?;
    let pool = &run.engine.pool;
    let failed = |error: store::StoreError| {
        let message = format!("the stored output could not be read: {error}");
        ToolError::new(ErrorCode::IoFailed, message)
    };
    // What this run has not stored yet is stored first.
    run.settle().await.map_err(|_| ToolError::called_off())?;
    let output = store::output_of_step(pool, run.spec.id, call_id).await.map_err(failed)?;
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
