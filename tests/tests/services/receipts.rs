//! Receipts outside Surety: exported, checked by the gate and by the command line.

use anyhow::{Context, Result};
use surety_common::domain::signature::check_export;
use surety_common::wire::v1;
use surety_common::wire::v1::export_receipts_response::Line;
use surety_common::wire::v1::verify_receipts_request::Source;
use surety_e2e::harness::Deployment;
use surety_e2e::script::{plan, step, write};

async fn export(deployment: &Deployment, run_id: &str) -> Result<Vec<String>> {
    let request = v1::ExportReceiptsRequest { run_id: run_id.to_owned() };
    let mut stream = deployment.runs()?.export_receipts(request).await?.into_inner();
    let mut lines = Vec::new();
    while let Some(item) = stream.message().await? {
        match item.line.context("an answer without a line")? {
            Line::ReceiptJson(line)
            | Line::EndJson(line)
            | Line::EvidenceJson(line)
            | Line::EnvelopeJson(line) => lines.push(line + "\n"),
        }
    }
    Ok(lines)
}

async fn verify(deployment: &Deployment, source: Source) -> Result<v1::VerifyReceiptsResponse> {
    let request = v1::VerifyReceiptsRequest { source: Some(source) };
    Ok(deployment.gate()?.verify_receipts(request).await?.into_inner())
}

#[track_caller]
fn signed_as(response: &v1::VerifyReceiptsResponse, state: v1::SignatureState, detail: &str) {
    let report = response.signatures.as_ref().expect("a report on the signatures");
    assert_eq!(report.state(), state, "{response:?}");
    assert!(report.detail.contains(detail), "{detail}: {response:?}");
}

#[tokio::test]
async fn what_a_run_exports_holds_and_every_change_of_it_is_found() -> Result<()> {
    let deployment = Deployment::start().await?;
    let calls = [write("a.txt", "一"), write("b.txt", "二")];
    let run = deployment.create(&plan(&[step("写", &[], &calls)]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let lines = export(&deployment, &run.id).await?;
    assert!(lines.len() > 2, "{lines:#?}");

    let stored = verify(&deployment, Source::RunId(run.id.clone())).await?;
    let receipts = lines.iter().filter(|line| line.contains("\"prev_digest\":")).count() + 1;
    assert!(stored.valid && stored.receipt_count as usize == receipts, "{stored:?}");
    signed_as(&stored, v1::SignatureState::Unsigned, "no trusted keys are named");
    let exported = verify(&deployment, Source::Export(lines.concat())).await?;
    assert_eq!(exported, stored);
    assert!(check_export(&lines.concat(), None).chain.is_whole());

    let mut changed = lines.clone();
    let second = changed.iter_mut().find(|line| line.contains("\"seq\":2,"));
    let second = second.context("a second receipt")?;
    *second = second.replacen("true", "false", 1);
    let found = verify(&deployment, Source::Export(changed.concat())).await?;
    assert!(!found.valid);
    signed_as(&found, v1::SignatureState::Broken, "receipt 2: ");
    assert_eq!(found.findings.iter().map(|finding| finding.seq).collect::<Vec<_>>(), [2]);

    let mut cut = lines;
    cut.pop();
    let found = verify(&deployment, Source::Export(cut.concat())).await?;
    assert!(!found.valid && found.findings[0].message.contains("missing"), "{found:?}");
    deployment.finish().await
}

#[tokio::test]
async fn receipts_with_their_fields_are_checked_to_the_letter() -> Result<()> {
    let deployment = Deployment::start().await?;
    let run = deployment.create(&plan(&[step("a", &[], &[write("a.txt", "x")])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let full = v1::GetRunRequest { run_id: run.id, view: v1::RunView::Full.into() };
    let receipts = deployment.runs()?.get_run(full).await?.into_inner().receipts;
    let chain = |receipts| Source::Receipts(v1::ReceiptChain { receipts, run_id: String::new() });
    let whole = verify(&deployment, chain(receipts.clone())).await?;
    assert!(whole.valid, "{whole:?}");
    signed_as(&whole, v1::SignatureState::Unsigned, "the receipts came without signatures");
    assert_eq!(whole.receipt_count as usize, receipts.len());

    type Change = fn(&mut v1::EvidenceReceipt);
    let changes: [(Change, &str); 4] = [
        (|receipt| receipt.summary.push(' '), "digest of its fields"),
        (|receipt| receipt.prev_digest.push('0'), "its previous digest"),
        (|receipt| receipt.step_index = None, "the receipt is invalid"),
        (|receipt| receipt.signature = vec![0; 64], "no inclusion proof"),
    ];
    for (change, message) in changes {
        let mut receipts = receipts.clone();
        change(receipts.first_mut().context("a receipt")?);
        let found = verify(&deployment, chain(receipts)).await?;
        assert!(!found.valid, "{message}");
        signed_as(&found, v1::SignatureState::Broken, message);
        let first = found.findings.first().context("a finding")?;
        assert!(first.seq == 1 && first.message.contains(message), "{found:?}");
    }
    deployment.finish().await
}
