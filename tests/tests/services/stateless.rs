//! Services without a database: they judge what is sent along, and say what they cannot do.

use anyhow::{Context, Result};
use serde_json::json;
use surety_common::domain::receipt::ChainEnd;
use surety_common::domain::signature::{
    FoundColumns, RunColumns, StoredState, TrustedKeys, header_line, state_line, stored_line,
};
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::v1::accept_gate_service_client::AcceptGateServiceClient;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::internal_service_client::InternalServiceClient;
use surety_common::wire::v1::planner_service_client::PlannerServiceClient;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_common::wire::v1::server_info_service_client::ServerInfoServiceClient;
use surety_common::wire::v1::tool_service_client::ToolServiceClient;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_common::wire::v1::{self, evaluate_request, evaluate_response, parse_decision_response};
use surety_e2e::harness::{Process, Service};
use surety_e2e::script::{noop, plan, step};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";
const SERVICES: [Service; 3] = [Service::Planner, Service::Executor, Service::Gate];

/// Every answer must be the refusal that says what to do.
fn needs_database<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<()> {
    let status = answer.err().context("it was not refused")?;
    let fault = from_status(&status);
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert_eq!(fault.reason.as_str(), "database_not_configured", "{status:?}");
    assert!(fault.message.contains("DATABASE_URL"), "{}", fault.message);
    Ok(())
}

fn plan_text() -> String {
    plan(&[step("only", &[], &[noop()])]).to_string()
}

#[tokio::test]
async fn a_planner_without_a_database_reads_judges_and_patches_plans() -> Result<()> {
    let planner = Process::start_stateless(Service::Planner, &[]).await?;
    let mut plans = PlannerServiceClient::new(channel(&planner.url(), None)?);
    let read = v1::ParsePlanRequest { raw: plan_text(), max_plan_steps: 0 };
    let read = plans.parse_plan(read).await?.into_inner();
    let Some(v1::parse_plan_response::Outcome::Plan(read)) = read.outcome else {
        anyhow::bail!("no plan: {read:?}");
    };
    let valid = v1::ValidatePlanRequest { plan: Some(read.clone()), max_plan_steps: 0 };
    assert!(plans.validate_plan(valid).await?.into_inner().ok);
    let patch = v1::ApplyPatchRequest {
        plan_source: Some(v1::apply_patch_request::PlanSource::Plan(read)),
        patch: json!({"title": "another", "reason": "r"}).to_string(),
        ..v1::ApplyPatchRequest::default()
    };
    assert!(plans.apply_patch(patch).await?.into_inner().ok);
    for max_plan_steps in [201, u32::MAX] {
        let read = v1::ParsePlanRequest { raw: plan_text(), max_plan_steps };
        let status = plans.parse_plan(read).await.err().context("it was not refused")?;
        assert_eq!(from_status(&status).reason.as_str(), "limit_out_of_range");
    }
    let mut info = ServerInfoServiceClient::new(channel(&planner.url(), None)?);
    let info = info.get_server_info(v1::GetServerInfoRequest::default()).await?.into_inner();
    assert!(info.stateless && info.schema_version.is_none(), "{info:?}");
    needs_database(plans.submit_plan(v1::SubmitPlanRequest::default()).await)?;
    needs_database(plans.get_plan(v1::GetPlanRequest::default()).await)?;
    needs_database(plans.request_replan(v1::RequestReplanRequest::default()).await)?;
    let mut runs = RunServiceClient::new(channel(&planner.url(), None)?);
    needs_database(runs.create_run(v1::CreateRunRequest::default()).await)?;
    needs_database(runs.list_runs(v1::ListRunsRequest::default()).await)?;
    let watch = v1::WatchRunRequest {
        run_id: RUN.to_owned(),
        from_sequence: 1,
        follow: true,
        progress: false,
    };
    needs_database(runs.watch_run(watch).await.map(|_| ()))?;
    let mut tasks = ToolchainServiceClient::new(channel(&planner.url(), None)?);
    needs_database(tasks.list_tasks(v1::ListTasksRequest::default()).await)
}

#[tokio::test]
async fn an_executor_without_a_database_reads_decisions_and_carries_nothing_out() -> Result<()> {
    let executor = Process::start_stateless(Service::Executor, &[]).await?;
    let mut work = ExecutorServiceClient::new(channel(&executor.url(), None)?);
    let raw = r#"好的 ```json {"action": "next_plan", "goal_check": "完成"} ```"#.to_owned();
    let read = work.parse_decision(v1::ParseDecisionRequest { raw }).await?.into_inner();
    let Some(parse_decision_response::Outcome::Decision(decision)) = read.outcome else {
        anyhow::bail!("no decision: {read:?}");
    };
    assert_eq!((decision.action(), &*decision.goal_check), (v1::DecisionAction::NextPlan, "完成"));
    needs_database(work.lease_step(v1::LeaseStepRequest::default()).await)?;
    needs_database(work.submit_decision(v1::SubmitDecisionRequest::default()).await)?;
    needs_database(work.heartbeat(v1::HeartbeatRequest::default()).await)?;
    let mut tools = ToolServiceClient::new(channel(&executor.url(), None)?);
    let tools = tools.list_tools(v1::ListToolsRequest::default()).await?.into_inner();
    assert!(tools.tools.iter().any(|tool| tool.name == "run_command"));
    Ok(())
}

#[tokio::test]
async fn a_gate_without_a_database_decides_over_what_is_sent_along() -> Result<()> {
    let gate = Process::start_stateless(Service::Gate, &[]).await?;
    let mut internal = InternalServiceClient::new(channel(&gate.url(), None)?);
    let mut gate = AcceptGateServiceClient::new(channel(&gate.url(), None)?);
    let checks = evaluate_request::ChecksSource::ChecksJson("null".to_owned());
    for (final_text, accepted) in [("made it", true), ("  ", false)] {
        let request = v1::EvaluateRequest {
            checks_source: Some(checks.clone()),
            final_text: final_text.to_owned(),
            ..v1::EvaluateRequest::default()
        };
        let answer = gate.evaluate(request).await?.into_inner();
        let Some(evaluate_response::Outcome::Verdict(verdict)) = answer.outcome else {
            anyhow::bail!("no verdict: {answer:?}");
        };
        assert_eq!(verdict.accepted, accepted, "{verdict:?}");
    }
    let run_id = || RUN.to_owned();
    let evaluate = v1::EvaluateRunRequest { run_id: run_id(), lease_epoch: 0 };
    needs_database(internal.evaluate_run(evaluate).await)?;
    let verdict = v1::GetVerdictRequest { run_id: run_id(), plan_revision: 0 };
    needs_database(gate.get_verdict(verdict).await)?;
    let source = Some(v1::verify_receipts_request::Source::RunId(run_id()));
    needs_database(gate.verify_receipts(v1::VerifyReceiptsRequest { source }).await)
}

/// The trusted keys need no database.
#[tokio::test]
async fn a_gate_without_a_database_checks_signatures_against_the_keys_that_it_trusts() -> Result<()>
{
    let columns = RunColumns::of([""; 10]);
    let found = FoundColumns { run: columns, task: None, plans: Vec::new() };
    let state = StoredState {
        state: "EXECUTING".to_owned(),
        plan_revision: 0,
        sequence: 0,
        progress: [0; 32],
        history: None,
    };
    let end = ChainEnd::of(RUN, &[]).to_line();
    let lines = [header_line(RUN), stored_line(&found), state_line(&state), end];
    let unsigned = lines.join("\n") + "\n";
    let folder = tempfile::tempdir()?;
    let keys = folder.path().join("trusted.json");
    std::fs::write(&keys, TrustedKeys::default().to_text())?;
    let named = [("SURETY_TRUSTED_KEYS_FILE", keys.to_str().context("a path")?)];
    for (environment, expected) in
        [(&[][..], v1::SignatureState::Unsigned), (&named[..], v1::SignatureState::Broken)]
    {
        let gate = Process::start_stateless(Service::Gate, environment).await?;
        let mut gate = AcceptGateServiceClient::new(channel(&gate.url(), None)?);
        let source = Some(v1::verify_receipts_request::Source::Export(unsigned.clone()));
        let request = v1::VerifyReceiptsRequest { source };
        let signatures = gate.verify_receipts(request).await?.into_inner().signatures;
        let signatures = signatures.context("no word about signatures")?;
        assert_eq!(signatures.state(), expected, "{signatures:?}");
    }
    std::fs::write(&keys, "no keys")?;
    let (code, log) = Process::run_to_end(Service::Gate, "127.0.0.1:0", &named).await?;
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("trusted keys"), "{log}");
    Ok(())
}

#[tokio::test]
async fn health_tells_which_services_a_stateless_service_serves() -> Result<()> {
    let cases = [
        (Service::Planner, "", ServingStatus::Serving),
        (Service::Planner, "surety.v1.PlannerService", ServingStatus::Serving),
        (Service::Planner, "surety.v1.RunService", ServingStatus::NotServing),
        (Service::Planner, "surety.v1.ToolchainService", ServingStatus::NotServing),
        (Service::Executor, "surety.v1.ExecutorService", ServingStatus::Serving),
        (Service::Gate, "surety.v1.AcceptGateService", ServingStatus::Serving),
    ];
    for service in SERVICES {
        let process = Process::start_stateless(service, &[]).await?;
        for (_, name, expected) in cases.iter().filter(|(of, ..)| *of == service) {
            let mut health = HealthClient::new(channel(&process.url(), None)?);
            let check = HealthCheckRequest { service: (*name).to_owned() };
            let status = health.check(Request::new(check)).await?.into_inner().status();
            assert_eq!(status, *expected, "{service:?} {name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_stateless_service_names_its_mode_in_its_log_and_health_page_and_shuts_down() -> Result<()>
{
    for service in SERVICES {
        let mut process = Process::start_stateless(service, &[]).await?;
        process.wait_for_line(|line| line.contains("no DATABASE_URL is set")).await?;
        let page = process.get("/healthz").await?;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("no database"), "{page}");
        let metrics = process.get("/metrics").await?;
        assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
        assert!(process.stop().await?.success(), "{service:?}: {:#?}", process.log());
    }
    Ok(())
}

#[tokio::test]
async fn a_service_that_requires_a_database_refuses_to_start_without_one() -> Result<()> {
    for service in SERVICES {
        let required = [("SURETY_REQUIRE_DATABASE", "true")];
        let (code, log) = Process::run_to_end(service, "127.0.0.1:0", &required).await?;
        assert_eq!(code, Some(1), "{service:?}: {log}");
        assert!(log.contains("DATABASE_URL"), "{service:?}: {log}");
    }
    Ok(())
}
