//! What a model's turn takes beside the time of its endpoint: runs one after another, decided by the model server of
//! the tests in this process, which answers at once.

use crate::latency::Times;
use crate::meter::Meter;
use crate::report::{Report, Row};
use crate::stand::Stand;
use anyhow::{Result, ensure};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use surety_common::wire::v1;
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};

/// The turns of a run, each with one call of a tool that reads.
const TURNS: usize = 100;
/// Runs that are measured, after one that is not.
const RUNS: usize = 20;

/// When each request of the present run arrived.
type Arrivals = Arc<Mutex<Vec<Instant>>>;

/// From one request to the endpoint until the next one of the same run. It contains what the server itself takes to
/// answer: the figure is an upper bound.
pub(crate) async fn measure(stand: &Stand<'_>, report: &mut Report) -> Result<()> {
    let arrivals = Arrivals::default();
    let server = ModelServer::start(Settings::default(), script(&arrivals)).await?;
    let deployment = stand.deploy_with_model(&server.url()).await?;
    let mut turns = Times::default();
    let meter = Meter::start(stand, &deployment).await?;
    for number in 0..=stand.options.small_or(2, RUNS) {
        let run = deployment.create_run(request()).await?;
        let ended = deployment.wait_for_end(&run.id).await?;
        ensure!(ended.state() == v1::RunState::Done, "it is not accepted: {ended:#?}");
        let arrived = std::mem::take(&mut *arrivals.lock().unwrap_or_else(PoisonError::into_inner));
        for pair in arrived.windows(2).filter(|_| number > 0) {
            if let [one, next] = pair {
                turns.add(next.duration_since(*one));
            }
        }
    }
    let usage = meter.read(&deployment).await?;
    report.compare("model_turn_p50_ms", turns.percentile_ms(50));
    let row = Row::new("a model's turn without the endpoint's time, ms", turns.shown())
        .beside("target p50 10")
        .foreign(usage.foreign_cores);
    report.add(row);
    deployment.database.drop().await
}

fn script(arrivals: &Arrivals) -> Script {
    let arrivals = Arc::clone(arrivals);
    Script::function(move |_| {
        let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.push(Instant::now());
        let decision = match arrivals.len() {
            number @ 1..=TURNS => json!({"action": "continue", "tool_call": {"name": "glob",
                "arguments": {"pattern": format!("*.{number}")}}}),
            _ => json!({"action": "next_plan", "goal_check": "all of it was looked at"}),
        };
        Reply::text(decision.to_string())
    })
}

fn request() -> v1::CreateRunRequest {
    let plan = json!({"title": "Look", "steps": [{"id": "s", "description": "look around"}]});
    let limits = v1::Limits {
        max_step_tool_calls: Some(500),
        max_step_rounds: Some(1000),
        ..v1::Limits::default()
    };
    v1::CreateRunRequest {
        goal: "Look around".to_owned(),
        driver: v1::Driver::Model.into(),
        plan_source: Some(v1::create_run_request::PlanSource::PlanText(plan.to_string())),
        limits: Some(limits),
        ..v1::CreateRunRequest::default()
    }
}
