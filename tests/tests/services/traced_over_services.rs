//! One run over three processes is one trace, and what it shows of transitions is the journal.

use anyhow::{Context, Result, ensure};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent;
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::otlp::{OtlpReceiver, ReceivedSpan};
use surety_e2e::script::{self, noop, plan, shell, step};
use surety_e2e::worker::{Worker, admit, announce, entry, result, tool};

/// Run, subject, from, to, sequence.
type Moved = (String, String, String, String, u64);

/// The states of a transition, in the contract's words.
fn words(moved: &v1::Transition) -> (String, String) {
    let run = |state: v1::RunState| state.as_str_name().trim_start_matches("RUN_STATE_").to_owned();
    let step = |state: v1::StepState| {
        state.as_str_name().trim_start_matches("STEP_STATE_").to_ascii_lowercase()
    };
    match moved.subject {
        Some(v1::transition::Subject::StepId(_)) => {
            (step(moved.step_from()), step(moved.step_to()))
        }
        Some(v1::transition::Subject::RunId(_)) | None => {
            (run(moved.run_from()), run(moved.run_to()))
        }
    }
}

fn journalled(run: &v1::Run, events: &[v1::Event]) -> Vec<Moved> {
    let moved = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Transition(moved)) => {
            let subject = match &moved.subject {
                Some(v1::transition::Subject::StepId(id)) => id.clone(),
                Some(v1::transition::Subject::RunId(_)) | None => String::new(),
            };
            let (from, to) = words(moved);
            Some((run.id.clone(), subject, from, to, event.sequence))
        }
        _ => None,
    });
    moved.collect()
}

/// The transitions among the spans' events, in the order of their numbers.
fn exported(spans: &[ReceivedSpan]) -> Vec<Moved> {
    let events = spans.iter().flat_map(|span| &span.events);
    let mut moved: Vec<Moved> = events
        .filter(|event| event.name == "surety.transition")
        .map(|event| {
            let text = |key: &str| event.attribute(key).unwrap_or_default().to_owned();
            let sequence = text("surety.sequence").parse().unwrap_or_default();
            let subject = text("surety.step.id");
            (text("surety.run.id"), subject, text("surety.from"), text("surety.to"), sequence)
        })
        .collect();
    moved.sort_by_key(|moved| moved.4);
    moved
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_and_the_exported_transitions_are_the_same_list_in_one_trace() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let mut deployment =
        Deployment::start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.endpoint())]).await?;
    let folder = tempfile::tempdir()?;
    // Fails the first time, so that the list holds a recovery; then three steps side by side.
    let flaky = "test -e once || { touch once; exit 1; }";
    let steps = [
        step("flaky", &[], &[shell(flaky)]),
        step("a", &["flaky"], &[noop()]),
        step("b", &["flaky"], &[noop(), noop()]),
        step("c", &["a", "b"], &[shell("true")]),
    ];
    let workspace = folder.path().display().to_string();
    let run = deployment.create(&plan(&steps), &workspace).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let events = deployment.events(&run.id).await?;
    let expected = journalled(&run, &events);
    ensure!(expected.len() > 15, "{expected:#?}");
    // A span is sent when it ends, and the last ones when their process does.
    deployment.first_executor()?.stop().await?;
    deployment.gate.stop().await?;
    let complete = |spans: &[ReceivedSpan]| exported(spans).len() >= expected.len();
    deployment.planner.stop().await?;
    let spans = receiver.wait_for(complete, PATIENCE).await;
    let spans = spans.unwrap_or_else(|partial| partial);
    assert_eq!(exported(&spans), expected);
    let of_run: Vec<_> =
        spans.iter().filter(|span| span.attribute("surety.run.id") == Some(&run.id)).collect();
    let traces: BTreeSet<&str> = of_run.iter().map(|span| span.trace_id.as_str()).collect();
    assert_eq!(traces, BTreeSet::from([run.trace_id.as_str()]));
    let services: BTreeSet<&str> =
        of_run.iter().filter_map(|span| span.attribute("surety.service")).collect();
    assert_eq!(services, BTreeSet::from(["acceptgate", "executor", "planner"]));
    // Each event names the span it was written under, and that span arrived.
    let arrived: BTreeSet<&str> = spans.iter().map(|span| span.span_id.as_str()).collect();
    for event in &events {
        assert_eq!(event.trace_id, run.trace_id);
        assert!(arrived.contains(event.span_id.as_str()), "no span of {event:#?}");
    }
    tokio::time::timeout(Duration::from_secs(30), deployment.finish()).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn each_probe_and_each_snapshot_is_a_span_in_the_trace_of_its_run() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let mut deployment =
        Deployment::start_with(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.endpoint())]).await?;
    let folder = tempfile::tempdir()?;
    let mut plan = plan(&[step("only", &[], &[shell("echo x > a.txt")])]);
    plan["verify"] = json!([
        {"id": "good", "kind": "command_success", "target": "test -e a.txt"},
        {"id": "bad", "kind": "command_success", "target": "test -e b.txt", "required": true},
        {"id": "file", "kind": "file_exists", "target": "a.txt"},
    ]);
    let mut request = script::request(&plan, &folder.path().display().to_string());
    request.limits = Some(v1::Limits { max_repairs: Some(0), ..Default::default() });
    let run = deployment.create_run(request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    let message = &run.terminal.as_ref().expect("an end").user_message;
    let needed = "bad needs `test -e b.txt` to end with exit code 0; it ended with 1.";
    assert!(message.contains(needed), "{message}");
    deployment.first_executor()?.stop().await?;
    let probes = |spans: &[ReceivedSpan]| spans.iter().filter(|span| span.name == "probe").count();
    let spans = receiver.wait_for(|spans| probes(spans) >= 3, PATIENCE).await;
    let spans = spans.unwrap_or_else(|partial| partial);
    let of_run = |span: &&ReceivedSpan| span.trace_id == run.trace_id;
    let snapshots = || spans.iter().filter(|span| span.name == "snapshot");
    ensure!(snapshots().count() >= 2, "{spans:#?}");
    let of_round = |span: &&ReceivedSpan| span.attribute("surety.snapshot") == Some("round");
    ensure!(snapshots().filter(of_round).count() >= 1, "{spans:#?}");
    let outside: Vec<_> = snapshots().filter(|span| !of_run(span)).collect();
    ensure!(outside.is_empty(), "snapshots outside of the run's trace: {outside:#?}");
    let probes = spans.iter().filter(of_run).filter(|span| span.name == "probe");
    let found: BTreeSet<_> = probes
        .map(|span| {
            let ran_in_sandbox = span.attribute("surety.sandbox").is_some();
            let exit_code = span.attribute("surety.exit_code");
            (span.attribute("surety.check.id").unwrap_or_default(), exit_code, ran_in_sandbox)
        })
        .collect();
    let expected = [("good", Some("0"), true), ("bad", Some("1"), true), ("file", None, false)];
    assert_eq!(found, BTreeSet::from(expected));
    tokio::time::timeout(Duration::from_secs(30), deployment.finish()).await?
}

/// A text that only the arguments of the calls below contain.
const SECRET: &str = "hunter2-bearer";

/// Whether a transition carries the secret in its cause, or any other of its texts.
fn tells(event: &v1::Event) -> bool {
    matches!(&event.kind, Some(v1::event::Kind::Transition(moved))
        if format!("{moved:?}").contains(SECRET))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_arguments_of_a_call_that_fails_is_in_no_log_no_trace_and_no_cause()
-> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()), ("SURETY_LOG", "debug".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut deployment = Deployment::start_with(&environment).await?;
    let command = |arguments| json!({"name": "run_command", "arguments": arguments});
    let calls = [
        command(json!({"argv": ["sh", "-c", "exit 3", SECRET]})),
        command(json!({"argv": [format!("./{SECRET}")]})),
        command(json!({"argv": SECRET})),
        command(json!({"argv": ["true"], "env": {"LD_PRELOAD": SECRET}})),
        json!({"name": "read_file", "arguments": {"path": SECRET}}),
        json!({"name": "write_file", "arguments": {"path": "a.txt", "content": {"key": SECRET}}}),
    ];
    let mut expected = Vec::new();
    for call in calls {
        let run = deployment.create(&plan(&[step("only", &[], &[call])]), "").await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
        let events = deployment.events(&run.id).await?;
        let told: Vec<_> = events.iter().filter(|event| tells(event)).collect();
        assert!(told.is_empty(), "{told:#?}");
        expected.push((run.id.clone(), journalled(&run, &events).len()));
    }
    deployment.first_executor()?.stop().await?;
    deployment.gate.stop().await?;
    deployment.planner.stop().await?;
    let complete = |spans: &[ReceivedSpan]| {
        let of = |id: &String| exported(spans).iter().filter(|moved| moved.0 == *id).count();
        expected.iter().all(|(id, count)| of(id) >= *count)
    };
    let spans = receiver.wait_for(complete, PATIENCE).await;
    let spans = spans.map_err(|partial| anyhow::anyhow!("{} spans came", partial.len()))?;
    for span in &spans {
        assert!(!format!("{span:?}").contains(SECRET), "{span:#?}");
    }
    for process in deployment.executors.iter().chain([&deployment.planner, &deployment.gate]) {
        let told: Vec<_> = process.log().into_iter().filter(|line| line.contains(SECRET)).collect();
        assert!(told.is_empty(), "{told:#?}");
    }
    tokio::time::timeout(Duration::from_secs(30), deployment.finish()).await?
}

/// What agents and callers say below.
const WORDS: &str = "the zebra crossed at noon";

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_and_callers_say_is_in_the_journal_and_in_no_log_and_no_trace() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let tokens = agent::token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()), ("SURETY_TOKEN_FILE", path)];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&agent::secret(agent::PERSON))?);
    deployment.add_executor(&[]).await?;
    let plan = plan(&[json!({"id": "work", "description": "answer", "evidence": "none"})]);
    let request = v1::CreateRunRequest {
        driver: v1::Driver::Remote.into(),
        limits: Some(v1::Limits { max_replans: Some(0), ..v1::Limits::default() }),
        ..script::request(&plan, "")
    };
    let own = agent::Agent::new(deployment.first_executor()?, agent::AGENT, "agent-1")?;
    let abort = json!({"code": WORDS, "user_message": WORDS, "internal_reason": WORDS});
    let replies = [
        json!({"action": "next_plan", "goal_check": WORDS, "speak": WORDS, "reason": WORDS}),
        json!({"action": "abort", "abort": abort}),
        json!({"control": "replan", "reason": WORDS}),
        json!({"action": "ask_user", "speak": WORDS}),
    ];
    let mut expected = 0;
    for reply in replies {
        let run = deployment.create_run(request.clone()).await?;
        own.release_for(&own.work(&run.id).await?, WORDS).await?;
        own.submit(&own.work(&run.id).await?, &reply.to_string()).await?;
        if reply["action"] == "ask_user" {
            deployment.wait_for(&run.id, "asking", |run| run.blocked.is_some()).await?;
            let (run_id, reason) = (run.id.clone(), WORDS.to_owned());
            let pause = v1::PauseRunRequest { run_id, reason, ..Default::default() };
            deployment.runs()?.pause_run(pause).await?;
            let (run_id, reason) = (run.id.clone(), WORDS.to_owned());
            let cancel = v1::CancelRunRequest { run_id, reason, ..Default::default() };
            deployment.runs()?.cancel_run(cancel).await?;
        }
        let run = deployment.wait_for_end(&run.id).await?;
        let events = deployment.events(&run.id).await?;
        let moved = |event: &v1::Event| matches!(&event.kind, Some(v1::event::Kind::Transition(moved)) if moved.cause.contains(WORDS));
        ensure!(events.iter().any(moved), "{reply}: {events:#?}");
        expected += journalled(&run, &events).len();
    }
    deployment.first_executor()?.stop().await?;
    deployment.gate.stop().await?;
    deployment.planner.stop().await?;
    let complete = |spans: &[ReceivedSpan]| exported(spans).len() >= expected;
    let spans = receiver.wait_for(complete, PATIENCE).await;
    let spans = spans.map_err(|partial| anyhow::anyhow!("{} spans came", partial.len()))?;
    for span in &spans {
        ensure!(!format!("{span:?}").contains(WORDS), "{span:#?}");
    }
    let causes: BTreeSet<&str> = spans
        .iter()
        .flat_map(|span| &span.events)
        .filter_map(|event| event.attribute("surety.cause"))
        .collect();
    // Those of the code are shown.
    ensure!(causes.contains("every step is done"), "{causes:?}");
    for process in deployment.executors.iter().chain([&deployment.planner, &deployment.gate]) {
        let said: Vec<_> = process.log().into_iter().filter(|line| line.contains(WORDS)).collect();
        ensure!(said.is_empty(), "{said:#?}");
    }
    tokio::time::timeout(Duration::from_secs(30), deployment.finish()).await?
}

/// One span of an agent: 16 hexadecimal digits.
const AGENT_SPAN: &str = "00f067aa0ba902b7";
/// The span of an agent with a trace of its own.
const OTHER_SPAN: &str = "b7ad6b7169203331";
const OTHER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn bytes(hex: &str) -> Vec<u8> {
    let digits = (0..hex.len() / 2).filter_map(|at| hex.get(2 * at..2 * at + 2));
    digits.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// Sends a span as the exporter of an agent or of a worker does.
async fn export_outside(endpoint: String, trace_id: &str, parent: &str) -> Result<()> {
    let span = Span {
        trace_id: bytes(trace_id),
        span_id: bytes(AGENT_SPAN),
        parent_span_id: bytes(parent),
        name: "chat".to_owned(),
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let mut client = TraceServiceClient::connect(endpoint).await?;
    client.export(ExportTraceServiceRequest { resource_spans }).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one run from its creation to its verdict")]
async fn a_run_that_an_agent_decides_and_a_person_approves_is_one_trace_with_the_agents_spans()
-> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let tokens = agent::token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()), ("SURETY_TOKEN_FILE", path)];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&agent::secret(agent::PERSON))?);
    deployment.add_executor(&[]).await?;
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("tests"))?;
    std::fs::write(folder.path().join("tests/t.sh"), "grep -q 4 answer.txt\n")?;
    let check = v1::AcceptCheck {
        kind: "command_success".to_owned(),
        target: "sh tests/t.sh".to_owned(),
        ..v1::AcceptCheck::default()
    };
    let plan = plan(&[json!({"id": "work", "description": "answer"})]);
    let request = v1::CreateRunRequest {
        driver: v1::Driver::Remote.into(),
        verify: vec![check],
        interactive: true,
        ..script::request(&plan, &folder.path().display().to_string())
    };
    let run = deployment.create_run(request).await?;
    let executor = deployment.first_executor()?;
    let own = agent::Agent::new(executor, agent::AGENT, "agent-1")?;
    let work = own.work(&run.id).await?;
    let parent = work.lease.traceparent.split('-').nth(2).unwrap_or_default();
    ensure!(work.lease.traceparent.contains(&run.trace_id), "{:#?}", work.lease);
    export_outside(receiver.endpoint(), &run.trace_id, parent).await?;
    let inside = own.clone().within(&format!("00-{}-{AGENT_SPAN}-01", run.trace_id));
    let outside = own.within(&format!("00-{OTHER_TRACE}-{OTHER_SPAN}-01"));
    let write = |path: &str, content: &str| {
        agent::call("write_file", json!({"path": path, "content": content})).to_string()
    };
    let wrote = inside.submit(&work, &write("answer.txt", "5\n")).await?;
    let next = wrote.next.context("the lease goes on")?;
    let work = agent::Work { context: next, ..work };
    let wrote = outside.submit(&work, &write("tests/t.sh", "grep -q 5 answer.txt\n")).await?;
    let next = wrote.next.context("the lease goes on")?;
    let work = agent::Work { context: next, ..work };
    inside.submit(&work, &agent::next_plan().to_string()).await?;
    let asking = deployment.wait_for(&run.id, "asking", |run| run.blocked.is_some()).await?;
    let list = v1::ListWaitsRequest { run_id: asking.id.clone(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(list).await?.into_inner().waits;
    let wait = waits.into_iter().next().context("a wait")?;
    let approve = v1::ResolveConfirmationRequest {
        wait_id: wait.id,
        answer: v1::ConfirmationAnswer::Approve.into(),
        call_digest: wait.call_digest,
        ..Default::default()
    };
    deployment.runs()?.resolve_confirmation(approve).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    let events = deployment.events(&run.id).await?;
    deployment.first_executor()?.stop().await?;
    deployment.gate.stop().await?;
    deployment.planner.stop().await?;
    let expected = journalled(&run, &events).len();
    let complete = |spans: &[ReceivedSpan]| exported(spans).len() >= expected;
    let spans = receiver.wait_for(complete, PATIENCE).await.unwrap_or_else(|partial| partial);
    let of_run: Vec<_> = spans.iter().filter(|span| span.trace_id == run.trace_id).collect();
    ensure!(of_run.iter().any(|span| span.span_id == AGENT_SPAN), "the agent's own span");
    let turns: Vec<_> = of_run.iter().filter(|span| span.name == "turn").collect();
    let children = turns.iter().filter(|span| span.parent_span_id == AGENT_SPAN).count();
    let linked = turns.iter().filter(|span| span.links.iter().any(|id| id == OTHER_SPAN)).count();
    ensure!((turns.len(), children, linked) == (3, 2, 1), "{turns:#?}");
    let ids: BTreeSet<&str> = turns.iter().map(|span| span.span_id.as_str()).collect();
    let tools = of_run.iter().filter(|span| span.attribute("gen_ai.tool.name").is_some());
    let inside = tools.filter(|span| ids.contains(span.parent_span_id.as_str())).count();
    ensure!(inside == 2, "each call is inside its turn: {of_run:#?}");
    let services: BTreeSet<&str> =
        of_run.iter().filter_map(|span| span.attribute("surety.service")).collect();
    assert_eq!(services, BTreeSet::from(["acceptgate", "executor", "planner"]));
    for event in &events {
        let arrived = of_run.iter().any(|span| span.span_id == event.span_id);
        ensure!(arrived && event.trace_id == run.trace_id, "no span of {event:#?}");
    }
    tokio::time::timeout(Duration::from_secs(30), deployment.finish()).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_does_lies_under_the_span_of_its_call_wherever_that_ends() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let tokens = agent::token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()), ("SURETY_TOKEN_FILE", path)];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&agent::secret(agent::PERSON))?);
    deployment.add_executor(&[]).await?;
    admit(&deployment, &[entry("translate", agent::WORKER)]).await?;
    let announce = announce("w1", &[tool("translate")]);
    let executor = deployment.first_executor()?;
    let mut worker = Worker::connect(executor, agent::WORKER, announce.clone()).await?;
    let call = json!({"name": "translate", "arguments": {"text": "x"}});
    let run = deployment.create(&plan(&[step("only", &[], &[call])]), "").await?;
    let given = worker.call().await?;
    let parts: Vec<&str> = given.traceparent.split('-').collect();
    let [_, trace_id, call_span, _] = parts[..] else { anyhow::bail!("{given:#?}") };
    ensure!(trace_id == run.trace_id, "{given:#?}");
    export_outside(receiver.endpoint(), trace_id, call_span).await?;
    // Another process ends the call, with its span.
    deployment.first_executor()?.stop().await?;
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    let executor = deployment.first_executor()?;
    let mut worker = Worker::connect(executor, agent::WORKER, announce).await?;
    let resumed = worker.call().await?;
    ensure!(resumed.traceparent == given.traceparent, "{resumed:#?}");
    worker.store(result(&resumed, "ok")).await?;
    deployment.wait_for_end(&run.id).await?;
    deployment.first_executor()?.stop().await?;
    let is_call =
        |span: &&ReceivedSpan| span.attribute("gen_ai.tool.call.id") == Some(&given.call_id);
    let complete = |spans: &[ReceivedSpan]| spans.iter().any(|span| is_call(&span));
    let spans = receiver.wait_for(complete, PATIENCE).await.unwrap_or_else(|partial| partial);
    let calls: Vec<_> = spans.iter().filter(is_call).collect();
    let [ended] = calls[..] else { anyhow::bail!("one span of the call: {calls:#?}") };
    ensure!(ended.span_id == call_span && ended.trace_id == run.trace_id, "{ended:#?}");
    ensure!(ended.name == "execute_tool translate", "{ended:#?}");
    ensure!(ended.attribute("surety.resumed.span_id").is_none(), "{ended:#?}");
    let of_worker = spans.iter().find(|span| span.span_id == AGENT_SPAN).context("the worker's")?;
    ensure!(of_worker.parent_span_id == ended.span_id, "{of_worker:#?}");
    let around = spans.iter().find(|span| span.span_id == ended.parent_span_id);
    ensure!(around.is_some_and(|span| span.name == "invoke_agent"), "{around:#?}");
    tokio::time::timeout(Duration::from_secs(30), deployment.finish()).await?
}
