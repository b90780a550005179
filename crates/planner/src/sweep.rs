//! What is looked at from time to time: runs whose time is over while nobody works on them, and
//! how much waits for an executor.

use crate::Planner;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Ending;
use surety_common::domain::fault::Fault;
use surety_common::domain::stop::StopReason;
use surety_common::store;
use surety_common::telemetry;

/// How often it looks. A deadline is counted in seconds at least.
const INTERVAL: Duration = Duration::from_secs(2);
/// Runs ended in one look.
const LIMIT: i64 = 200;

/// Looks until the process stops.
pub(crate) async fn run(planner: Arc<Planner>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = run_once(&planner, planner.now()).await {
            tracing::warn!(%error, "overdue runs could not be ended");
        }
    }
}

/// Sets the figure of what waits for an executor.
///
/// # Errors
/// `database_unavailable`.
async fn measure(planner: &Planner) -> Result<(), Fault> {
    for waiting in store::backlog(&planner.pool).await? {
        telemetry::set_queue_depth(&waiting.namespace, waiting.ready_runs);
    }
    Ok(())
}

/// One look.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn run_once(planner: &Planner, now: DateTime<Utc>) -> Result<(), Fault> {
    measure(planner).await?;
    for run_id in store::overdue(&planner.pool, now, LIMIT).await? {
        planner
            .change(run_id, |record, draft| {
                if record.execution.deadline_at.is_none_or(|deadline| deadline > now) {
                    return Ok(());
                }
                let seconds = record.spec.limits.run_deadline_s;
                let end = Ending {
                    stop_reason: StopReason::DeadlineExceeded,
                    user_message: "The run's time is over.".to_owned(),
                    internal_reason: format!("run_deadline is {seconds} s"),
                };
                let graph = Graph::of(&record.plan.clone().unwrap_or_default());
                // It may have ended by itself meanwhile: the first end stays.
                draft.stop(&graph, end).or(Ok(()))
            })
            .await?;
    }
    Ok(())
}
