//! What is looked at from time to time: runs whose time is over while nobody works on them, and
//! how much waits for an executor.

use crate::Planner;
use crate::depths::Depths;
use chrono::{DateTime, Utc};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::run::RunRecord;
use surety_common::domain::stop::StopReason;
use surety_common::store::{self, Unreadable};
use surety_common::telemetry;
use uuid::Uuid;

/// How often it looks. A deadline is counted in seconds at least.
const INTERVAL: Duration = Duration::from_secs(2);
/// Runs ended in one look.
const LIMIT: i64 = 200;

/// Looks until the process stops.
pub(crate) async fn run(planner: Arc<Planner>, depths: Arc<Mutex<Depths>>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unreadable = Unreadable::default();
    let database = &planner.whose;
    loop {
        ticks.tick().await;
        if let Err(error) = measure(&planner, &depths, planner.now()).await {
            tracing::warn!(%error, database, "what waits for an executor could not be counted");
        }
        if let Err(error) = run_once(&planner, &mut unreadable, planner.now()).await {
            tracing::warn!(%error, database, "overdue runs could not be ended");
        }
    }
}

/// Sets the figure of what waits for an executor.
///
/// # Errors
/// `database_unavailable`.
async fn measure(
    planner: &Planner,
    depths: &Mutex<Depths>,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let waiting = store::backlog(&planner.pool).await?;
    // Held until the figure is set, so that no older sum is set after a newer one.
    let mut depths = depths.lock().unwrap_or_else(PoisonError::into_inner);
    for (namespace, runs) in depths.take(planner.shard_index, waiting, now) {
        telemetry::set_queue_depth(&namespace, runs);
    }
    Ok(())
}

/// One look.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn run_once(
    planner: &Planner,
    unreadable: &mut Unreadable,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let except = unreadable.left_alone(now);
    for run_id in store::overdue(&planner.pool, now, LIMIT, &except).await? {
        match end(planner, run_id, now).await {
            Ok(()) => {}
            // Its row does not read, which must not keep all the others from their ends.
            Err(fault) if fault.reason == Reason::Service(FaultCode::Internal) => {
                if unreadable.leave_alone(run_id, &fault.message, now) {
                    tracing::error!(%run_id, "an overdue run cannot be ended; it is left alone");
                }
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// Ends a run whose time is over.
async fn end(planner: &Planner, run_id: Uuid, now: DateTime<Utc>) -> Result<(), Fault> {
    let change = |record: &RunRecord, draft: &mut Draft| {
        if record.execution.deadline_at.is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let seconds = record.spec.limits.run_deadline_s;
        let end = Ending {
            stop_reason: StopReason::DeadlineExceeded,
            user_message: "The run's time is over.".to_owned(),
            internal_reason: format!("run_deadline is {seconds} s"),
        };
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        // It may have ended by itself meanwhile: the first end stays.
        draft.stop(&graph, end).or(Ok(()))
    };
    planner.change(run_id, change).await
}
