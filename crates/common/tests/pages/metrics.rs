//! The metrics page lists every metric and no others, each with the kind that a scrape shows.

#![allow(clippy::expect_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use surety_common::config::{LogFormat, TelemetryConfig};
use surety_common::telemetry::{self, ModelLabels, ModelUsage, Subject, Telemetry, names};
use surety_common::wire::client::Transport;

/// The documented metrics with their kinds.
fn documented() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("docs/metrics.md");
    let rows = page.lines().filter_map(|line| {
        let (name, cells) = line.strip_prefix("| `")?.split_once('`')?;
        Some((name.to_owned(), cells.split('|').nth(1)?.trim().to_owned()))
    });
    rows.collect()
}

#[test]
fn the_documentation_names_every_metric_and_no_other() {
    let rows = documented();
    let documented: BTreeSet<&str> = rows.keys().map(String::as_str).collect();
    let known = BTreeSet::from([
        names::TRANSITIONS_TOTAL,
        names::VERDICTS_TOTAL,
        names::ANCHORED_TOTAL,
        names::STEP_DURATION_SECONDS,
        names::TURN_DURATION_SECONDS,
        names::QUEUE_DEPTH,
        names::WORKERS,
        names::WORKER_CALLS,
        names::WORKER_RESULTS_TOTAL,
        names::TASK_EVENTS_TOTAL,
        names::TASKS_ENDED_TOTAL,
        names::TASK_REPORT_SECONDS,
        names::TASK_REMINDERS_TOTAL,
        names::TASK_ESCALATIONS_TOTAL,
        names::TASK_ALERTS_TOTAL,
        names::TASKS_OPEN,
        names::MODEL_CALL_DURATION_SECONDS,
        names::MODEL_FAILURES_TOTAL,
        names::MODEL_TOKENS_TOTAL,
        names::MODEL_COST_MICROS_TOTAL,
        names::MODEL_BREAKER_OPEN,
        names::MODEL_WAITS_TOTAL,
        names::MESSAGES_NORMALIZED_TOTAL,
        names::MCP_CALL_DURATION_SECONDS,
        names::MCP_STARTS_TOTAL,
        names::DEAD_LETTERS_TOTAL,
        names::DELIVERIES_TOTAL,
        names::DELIVERY_ANSWER_SECONDS,
        names::DELIVERIES_PROCESSED_TOTAL,
        names::DELIVERY_BACKLOG,
        names::FORGE_CALLS_TOTAL,
        names::FORGE_RATE_LIMIT_LEFT,
        names::RELOADS_TOTAL,
        names::CERTIFICATE_EXPIRY,
    ]);
    assert_eq!(documented, known);
}

/// Records a value of each metric.
fn record_all() {
    let (time, none) = (Duration::from_millis(3), tracing::Span::none());
    record_runs(&none, time);
    record_tasks(time);
    let labels = ModelLabels { profile: "p", model: "m" };
    telemetry::record_model_call(labels, "ok", time);
    telemetry::count_model_failure(labels, "model_timeout");
    telemetry::count_model_usage(labels, ModelUsage { input: 1, ..ModelUsage::default() });
    telemetry::set_model_breaker("e", true);
    telemetry::count_model_wait("p", "model_timeout");
    telemetry::count_normalized();
    telemetry::record_mcp_call("s", "ok", time);
    telemetry::count_mcp_start("s", "started");
    // Those of certificates are counted where files change.
    metrics::counter!(names::RELOADS_TOTAL, "result" => "loaded").increment(1);
    metrics::gauge!(names::CERTIFICATE_EXPIRY).set(1.0);
}

fn record_runs(span: &tracing::Span, time: Duration) {
    let moved = telemetry::TransitionRecord {
        subject: Subject::Run,
        run_id: "r",
        step_id: None,
        from: "INTAKE".into(),
        to: "PLANNING".into(),
        event: "e",
        cause: "c",
        actor: "a",
        sequence: 1,
        stop_reason: None,
    };
    telemetry::record_transition(span, &moved);
    let verdict = telemetry::EvaluationRecord {
        run_id: "r",
        plan_revision: 1,
        accepted: true,
        stop_reason: "accepted",
        failed_checks: 0,
    };
    telemetry::record_evaluation(span, &verdict);
    telemetry::count_anchor("stored", 1);
    telemetry::record_step_duration("done", time);
    telemetry::record_turn_duration("script", time);
    telemetry::set_queue_depth("n", 1);
    telemetry::set_workers(1, 1);
    telemetry::count_worker_result("stored");
    telemetry::count_dead_letter("unread");
}

fn record_tasks(time: Duration) {
    telemetry::count_task_event("e", "created");
    telemetry::count_task_end("e", "a", "accepted", "");
    telemetry::record_time_to_report("a", time);
    telemetry::count_reminder("a");
    telemetry::count_escalation("issue", "done");
    telemetry::count_task_alert("no_infra");
    let kind = ["task_type", "event_type", "action_type", "state"];
    telemetry::set_open_tasks(kind.map(|label| (label, "x".to_owned())), 1);
    telemetry::count_delivery("gitea", "stored");
    telemetry::record_delivery_answer(time);
    telemetry::count_processed("gitea", "processed", "");
    telemetry::set_delivery_backlog(1);
    telemetry::record_forge_call("gitea", "read", "ok", Some(1));
}

#[tokio::test]
async fn a_scrape_shows_each_metric_with_its_documented_kind() {
    let (log, log_format) = ("error".to_owned(), LogFormat::Json);
    let config = TelemetryConfig { log, log_format, otlp_endpoint: None };
    let built = Telemetry::build("surety", &config, &Transport::default()).expect("telemetry");
    metrics::with_local_recorder(&built.recorder, record_all);
    let page = built.guard.render();
    let shown = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let shown: BTreeMap<String, String> =
        shown.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect();
    assert_eq!(shown, documented());
}
