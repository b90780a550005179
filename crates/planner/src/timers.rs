//! Wakes steps whose sleep is over.

use crate::planner::Planner;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, Topic, Unreadable};
use uuid::Uuid;

/// The interval of the scans: a sleep ends so much late at most. The shortest sleep is a second.
const INTERVAL: Duration = Duration::from_secs(2);
/// The most runs that one scan wakes.
const LIMIT: i64 = 200;

/// Scans until the process shuts down.
pub(crate) async fn run(planner: Arc<Planner>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unreadable = Unreadable::default();
    loop {
        ticks.tick().await;
        if let Err(error) = run_once(&planner, &mut unreadable, planner.now()).await {
            let database = &planner.whose;
            tracing::warn!(%error, database, "timers: sleeping runs were not woken; retrying");
        }
    }
}

/// Wakes the runs that are due.
///
/// # Errors
/// `database_unavailable`.
async fn run_once(
    planner: &Planner,
    unreadable: &mut Unreadable,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let except = unreadable.left_alone(now);
    let due = store::due_timers(&planner.pool, now, LIMIT, &except).await?;
    for run_id in &due {
        match wake(planner, *run_id).await {
            Ok(()) => {}
            // A row that cannot be decoded must not keep the other runs asleep.
            Err(fault) if fault.reason == Reason::Service(FaultCode::Internal) => {
                if unreadable.leave_alone(*run_id, &fault.message, now) {
                    tracing::error!(%run_id, "timers: a sleeping run cannot be woken, because its row cannot be read; skipped for a while");
                }
            }
            Err(fault) => return Err(fault),
        }
    }
    if !due.is_empty() {
        planner.waker.wake_now(Topic::Ready);
    }
    Ok(())
}

async fn wake(planner: &Planner, run_id: Uuid) -> Result<(), Fault> {
    let change = |record: &RunRecord, draft: &mut Draft| {
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        // The run may have ended in the meantime: the first terminal state stays.
        draft.wake_steps(&graph).or(Ok(()))
    };
    crash::point("planner.before_wake");
    planner.change(run_id, &planner.actor(), change).await?;
    crash::point("planner.after_wake");
    Ok(())
}
