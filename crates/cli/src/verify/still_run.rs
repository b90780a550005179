//! What the verdict of a run recorded of its workspace, asked of the service.

use surety_common::domain::json::sha256_hex;
use surety_common::domain::verification::WORKSPACE_CHECK;
use surety_common::wire::v1;

use super::file::Recorded;
use crate::connection::{Connection, bounded};
use crate::failure::{Code, Failure};
use crate::text::run_state;

/// Receipts of one page.
const PAGE_SIZE: u32 = 1_000;

/// The workspace that a run's last verdict is about. Its path is empty for a folder of the run's own.
///
/// # Errors
/// The run has no verdict, or one without a digest; the service's errors.
pub async fn of_run(connection: &Connection, run_id: &str) -> Result<Recorded, Failure> {
    let answer = connection.run(run_id, v1::RunView::Basic).await;
    let run = answer.map_err(|status| connection.failure(&status))?.run.unwrap_or_default();
    let Some(verdict) = run.verdict else {
        let (message, advice) = match run.terminal {
            Some(_) => (
                format!("run {run_id} ended as {} without a verdict", run_state(run.state())),
                "Verify its workspace with `surety verify`.",
            ),
            None => (format!("run {run_id} has no verdict"), "Wait for it with `surety watch`."),
        };
        return Err(Failure::new(Code::DigestMissing, message, advice));
    };
    if verdict.workspace_digest.is_empty() {
        let message = format!("the verdict of run {run_id} names no digest of a workspace");
        let advice =
            "A verdict names it where the runner verifies and a check asks for the workspace.";
        return Err(Failure::new(Code::DigestMissing, message, advice));
    }
    let ignore_rules = rules(connection, run_id, &verdict).await?;
    Ok(Recorded { path: run.workspace, digest: verdict.workspace_digest, ignore_rules })
}

/// The ignore rules, which are the output of the receipt that names the digest.
async fn rules(
    connection: &Connection,
    run_id: &str,
    verdict: &v1::Verdict,
) -> Result<String, Failure> {
    let invalid = |why: &str| {
        let message = format!("the ignore rules of run {run_id} cannot be read: {why}");
        Failure::new(Code::DigestMissing, message, "Verify the workspace with `surety verify`.")
    };
    let Some(receipt) = receipt_of_end(connection, run_id, verdict.round).await? else {
        return Err(invalid("no receipt of the round has them"));
    };
    let request = v1::GetOutputRequest {
        run_id: run_id.to_owned(),
        call_id: receipt.call_id,
        ..v1::GetOutputRequest::default()
    };
    let failure = |status: tonic::Status| connection.failure(&status);
    let answer = connection.runs().get_output(bounded(request)).await.map_err(failure)?;
    let (mut stream, mut text) = (answer.into_inner(), Vec::new());
    while let Some(part) = stream.message().await.map_err(failure)? {
        text.extend(part.data);
    }
    if sha256_hex(&text) != receipt.output_digest {
        return Err(invalid("they are not what the receipt names"));
    }
    String::from_utf8(text).map_err(|error| invalid(&error.to_string()))
}

async fn receipt_of_end(
    connection: &Connection,
    run_id: &str,
    round: u32,
) -> Result<Option<v1::EvidenceReceipt>, Failure> {
    let (mut found, mut page_token) = (None, String::new());
    loop {
        let request =
            v1::ListReceiptsRequest { run_id: run_id.to_owned(), page_size: PAGE_SIZE, page_token };
        let page = connection.runs().list_receipts(bounded(request)).await;
        let page = page.map_err(|status| connection.failure(&status))?.into_inner();
        let of_end = |receipt: &v1::EvidenceReceipt| {
            receipt.round == round
                && receipt.check_id == WORKSPACE_CHECK
                && receipt.step_id.is_empty()
        };
        found = page.receipts.into_iter().rfind(of_end).or(found);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(found);
        }
    }
}
