//! What an operator sees of runs: metrics, spans and log lines of the services.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent;
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::otlp::{OtlpReceiver, ReceivedSpan};
use surety_e2e::script::{self, plan, step};

/// The value of a metric with these labels; 0 where the page does not have it.
fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_turn_and_each_end_of_a_step_that_an_agent_decides_is_measured_once() -> Result<()> {
    let tokens = agent::token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&agent::secret(agent::PERSON))?);
    deployment.add_executor(&[]).await?;
    let plan = plan(&[json!({"id": "work", "description": "answer"})]);
    let request = v1::CreateRunRequest {
        driver: v1::Driver::Remote.into(),
        verify: vec![v1::AcceptCheck {
            kind: "file_exists".to_owned(),
            target: "answer.txt".to_owned(),
            ..v1::AcceptCheck::default()
        }],
        ..script::request(&plan, "")
    };
    let run = deployment.create_run(request).await?;
    let own = agent::Agent::new(deployment.first_executor()?, agent::AGENT, "agent-1")?;
    let mut work = own.work(&run.id).await?;
    let calls = [
        agent::call("run_command", json!({"argv": ["sleep", "1"]})),
        agent::call("write_file", json!({"path": "answer.txt", "content": "4"})),
    ];
    for call in calls {
        let told = own.submit(&work, &call.to_string()).await?;
        work.context = told.next.context("the lease goes on")?;
    }
    own.submit(&work, &agent::next_plan().to_string()).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let page = deployment.first_executor()?.get("/metrics").await?;
    let turns = |what: &str| {
        value(&page, &format!("surety_turn_duration_seconds_{what}{{driver=\"remote\"}}"))
    };
    assert_eq!(turns("count"), 3.0, "{page}");
    assert!((1.0..30.0).contains(&turns("sum")), "{page}");
    let steps = |what: &str, outcome: &str| {
        value(&page, &format!("surety_step_duration_seconds_{what}{{outcome=\"{outcome}\"}}"))
    };
    assert_eq!((steps("count", "done"), steps("count", "waiting")), (1.0, 0.0), "{page}");
    assert!((1.0..30.0).contains(&steps("sum", "done")), "{page}");
    deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_what_failed_say_so_and_those_of_calls_have_their_grpc_code() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut deployment = Deployment::start_with(&environment).await?;
    let missing = json!({"name": "read_file", "arguments": {"path": "missing.txt"}});
    let run = deployment.create(&plan(&[step("only", &[], &[missing])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    let unknown = v1::GetRunRequest { run_id: uuid::Uuid::nil().to_string(), ..Default::default() };
    let refused = deployment.runs()?.get_run(unknown).await;
    ensure!(refused.is_err_and(|status| status.code() == tonic::Code::NotFound));
    // A span is sent when it ends, and the last ones when their process does.
    deployment.first_executor()?.stop().await?;
    deployment.planner.stop().await?;
    let named = |spans: &[ReceivedSpan], name: &str| -> Vec<ReceivedSpan> {
        spans.iter().filter(|span| span.name == name).cloned().collect()
    };
    let codes = |spans: &[ReceivedSpan], method: &str| -> Vec<Option<String>> {
        let calls = named(spans, "rpc").into_iter();
        let of_method = calls.filter(|span| span.attribute("rpc.method") == Some(method));
        of_method.map(|span| span.attribute("rpc.grpc.status_code").map(str::to_owned)).collect()
    };
    let complete = |spans: &[ReceivedSpan]| {
        codes(spans, "GetRun").contains(&Some("5".to_owned()))
            && !named(spans, "execute_tool read_file").is_empty()
    };
    let spans = receiver.wait_for(complete, PATIENCE).await;
    let spans = spans.map_err(|partial| anyhow::anyhow!("only these came: {partial:#?}"))?;
    for call in named(&spans, "execute_tool read_file") {
        ensure!(call.failed && call.attribute("error.type") == Some("file_not_found"), "{call:#?}");
    }
    ensure!(codes(&spans, "CreateRun") == [Some("0".to_owned())], "{spans:#?}");
    for call in named(&spans, "rpc") {
        ensure!(call.kind == "SPAN_KIND_SERVER", "{call:#?}");
        ensure!(call.attribute("rpc.system") == Some("grpc"), "{call:#?}");
        let code = call.attribute("rpc.grpc.status_code").unwrap_or("1");
        let is_fault = ["2", "4", "12", "13", "14", "15"].contains(&code);
        ensure!(call.failed == is_fault, "{call:#?}");
    }
    deployment.finish().await
}
