//! What `/metrics` says of models and of MCP servers.

use crate::model::stage::{
    Stage, is_planning, mcp_servers, next_plan, one_step, say, stop_reason, tool, unplanned,
};
use anyhow::{Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::model_server::{Reply, Settings};
use surety_e2e::script::Trail;

/// The value of a metric with these labels, of which the page has one.
fn value(page: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_it = |line: &&str| {
        line.split(['{', ' ']).next() == Some(name)
            && labels.iter().all(|label| line.contains(label))
    };
    page.lines().find(is_it)?.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_mcp_servers_are_counted_by_what_they_came_to() -> Result<()> {
    let trail = Trail::new()?;
    let file = mcp_servers(&trail)?;
    let path = file.path().display().to_string();
    let prices = tempfile::NamedTempFile::new()?;
    let text =
        "[model.default]\nretry_pause_ms = 20\n[price.test-model]\ninput = 1.0\noutput = 2.0\n";
    std::fs::write(prices.path(), text)?;
    let profiles = prices.path().display().to_string();
    let environment =
        [("SURETY_EXECUTOR_MCP", path.as_str()), ("SURETY_MODEL_PROFILES_FILE", profiles.as_str())];
    let stage = Stage::start_with(Settings::default(), &environment).await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("counted", |number, asked| match (is_planning(asked), number) {
        (true, 0) => Reply::status(503),
        (true, _) => say(&one_step()),
        (false, 2) => Reply::status(401),
        (false, 3) => tool("t__echo", json!({"text": "x"})),
        (false, 4) => tool("t__crash_once", json!({})),
        (false, 5) => tool("t__fail", json!({})),
        (false, _) => next_plan(),
    });
    let request = unplanned("counted", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    let planner = stage.deployment.planner.get("/metrics").await?;
    let executor = stage.deployment.executors[0].get("/metrics").await?;
    let (profile, model) = ("profile=\"default\"", "model=\"test-model\"");
    let calls = "surety_model_call_duration_seconds_count";
    let counted: [(&str, &str, &[&str], f64); 10] = [
        (&planner, calls, &[profile, model, "outcome=\"ok\""], 1.0),
        (&planner, "surety_model_failures_total", &[profile, "code=\"model_overloaded\""], 1.0),
        (&executor, calls, &[profile, model, "outcome=\"ok\""], 4.0),
        (&executor, calls, &[profile, model, "outcome=\"model_unauthorized\""], 1.0),
        (&executor, "surety_model_waits_total", &[profile, "code=\"model_unauthorized\""], 1.0),
        (&executor, "surety_model_breaker_open", &["endpoint=\"127.0.0.1"], 0.0),
        (&executor, "surety_mcp_call_duration_seconds_count", &["server=\"t\"", "\"ok\""], 2.0),
        (
            &executor,
            "surety_mcp_call_duration_seconds_count",
            &["server=\"t\"", "\"mcp_failed\""],
            1.0,
        ),
        // Each of the three turns with a call has a process of its own.
        (&executor, "surety_mcp_starts_total", &["server=\"t\"", "\"started\""], 3.0),
        (&executor, "surety_mcp_starts_total", &["server=\"t\"", "\"restarted\""], 1.0),
    ];
    for (page, name, labels, expected) in counted {
        let found = value(page, name, labels);
        ensure!(found == Some(expected), "{name} {labels:?} is {found:?}, not {expected}:\n{page}");
    }
    let usage = ended.counters.unwrap_or_default();
    let of = |name: &str, labels: &[&str]| {
        [&planner, &executor].iter().filter_map(|page| value(page, name, labels)).sum::<f64>()
    };
    let tokens = of("surety_model_tokens_total", &["\"input\""])
        + of("surety_model_tokens_total", &["\"output\""]);
    ensure!(tokens.to_string() == usage.tokens.to_string(), "{tokens} of {usage:#?}");
    let cost = of("surety_model_cost_micros_total", &[profile]);
    ensure!(cost.to_string() == usage.cost_micros.to_string(), "{cost} of {usage:#?}");
    let normalized = of("surety_messages_normalized_total", &[]);
    ensure!(normalized == 0.0, "{normalized} conversations were out of form:\n{executor}");
    stage.deployment.finish().await
}
