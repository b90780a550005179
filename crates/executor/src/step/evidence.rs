//! Receipts of the runner's actions and observations.

use super::call_setup::Done;
use super::ended::Ended;
use super::leased_run::LeasedRun;
use crate::round::{EndedCall, Place, receipt};
use crate::tool::{Attachment, ErrorCode, ToolOutcome, redacted};
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::journal::Output;
use surety_common::domain::json::sha256_hex;
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
    /// Its further outputs, each under the call's id and its number.
    pub(super) attachments: Vec<Output>,
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
    let parts = made.attachments.iter().zip(&done.outcome.attachments);
    let parts = parts.map(|(output, attachment)| (output, attachment.body.as_slice()));
    let whole = made.output.as_ref().filter(|output| output.text.is_none());
    let all = whole.map(|output| (output, done.outcome.output.as_slice())).into_iter().chain(parts);
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        return Ok((done, made));
    }
    crash::point("executor.before_output");
    let mut lost = None;
    for (output, body) in all {
        let artifact = Artifact { digest: &output.digest, body, created_at: done.finished_at };
        lost = Box::pin(keep_artifact(run, artifact, left)).await?;
        if lost.is_some() {
            break;
        }
    }
    let Some(why) = lost else {
        crash::point("executor.after_output");
        return Ok((done, made));
    };
    tracing::error!(run_id = %run.spec.id, why, "evidence: an output is lost");
    let done = Done { outcome: without_output(done.outcome, &why), ..done };
    let made = record(&done);
    Ok((done, made))
}

/// Stores an artifact. Returns why it is not kept.
async fn keep_artifact(
    run: &LeasedRun,
    artifact: Artifact<'_>,
    left: Duration,
) -> Result<Option<String>, Ended> {
    let keeping = store::keep(&run.engine.pool, run.spec.id, artifact);
    let kept = tokio::select! {
        kept = timeout(left.max(LEAST_PATIENCE), keeping) => kept,
        () = run.lease.calls.cancelled() => return Err(run.called_off()),
    };
    Ok(match kept {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("there was no disk space for it in time".to_owned()),
    })
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
        attachments: Vec::new(),
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
        // What confined it the runner knows.
        reporter => EvidenceReceipt {
            sandbox: done.outcome.sandbox.clone(),
            ..receipt(place, source, call).in_words_of(reporter)
        },
    };
    let output = (!bytes.is_empty()).then(|| Output {
        call_id: receipt.call_id.clone(),
        digest: receipt.output_digest.clone(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        text: text.map(str::to_owned),
    });
    let attachments = attachments(&receipt, &done.outcome);
    Record { receipt, output, attachments }
}

/// The further outputs of a call: `CALL/1`, `CALL/2`.
fn attachments(receipt: &EvidenceReceipt, outcome: &ToolOutcome) -> Vec<Output> {
    let output = |(number, attachment): (usize, &Attachment)| Output {
        call_id: format!("{}/{number}", receipt.call_id),
        digest: sha256_hex(&attachment.body),
        bytes: u64::try_from(attachment.body.len()).unwrap_or(u64::MAX),
        text: None,
    };
    (1..).zip(&outcome.attachments).map(output).collect()
}
