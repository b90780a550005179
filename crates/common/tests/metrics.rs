//! The metrics page lists every metric and no others.

use std::collections::BTreeSet;
use std::path::Path;
use surety_common::telemetry::names;

#[test]
fn the_documentation_names_every_metric_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(path).expect("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: BTreeSet<&str> = rows.collect();
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
