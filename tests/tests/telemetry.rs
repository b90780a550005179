//! The telemetry of a process arrives: spans at a real receiver, metrics in a real scrape.
//!
//! A binary of its own: what a process logs is one state of that process.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use surety_common::config::{LogFormat, TelemetryConfig};
use surety_common::domain::redact::Redactor;
use surety_common::telemetry::{
    EvaluationRecord, StepSpan, Subject, Telemetry, TelemetryError, TransitionRecord,
    evaluation_span, fail, init, record_evaluation, record_transition, redact_logs, start_run,
    step_span, tool_span,
};
use surety_common::wire::client::Transport;
use surety_e2e::otlp::{OtlpReceiver, ReceivedSpan};
use tokio::net::TcpListener;
use tracing::dispatcher::with_default;

const DEADLINE: Duration = Duration::from_secs(20);
const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";
/// A caller's trace context, as W3C Trace Context writes it.
const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn config(endpoint: Option<String>) -> TelemetryConfig {
    TelemetryConfig { log: "error".into(), log_format: LogFormat::Json, otlp_endpoint: endpoint }
}

fn build(service: &'static str, config: &TelemetryConfig) -> Result<Telemetry, TelemetryError> {
    Telemetry::build(service, config, &Transport::default())
}

fn transition(
    subject: Subject,
    from: &'static str,
    to: &'static str,
    n: u64,
) -> TransitionRecord<'static> {
    TransitionRecord {
        subject,
        run_id: RUN,
        step_id: matches!(subject, Subject::Step).then_some("s1"),
        from: from.into(),
        to: to.into(),
        event: "moved",
        cause: "a test",
        actor: "tester",
        sequence: n,
        stop_reason: None,
    }
}

fn step(lease_epoch: u64) -> StepSpan<'static> {
    StepSpan { service: "executor", run_id: RUN, step_id: "s1", driver: "script", lease_epoch }
}

fn named<'a>(spans: &'a [ReceivedSpan], name: &str) -> &'a ReceivedSpan {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_transition_arrives_once_in_the_trace_that_the_run_stores() {
    let receiver = OtlpReceiver::start().await.expect("a receiver");
    let built = build("surety", &config(Some(receiver.endpoint()))).expect("telemetry");
    let stored = with_default(&built.dispatch, || {
        let (run, context) = start_run("planner", RUN, None);
        record_transition(&run, &transition(Subject::Run, "INTAKE", "PLANNING", 1));
        let stored = context.to_string();
        let step = step_span(&step(1), &stored);
        record_transition(&step, &transition(Subject::Step, "ready", "running", 2));
        record_transition(&step, &transition(Subject::Step, "running", "done", 3));
        stored
    });
    built.guard.shutdown(DEADLINE).await.expect("all is sent");

    let spans = receiver.wait_for(|spans| spans.len() == 2, DEADLINE).await.expect("two spans");
    let run = named(&spans, "invoke_workflow");
    let step = named(&spans, "invoke_agent");
    assert_eq!(stored, format!("00-{}-{}-01", run.trace_id, run.span_id));
    assert_eq!((&step.trace_id, &step.parent_span_id), (&run.trace_id, &run.span_id));
    assert_eq!((run.parent_span_id.as_str(), run.service_name.as_str()), ("", "surety"));
    assert_eq!(run.attribute("surety.service"), Some("planner"));
    assert_eq!(step.attribute("surety.service"), Some("executor"));
    let said: Vec<_> = step
        .events
        .iter()
        .map(|event| {
            assert_eq!(event.name, "surety.transition");
            assert_eq!(event.attribute("surety.run.id"), Some(RUN));
            (event.attribute("surety.to"), event.attribute("surety.sequence"))
        })
        .collect();
    assert_eq!(said, [(Some("running"), Some("2")), (Some("done"), Some("3"))]);
    assert_eq!(run.events.len(), 1, "{:?}", run.events);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_resumed_by_another_process_days_later_stays_in_its_trace() {
    let receiver = OtlpReceiver::start().await.expect("a receiver");
    let stored = CONTEXT.to_owned();
    for (service, epoch) in [("first", 1), ("second", 2)] {
        let config = config(Some(receiver.endpoint()));
        let built = build(service, &config).expect("telemetry");
        with_default(&built.dispatch, || {
            let step = step_span(&step(epoch), &stored);
            drop(tool_span(&step, "read_file", "c1"));
        });
        built.guard.shutdown(DEADLINE).await.expect("all is sent");
    }
    let spans = receiver.wait_for(|spans| spans.len() == 4, DEADLINE).await.expect("four spans");
    assert!(spans.iter().all(|span| stored.contains(&span.trace_id)), "{spans:#?}");
    for service in ["first", "second"] {
        let of = |name: &str| {
            spans.iter().find(|span| span.service_name == service && span.name == name)
        };
        let step = of("invoke_agent").expect("a step");
        assert!(stored.contains(&step.parent_span_id));
        let child = of("execute_tool read_file").expect("a child");
        assert_eq!(child.parent_span_id, step.span_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_traces_sees_the_run_and_its_verdict_in_his_trace() {
    let receiver = OtlpReceiver::start().await.expect("a receiver");
    let built = build("surety", &config(Some(receiver.endpoint()))).expect("telemetry");
    with_default(&built.dispatch, || {
        let (run, context) = start_run("planner", RUN, Some(CONTEXT));
        let gate = evaluation_span("acceptgate", RUN, 1, &context.to_string());
        let record = EvaluationRecord {
            run_id: RUN,
            plan_revision: 1,
            accepted: false,
            stop_reason: "accept_check_failed",
            failed_checks: 2,
        };
        record_evaluation(&gate, &record);
        drop(run);
    });
    built.guard.shutdown(DEADLINE).await.expect("all is sent");
    let spans = receiver.wait_for(|spans| spans.len() == 2, DEADLINE).await.expect("two spans");
    assert!(spans.iter().all(|span| CONTEXT.contains(&span.trace_id)), "{spans:#?}");
    let verdict = named(&spans, "evaluate").events.first().expect("a verdict").clone();
    assert_eq!(verdict.name, "gen_ai.evaluation.result");
    assert_eq!(verdict.attribute("gen_ai.evaluation.score.label"), Some("fail"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_participant_makes_a_batch_too_large_or_carries_a_secret() {
    const TOOL_SPANS: usize = 500;
    const SECRET: &str = "C4nary-9zQ7-of-a-token";
    redact_logs(Arc::new(Redactor::new([("npm", SECRET)])));
    let receiver = OtlpReceiver::start().await.expect("a receiver");
    let built = build("surety", &config(Some(receiver.endpoint()))).expect("telemetry");
    let long = format!("{SECRET} {}", "é".repeat(10_000));
    let moved = |n| TransitionRecord {
        step_id: Some(&long),
        actor: &long,
        ..transition(Subject::Step, "ready", "running", n)
    };
    with_default(&built.dispatch, || {
        let step = step_span(&StepSpan { step_id: &long, ..step(1) }, CONTEXT);
        (1..=4000).for_each(|n| record_transition(&step, &moved(n)));
        for _ in 0..TOOL_SPANS {
            let tool = tool_span(&step, &long, &long);
            (1..=4).for_each(|n| record_transition(&tool, &moved(n)));
        }
    });
    built.guard.shutdown(DEADLINE).await.expect("all is sent");
    let spans = receiver.wait_for(|spans| spans.len() == TOOL_SPANS + 1, DEADLINE).await;
    let spans = spans.unwrap_or_else(|partial| panic!("{} spans came", partial.len()));
    let mut texts = Vec::new();
    for span in &spans {
        texts.push(&span.name);
        let events = span.events.iter().flat_map(|event| &event.attributes);
        texts.extend(span.attributes.iter().chain(events).map(|(_, text)| text));
    }
    let longest = texts.iter().map(|text| text.len()).max();
    assert!(longest.is_some_and(|bytes| (1000..=1024).contains(&bytes)), "{longest:?}");
    assert!(texts.iter().all(|text| !text.contains(SECRET)));
    assert!(texts.iter().any(|text| text.starts_with("[secret:npm] é") && text.ends_with("é…")));
    let tools = spans.iter().filter(|span| span.name.starts_with("execute_tool"));
    assert!(tools.clone().all(|span| span.events.len() == 4));
    let step = named(&spans, "invoke_agent");
    // What did not fit is dropped from the end.
    assert!((1000..4000).contains(&step.events.len()), "{}", step.events.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_ends_in_time_when_the_receiver_is_gone_or_silent() {
    let gone = OtlpReceiver::start().await.expect("a receiver").endpoint();
    // Accepts connections in its backlog and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let silent_endpoint = format!("http://{}", silent.local_addr().expect("an address"));
    for endpoint in [gone, silent_endpoint] {
        let built = build("surety", &config(Some(endpoint))).expect("telemetry");
        with_default(&built.dispatch, || drop(start_run("planner", RUN, None)));
        let begun = Instant::now();
        // Whether it fails or gives up is the exporter's matter; that it ends is ours.
        let ended = built.guard.shutdown(Duration::from_secs(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_that_failed_has_the_status_of_an_error_and_its_code() {
    let receiver = OtlpReceiver::start().await.expect("a receiver");
    let built = build("surety", &config(Some(receiver.endpoint()))).expect("telemetry");
    with_default(&built.dispatch, || {
        let step = step_span(&step(1), CONTEXT);
        fail(&tool_span(&step, "run_command", "c1"), "timeout");
        drop(tool_span(&step, "read_file", "c2"));
    });
    built.guard.shutdown(DEADLINE).await.expect("all is sent");
    let spans = receiver.wait_for(|spans| spans.len() == 3, DEADLINE).await.expect("three spans");
    let told = |name: &str| {
        let span = named(&spans, name);
        (span.failed, span.attribute("error.type"))
    };
    assert_eq!(told("execute_tool run_command"), (true, Some("timeout")));
    assert_eq!(told("execute_tool read_file"), (false, None));
}

#[tokio::test]
async fn transitions_are_counted_in_what_a_scrape_sees() {
    let built = build("surety", &config(None)).expect("telemetry");
    metrics_of(&built, || {
        for sequence in 1..=3 {
            let record = transition(Subject::Step, "ready", "running", sequence);
            record_transition(&tracing::Span::none(), &record);
        }
        surety_common::telemetry::record_turn_duration("script", Duration::from_millis(3));
        surety_common::telemetry::set_queue_depth("default", 7);
    });
    let page = built.guard.render();
    for line in [
        "surety_transitions_total{subject=\"step\",from=\"ready\",to=\"running\"} 3",
        "surety_turn_duration_seconds_bucket{driver=\"script\",le=\"0.005\"} 1",
        "surety_queue_depth{namespace=\"default\"} 7",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[test]
fn telemetry_without_a_runtime_is_refused_and_does_not_panic() {
    assert!(build("surety", &config(None)).is_err());
}

#[test]
fn a_transition_is_one_log_line_and_a_quiet_log_has_none() {
    let lines = lines_of_a_process("info");
    let [line] = lines.as_slice() else { panic!("not one line: {lines:#?}") };
    let line: serde_json::Value = serde_json::from_str(line).expect("a JSON object");
    assert_eq!(line["surety.run.id"], RUN);
    assert_eq!(line["surety.sequence"], 1);
    assert_eq!((&line["surety.from"], &line["surety.to"]), (&"ready".into(), &"running".into()));
    assert!(line.get("surety.stop_reason").is_none(), "{line}");
    assert_eq!(line["span"]["surety.step.id"], "s1");
    assert_eq!(line["span"]["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(lines_of_a_process("info,surety::transition=warn"), Vec::<String>::new());
}

/// The lines on standard error of a process of its own that installs telemetry and records one
/// transition of a step.
fn lines_of_a_process(log: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "a_process_of_its_own_records_a_transition", "--nocapture"])
        .env("SURETY_TEST_LOG", log)
        .output()
        .expect("a process");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

#[test]
fn a_process_of_its_own_records_a_transition() {
    let Ok(log) = std::env::var("SURETY_TEST_LOG") else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let config = TelemetryConfig { log, ..config(None) };
        let guard = init("executor", &config, &Transport::default()).expect("telemetry");
        assert!(init("executor", &config, &Transport::default()).is_err(), "a second subscriber");
        let span = step_span(&step(1), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        record_transition(&span, &transition(Subject::Step, "ready", "running", 1));
        assert!(guard.render().contains("# HELP surety_transitions_total"), "{}", guard.render());
        guard.shutdown(DEADLINE).await.expect("an end");
    });
}

/// Where the process below sends its spans.
const ENDPOINT: &str = "SURETY_TEST_ENDPOINT";

#[test]
fn a_process_of_its_own_sends_a_span_for_each_line() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let config = TelemetryConfig { log: "info".to_owned(), ..config(Some(endpoint)) };
        let guard = init("executor", &config, &Transport::default()).expect("telemetry");
        for _ in std::io::stdin().lines() {
            drop(step_span(&step(1), CONTEXT));
        }
        guard.shutdown(DEADLINE).await.expect("an end");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_away_is_one_warning_and_one_line_when_it_is_back() {
    // Takes connections and ends them at once.
    let away = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = away.local_addr().expect("an address");
    let mut process = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "a_process_of_its_own_sends_a_span_for_each_line", "--nocapture"])
        .env(ENDPOINT, format!("http://user:hunter2@{address}"))
        .env("OTEL_BSP_SCHEDULE_DELAY", "20")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a process");
    let mut spans = process.stdin.take().expect("its input");
    let mut send = || writeln!(spans, "one").expect("a line");
    // Several batches fail: the exporter connects at most once for each of four attempts.
    for _ in 0..12 {
        send();
        let connected = tokio::time::timeout(DEADLINE, away.accept()).await;
        drop(connected.expect("an attempt in time").expect("a connection"));
    }
    drop(away);
    let receiver = OtlpReceiver::start_at(address).await.expect("a receiver");
    send();
    receiver.wait_for(|spans| !spans.is_empty(), DEADLINE).await.expect("a span");
    drop(spans);
    let output = process.wait_with_output().expect("its end");
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    let [gone, back] = lines.as_slice() else { panic!("not two lines: {lines:#?}") };
    assert_eq!((&gone["level"], &back["level"]), (&"WARN".into(), &"INFO".into()));
    for line in [gone, back] {
        let endpoint = line["endpoint"].as_str().unwrap_or_default();
        assert!(endpoint.contains(&address.to_string()), "{line}");
        assert!(!endpoint.contains("hunter2"), "{line}");
    }
    assert!(gone["message"].to_string().contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{gone}");
    assert!(back["lost"].as_u64().is_some_and(|lost| lost > 0), "{back}");
}

fn metrics_of(built: &Telemetry, record: impl FnOnce()) {
    metrics::with_local_recorder(&built.recorder, || with_default(&built.dispatch, record));
}
