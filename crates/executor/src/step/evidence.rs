//! Receipts of the runner's actions and observations.

use super::call_setup::Done;
use super::ended::Ended;
use super::leased_run::LeasedRun;
use crate::round::{EndedCall, Place, receipt};
use crate::tool::{ErrorCode, ToolOutcome, redacted};
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::journal::Output;
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use surety_common::domain::verification::is_hidden_name;
use surety_common::store::{self, Artifact};
use tokio::time::timeout;

/// Outputs up to this size are stored in the journal; larger ones are artifacts.
const INLINE_OUTPUT_BYTES: usize = 32 * 1024;
/// The shortest wait for disk space for an artifact, even after the step's deadline.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// The record of one call.
pub(super) struct Record {
    pub(super) receipt: EvidenceReceipt,
    /// None when the call had no output.
    pub(super) output: Option<Output>,
}

/// Creates the record of a call without the values of secrets, and stores an output that is too large for the journal. While the
/// database's disk is full only this run waits, for as long as `left`; then the call has failed.
/// Facts that do not need the output are kept.
///
/// # Errors
/// [`Ended::NotHeld`], [`Ended::Draining`] when the work was cancelled in between: the call stays
/// unrecorded.
pub(super) async fn keep(
    run: &LeasedRun,
    done: Done,
    left: Duration,
    record: impl Fn(&Done) -> Record,
) -> Result<(Done, Record), Ended> {
    let outcome = redacted(run.engine.secrets.redactor(), done.outcome);
    let done = Done { outcome, ..done };
    let made = record(&done);
    let Some(output) = made.output.as_ref().filter(|output| output.text.is_none()) else {
        return Ok((done, made));
    };
    let (digest, body) = (output.digest.as_str(), done.outcome.output.as_slice());
    let artifact = Artifact { digest, body, created_at: done.finished_at };
    crash::point("executor.before_output");
    let keeping = store::keep(&run.engine.pool, run.spec.id, artifact);
    let kept = tokio::select! {
        kept = timeout(left.max(LEAST_PATIENCE), keeping) => kept,
        () = run.lease.calls.cancelled() => return Err(run.called_off()),
    };
    let why = match kept {
        Ok(Ok(())) => {
            crash::point("executor.after_output");
            return Ok((done, made));
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "there was no disk space for it in time".to_owned(),
    };
    tracing::error!(run_id = %run.spec.id, why, "evidence: an output is lost");
    let done = Done { outcome: without_output(done.outcome, &why), ..done };
    let made = record(&done);
    Ok((done, made))
}

fn without_output(outcome: ToolOutcome, why: &str) -> ToolOutcome {
    let bytes = outcome.output.len();
    ToolOutcome {
        success: false,
        error_code: Some(ErrorCode::OutputNotKept),
        summary: format!(
            "{}; but its output of {bytes} bytes could not be kept: {why}",
            outcome.summary
        ),
        output: Vec::new(),
        ..outcome
    }
}

/// The record of a step's call.
pub(super) fn record(run: &LeasedRun, index: usize, done: &Done) -> Record {
    let wrote = done.outcome.facts.iter().any(|fact| matches!(fact, Fact::FileWritten { .. }));
    let seen = if wrote { EvidenceSource::WriteReceipt } else { EvidenceSource::ToolObservation };
    record_as(of_step(run, index), done.source.unwrap_or(seen), done)
}

/// The position of a step's receipt.
pub(super) fn of_step(run: &LeasedRun, index: usize) -> Place {
    Place {
        plan_revision: run.plan_revision,
        step_index: u32::try_from(index).unwrap_or(u32::MAX),
        step_id: run.graph.id(index).to_owned(),
    }
}

/// The position of a receipt about the whole run: the index after its last step, and no step id.
pub(super) fn of_run(run: &LeasedRun) -> Place {
    let step_index = u32::try_from(run.graph.len()).unwrap_or(u32::MAX);
    Place { plan_revision: run.plan_revision, step_index, step_id: String::new() }
}

/// The record of a call for `place`, observed by `source`.
pub(super) fn record_as(place: Place, source: EvidenceSource, done: &Done) -> Record {
    let bytes = &done.outcome.output;
    // The output of a hidden check never stands in the journal, which more people read.
    let is_inline =
        !is_hidden_name(&done.call.tool_call.name) && bytes.len() <= INLINE_OUTPUT_BYTES;
    let text = std::str::from_utf8(bytes).ok().filter(|_| is_inline);
    let call = EndedCall {
        id: done.call.id,
        tool_call: &done.call.tool_call,
        outcome: &done.outcome,
        started_at: done.started_at,
        finished_at: done.finished_at,
    };
    let receipt = match done.reporter.as_str() {
        "" => receipt(place, source, call),
        worker => receipt(place, source, call).in_words_of(worker),
    };
    let output = (!bytes.is_empty()).then(|| Output {
        call_id: receipt.call_id.clone(),
        digest: receipt.output_digest.clone(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        text: text.map(str::to_owned),
    });
    Record { receipt, output }
}
