//! The receipts and turns of a run in pages, and the outputs of its calls.

use super::page::Page;
use super::{overlays, status};
use crate::planner::Planner;
use futures::Stream;
use futures::stream;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::{Entry, Event, Wanted};
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::verification::{Sight, concealed};
use surety_common::store::{self, OutputParts, ReceiptProofs, WorkPage};
use surety_common::wire::v1;
use tonic::Status;
use uuid::Uuid;

/// Bytes of an output in one message.
const PART_BYTES: u32 = 256 << 10;

/// A page of what is wanted of a run's journal.
///
/// # Errors
/// `page_token_invalid`, `run_not_found`, `database_unavailable`.
pub(super) async fn page(
    planner: &Planner,
    run_id: Uuid,
    wanted: Wanted,
    page: &Page,
) -> Result<WorkPage, Status> {
    let after = page.after().map_err(status)?.unwrap_or_default();
    planner.find(run_id).await.map_err(status)?;
    let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
    store::work_page(&planner.pool, run_id, after, wanted, most).await.map_err(status)
}

/// The receipt of an event; of a hidden check whole only for those who may see it.
pub(super) fn receipt_in(
    event: Event,
    sight: Sight,
    proofs: &ReceiptProofs,
) -> Option<v1::EvidenceReceipt> {
    let Entry::Receipt(receipt) = event.entry else { return None };
    Some(receipt_for(*receipt, sight, proofs))
}

/// A receipt as a caller sees it, with what signs it. One that is shortened is no longer what was signed.
pub(super) fn receipt_for(
    receipt: EvidenceReceipt,
    sight: Sight,
    proofs: &ReceiptProofs,
) -> v1::EvidenceReceipt {
    if !sight.covers_receipt(&receipt) {
        return concealed(receipt).into();
    }
    let proof = proofs.get(&receipt.seq);
    let receipt = v1::EvidenceReceipt::from(receipt);
    match proof {
        Some(proof) => receipt.signed_by(proof),
        None => receipt,
    }
}

/// An event as a caller sees it.
pub(super) fn shown(event: Event, sight: Sight) -> Event {
    let Event { sequence, at, span_id, mut entry } = event;
    if let Entry::Receipt(receipt) = &mut entry
        && !sight.covers_receipt(receipt)
    {
        **receipt = concealed(EvidenceReceipt::clone(receipt));
    }
    Event { sequence, at, span_id, entry }
}

pub(super) fn turn_in(event: Event) -> Option<v1::Turn> {
    let Entry::Turn(turn) = event.entry else { return None };
    Some((*turn).into())
}

/// The wanted bytes of a call's output.
///
/// # Errors
/// `field_missing`, `run_not_found`, `artifact_not_found`, `permission_denied` for a hidden check,
/// `database_unavailable`.
pub(super) async fn output(
    planner: &Planner,
    run_id: Uuid,
    request: &v1::GetOutputRequest,
    sight: Sight,
) -> Result<OutputParts, Fault> {
    let v1::GetOutputRequest { run_id: _, call_id, offset, length } = request;
    if call_id.is_empty() {
        return Err(Problem::at(Code::FieldMissing, "call_id", "is missing; set it").into());
    }
    planner.find(run_id).await?;
    let found = store::find_output(&planner.pool, run_id, call_id).await?;
    let output = found.ok_or_else(|| {
        let message = format!("run {run_id} has no output of a call {call_id:?}");
        Fault::new(FaultCode::ArtifactNotFound, message).with_field("call_id")
    })?;
    let is_all = sight == Sight::All;
    if !is_all && store::is_hidden_call(&planner.pool, run_id, call_id, sight).await? {
        return Err(overlays::hidden("the output"));
    }
    Ok(OutputParts::new(planner.pool.clone(), output, *offset, *length))
}

/// The messages of an output. The first one is always sent, so that an empty range also states the
/// length of the whole.
pub(super) fn stream(
    parts: OutputParts,
    offset: u64,
) -> impl Stream<Item = Result<v1::GetOutputResponse, Status>> {
    stream::try_unfold((parts, true), move |(mut parts, is_first)| async move {
        let part = parts.next(PART_BYTES).await.map_err(status)?;
        let (offset, data) = match part {
            Some(part) => (part.offset, part.data),
            None if is_first => (offset, Vec::new()),
            None => return Ok(None),
        };
        let output = parts.output();
        let (total_bytes, digest) = (output.bytes, output.digest.clone());
        let message = v1::GetOutputResponse { offset, data, total_bytes, digest };
        Ok(Some((message, (parts, false))))
    })
}
