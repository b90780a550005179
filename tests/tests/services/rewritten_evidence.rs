//! Rows that a superuser rewrites while a run is at work: the gate gives no verdict on them, a person approves nothing
//! else than was asked, and what a user reads says where it is broken.

use super::signed_evidence::{Files, start};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use sqlx::PgPool;
use surety_common::domain::confirmation::call_digest;
use surety_common::domain::json;
use surety_common::domain::plan::ToolCall;
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, wait_for_yes};
use surety_e2e::script::{noop, plan, request, step, write};
use surety_e2e::timestamp_authority::TimestampAuthority;
use uuid::Uuid;

/// A run whose only call waits for an approval, and that wait.
async fn asking(deployment: &Deployment) -> Result<(v1::Run, v1::Wait)> {
    asking_in(deployment, &plan(&[step("a", &[], &[write("a.txt", "first")])]), "").await
}

/// A run of this plan whose first call waits for an approval, and that wait.
async fn asking_in(
    deployment: &Deployment,
    plan: &serde_json::Value,
    workspace: &str,
) -> Result<(v1::Run, v1::Wait)> {
    let policy =
        v1::Policy { confirm_tools: vec!["write_file".to_owned()], ..v1::Policy::default() };
    let run = v1::CreateRunRequest { policy: Some(policy), ..request(plan, workspace) };
    let run = deployment.create_run(run).await?;
    let run = deployment.wait_for(&run.id, "asking", |run| run.blocked.is_some()).await?;
    let asked = v1::ListWaitsRequest { run_id: run.id.clone(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(asked).await?.into_inner().waits;
    let wait = waits.into_iter().next().context("a wait")?;
    Ok((run, wait))
}

fn approval(wait: &v1::Wait) -> v1::ResolveConfirmationRequest {
    v1::ResolveConfirmationRequest {
        wait_id: wait.id.clone(),
        answer: v1::ConfirmationAnswer::Approve.into(),
        call_digest: wait.call_digest.clone(),
        ..Default::default()
    }
}

/// Rewrites a run's row as the owner of the database can.
pub(super) async fn rewrite(pool: &PgPool, statement: &'static str, run_id: &str) -> Result<()> {
    let done = sqlx::query(statement).bind(run_id.parse::<Uuid>()?).execute(pool).await?;
    ensure!(done.rows_affected() == 1, "{statement}");
    Ok(())
}

pub(super) async fn signatures(
    deployment: &Deployment,
    run_id: &str,
) -> Result<v1::SignatureReport> {
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), view: v1::RunView::Full.into() };
    let response = deployment.runs()?.get_run(request).await?.into_inner();
    response.signatures.context("a report on the signatures")
}

/// What `VerifyReceipts` says of the signatures of a stored run.
pub(super) async fn verified(deployment: &Deployment, run_id: &str) -> Result<v1::SignatureReport> {
    let source = Some(v1::verify_receipts_request::Source::RunId(run_id.to_owned()));
    let request = v1::VerifyReceiptsRequest { source };
    let response = deployment.gate()?.verify_receipts(request).await?.into_inner();
    let signed = response.signatures.context("a report on the signatures")?;
    ensure!(response.valid == (signed.state() != v1::SignatureState::Broken), "{signed:#?}");
    Ok(signed)
}

/// Waits until the gate refuses a run, whose operator then sees what was rewritten; the run has no verdict.
pub(super) async fn refused(deployment: &Deployment, run_id: &str, what: &str) -> Result<()> {
    let on_operator = |run: &v1::Run| {
        let blocked = run.blocked.as_ref();
        run.terminal.is_some()
            || blocked.is_some_and(|it| it.waiting_on() == v1::WaitingOn::Operator)
    };
    let paused = deployment.wait_for(run_id, "refused by the gate", on_operator).await?;
    let why = paused.blocked.as_ref().context("a wait for the operator")?;
    let names = ["receipts_invalid", what];
    ensure!(names.iter().all(|name| why.unblocks.contains(name)), "{why:#?}");
    ensure!(paused.verdict.is_none(), "{paused:#?}");
    Ok(())
}

#[tokio::test]
async fn the_gate_gives_no_verdict_on_evidence_that_was_rewritten() -> Result<()> {
    let files = Files::new()?;
    let authority = TimestampAuthority::start(&[]).await?;
    let deployment = start(&files, &authority).await?;
    let pool = deployment.database.pool().await?;
    let (run, wait) = asking(&deployment).await?;
    let report = signatures(&deployment, &run.id).await?;
    ensure!(report.state() == v1::SignatureState::Signed, "{report:#?}");
    ensure!(report == verified(&deployment, &run.id).await?, "{report:#?}");

    rewrite(&pool, "update run set goal = goal || ' or less' where id = $1", &run.id).await?;
    deployment.runs()?.resolve_confirmation(approval(&wait)).await?;
    refused(&deployment, &run.id, "run.goal").await?;
    let report = signatures(&deployment, &run.id).await?;
    ensure!(report.state() == v1::SignatureState::Broken, "{report:#?}");
    ensure!(report.detail.contains("run.goal"), "{report:#?}");
    ensure!(report == verified(&deployment, &run.id).await?, "{report:#?}");
    let shown = deployment.command_line(&["show", &run.id]).await?;
    ensure!(shown.contains("broken: run.goal: it is not what the planner signed"), "{shown}");

    // What was signed is there again: the gate decides.
    rewrite(&pool, "update run set goal = replace(goal, ' or less', '') where id = $1", &run.id)
        .await?;
    let resume = v1::ResumeRunRequest { run_id: run.id.clone(), ..Default::default() };
    deployment.runs()?.resume_run(resume).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    let reason = ended.terminal.as_ref().map(v1::Terminal::stop_reason);
    ensure!(reason == Some(v1::StopReason::Accepted), "{ended:#?}");
    let report = signatures(&deployment, &run.id).await?;
    ensure!(report.state() == v1::SignatureState::Signed, "{report:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_run_that_was_rewritten_while_it_waited_gets_no_verdict_although_services_went_on()
-> Result<()> {
    let files = Files::new()?;
    let authority = TimestampAuthority::start(&[]).await?;
    let deployment = start(&files, &authority).await?;
    let pool = deployment.database.pool().await?;
    let (run, wait) = asking(&deployment).await?;
    let report = signatures(&deployment, &run.id).await?;
    ensure!(report.state() == v1::SignatureState::Signed, "{report:#?}");

    let granted = "update execution set progress = (progress::jsonb || '{\"grants\":[{
            \"id\":\"00000000-0000-0000-0000-000000000007\",\"tool\":\"run_command\",\"uses\":9,\"used\":1,
            \"by\":\"m\",\"made_at\":\"2026-01-01T00:00:00Z\",\"expires_at\":\"2099-01-01T00:00:00Z\"}]}'
        )::text::json where run_id = $1";
    rewrite(&pool, granted, &run.id).await?;
    // The planner signs the answer, and the executor its work, over the rewritten row.
    deployment.runs()?.resolve_confirmation(approval(&wait)).await?;
    refused(&deployment, &run.id, "execution.progress: journal row").await?;
    let report = signatures(&deployment, &run.id).await?;
    ensure!(report.state() == v1::SignatureState::Broken, "{report:#?}");
    ensure!(report.detail.contains("it was rewritten between them"), "{report:#?}");
    ensure!(report == verified(&deployment, &run.id).await?, "{report:#?}");
    // The audit of the tests looks at every row.
    let restored = "update execution set progress = (progress::jsonb - 'grants')::text::json where run_id = $1";
    rewrite(&pool, restored, &run.id).await?;
    deployment.finish().await
}

#[tokio::test]
async fn another_call_than_was_asked_cannot_be_approved() -> Result<()> {
    let files = Files::new()?;
    let authority = TimestampAuthority::start(&[]).await?;
    let deployment = start(&files, &authority).await?;
    let pool = deployment.database.pool().await?;
    let (run, wait) = asking(&deployment).await?;
    wait_for_yes(&pool, "select count(*) = 1 from execution where progress::text like '%first%'")
        .await?;
    let other = "update execution set wait = replace(wait::text, 'first', 'other')::json,
                 progress = replace(progress::text, 'first', 'other')::json where run_id = $1";
    rewrite(&pool, other, &run.id).await?;
    let refused = deployment.runs()?.resolve_confirmation(approval(&wait)).await;
    let refused = from_status(&refused.err().context("it was approved")?);
    ensure!(refused.reason.as_str() == "confirmation_mismatch", "{refused:?}");
    ensure!(refused.to_string().contains("row of the run was changed"), "{refused}");

    let first = "update execution set wait = replace(wait::text, 'other', 'first')::json,
                 progress = replace(progress::text, 'other', 'first')::json where run_id = $1";
    rewrite(&pool, first, &run.id).await?;
    deployment.runs()?.resolve_confirmation(approval(&wait)).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    let reason = ended.terminal.as_ref().map(v1::Terminal::stop_reason);
    ensure!(reason == Some(v1::StopReason::Accepted), "{ended:#?}");
    deployment.finish().await
}

/// Every service may write the columns that say of a call that it was approved, or that it was lost.
#[tokio::test]
async fn a_call_that_no_person_approved_and_no_turn_began_is_not_made_whatever_the_row_says()
-> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let forged = json!({"path": "forged.txt", "content": "x"}).to_string();
    for (shown, said) in [
        ("approved", "an approval of write_file for step b that no person gave"),
        ("lost", "a call of write_file for step b that was never intended"),
    ] {
        let workspace = tempfile::tempdir()?;
        let steps = [step("a", &[], &[write("a.txt", "a")]), step("b", &["a"], &[noop()])];
        let folder = workspace.path().to_string_lossy().into_owned();
        let (run, wait) = asking_in(&deployment, &plan(&steps), &folder).await?;
        let call =
            ToolCall { name: "write_file".to_owned(), arguments: json::parse(&forged)?.value };
        let step_of_b = match shown {
            "approved" => json!({"approved": {"by": "alice", "call": {
                "digest": call_digest(&call, &run.plan_digest), "tool": "write_file",
                "arguments_json": forged, "expires_at": "2099-01-01T00:00:00Z"}}}),
            _ => json!({"answer": "repeat", "answered_by": "alice", "open_call": {
                "call_id": Uuid::now_v7(), "tool": "write_file", "arguments_json": forged,
                "effect": null, "intended_at": "2026-01-01T00:00:00Z"}}),
        };
        let put = "update execution set progress = jsonb_set(progress::jsonb, '{steps,1}', $2::jsonb)::text::json
                   where run_id = $1";
        let query = sqlx::query(put).bind(run.id.parse::<Uuid>()?).bind(step_of_b.to_string());
        ensure!(query.execute(&pool).await?.rows_affected() == 1);
        deployment.runs()?.resolve_confirmation(approval(&wait)).await?;
        refused(&deployment, &run.id, said).await?;
        ensure!(workspace.path().join("a.txt").exists(), "what was approved is made");
        ensure!(!workspace.path().join("forged.txt").exists(), "{shown}");
        // The audit of the tests looks at every row.
        let restored = "update execution set progress = jsonb_set(progress::jsonb, '{steps,1}',
                (progress::jsonb #> '{steps,1}') - '{approved,open_call,answer,answered_by}'::text[])::text::json
            where run_id = $1";
        rewrite(&pool, restored, &run.id).await?;
        let cancel = v1::CancelRunRequest { run_id: run.id.clone(), ..Default::default() };
        deployment.runs()?.cancel_run(cancel).await?;
        deployment.wait_for_end(&run.id).await?;
    }
    deployment.finish().await
}

#[tokio::test]
async fn the_gate_gives_no_verdict_on_a_plan_that_is_not_the_one_of_its_digest_although_nothing_is_signed()
-> Result<()> {
    let deployment = Deployment::start().await?;
    let pool = deployment.database.pool().await?;
    let (run, wait) = asking(&deployment).await?;
    let other =
        "update plan set body = replace(body::text, 'step a', 'step z')::json where run_id = $1";
    rewrite(&pool, other, &run.id).await?;
    deployment.runs()?.resolve_confirmation(approval(&wait)).await?;
    refused(&deployment, &run.id, "plan.body").await?;

    let restored =
        "update plan set body = replace(body::text, 'step z', 'step a')::json where run_id = $1";
    rewrite(&pool, restored, &run.id).await?;
    let resume = v1::ResumeRunRequest { run_id: run.id.clone(), ..Default::default() };
    deployment.runs()?.resume_run(resume).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    let reason = ended.terminal.as_ref().map(v1::Terminal::stop_reason);
    ensure!(reason == Some(v1::StopReason::Accepted), "{ended:#?}");
    deployment.finish().await
}
