//! Receipts that workers report over the API: kept once, as their words, and worth as much as trust allows.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::domain::fault::Reason;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_e2e::agent::{AGENT, Agent, OTHER, PERSON, WORKER, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;
use tonic::Status;

async fn deployed(environment: &[(&str, &str)]) -> Result<(Deployment, NamedTempFile)> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let mut all = vec![("SURETY_TOKEN_FILE", path.as_str())];
    all.extend(environment);
    let mut deployment = Deployment::start_idle(Database::create().await?, &all).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    Ok((deployment, tokens))
}

async fn driven_run(deployment: &Deployment) -> Result<String> {
    let plan = plan(&[json!({"id": "s", "description": "have it built"})]);
    let driver = v1::Driver::Remote.into();
    Ok(deployment.create_run(v1::CreateRunRequest { driver, ..request(&plan, "") }).await?.id)
}

fn built(run_id: &str, request_id: &str) -> v1::RecordReceiptRequest {
    use v1::fact::{Command, Fact as Kind, command};
    let command = Some(command::Command::CommandLine("make".to_owned()));
    let fact = Some(Kind::Command(Command { command, ..Command::default() }));
    v1::RecordReceiptRequest {
        fence: Some(v1::StepFence {
            run_id: run_id.to_owned(),
            step_id: "s".to_owned(),
            lease_epoch: 0,
        }),
        receipt: Some(v1::EvidenceReceipt {
            step_index: Some(0),
            source: v1::EvidenceSource::Approval.into(),
            name: "remote_build".to_owned(),
            call_id: "forged".to_owned(),
            success: true,
            summary: "the farm built it".to_owned(),
            facts: vec![v1::Fact { fact }],
            sandbox: "full".to_owned(),
            output_digest: "d".repeat(64),
            ..v1::EvidenceReceipt::default()
        }),
        request_id: request_id.to_owned(),
    }
}

async fn record(
    deployment: &Deployment,
    identity: &str,
    request: v1::RecordReceiptRequest,
) -> Result<Result<v1::EvidenceReceipt, Status>> {
    let executor = deployment.executors.first().context("an executor")?;
    let channel = channel(&executor.url(), Some(&Token::new(&secret(identity))?))?;
    let answer = ExecutorServiceClient::new(channel).record_receipt(request).await;
    Ok(match answer {
        Ok(answer) => Ok(answer.into_inner().receipt.context("a receipt")?),
        Err(status) => Err(status),
    })
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}

#[tokio::test]
async fn a_report_is_kept_once_as_the_words_of_its_worker_and_shows_that_work_was_done()
-> Result<()> {
    let (deployment, _tokens) = deployed(&[]).await?;
    let agent = Agent::new(&deployment.executors[0], AGENT, "agent-1")?;
    let run_id = driven_run(&deployment).await?;
    let work = agent.work(&run_id).await?;
    let early = agent.submit(&work, &next_plan().to_string()).await?;
    ensure!(early.correction.contains("evidence_missing"), "{early:#?}");
    let first = record(&deployment, WORKER, built(&run_id, "build-1")).await??;
    ensure!(first.source() == v1::EvidenceSource::ToolObservation, "{first:#?}");
    ensure!(first.call_id != "forged" && first.sandbox.is_empty(), "{first:#?}");
    ensure!(first.output_digest.is_empty() && first.seq == 1 && first.plan_revision == 1);
    let by = first.facts.first().and_then(|fact| fact.fact.clone()).context("a fact")?;
    let named = matches!(&by, v1::fact::Fact::Output(output)
        if output.key == "surety.reported_by" && output.value == WORKER);
    ensure!(named, "{first:#?}");
    let again = record(&deployment, WORKER, built(&run_id, "build-1")).await??;
    ensure!(again == first, "the same request records nothing more");
    let mut other = built(&run_id, "build-1");
    other.receipt.iter_mut().for_each(|receipt| receipt.success = false);
    let conflict = reason(record(&deployment, WORKER, other).await?)?;
    ensure!(conflict == "request_id_conflict", "{conflict}");
    let context = early.next.context("the lease goes on")?;
    let next = surety_e2e::agent::Work { context, lease: work.lease };
    let ended = agent.submit(&next, &next_plan().to_string()).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    let run = deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(
        run.counters.is_some_and(|counters| counters.receipts == 1 && counters.tool_calls == 0)
    );
    let late = reason(record(&deployment, WORKER, built(&run_id, "build-2")).await?)?;
    ensure!(late == "run_terminal", "{late}");
    let again = record(&deployment, WORKER, built(&run_id, "build-1")).await??;
    ensure!(again == first, "also after the end");
    deployment.finish().await
}

#[tokio::test]
async fn only_a_worker_that_the_operator_names_reports_and_a_driver_never() -> Result<()> {
    let named = ("SURETY_EXECUTOR_RECORD_RECEIPTS", "farm,lab");
    let (deployment, _tokens) = deployed(&[named]).await?;
    let run_id = driven_run(&deployment).await?;
    for identity in [WORKER, AGENT, OTHER, PERSON] {
        let denied = reason(record(&deployment, identity, built(&run_id, "build-1")).await?)?;
        ensure!(denied == "permission_denied", "{identity}: {denied}");
    }
    let cancel = v1::CancelRunRequest { run_id, ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    deployment.finish().await
}
