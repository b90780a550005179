//! Periodic scans: runs past their deadline, confirmations past their time, and the size of the backlog.

use crate::depths::Depths;
use crate::planner::Planner;
use chrono::{DateTime, Utc};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::domain::confirmation::AfterExpiry;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::run::RunRecord;
use surety_common::domain::stop::{StopReason, WaitingOn};
use surety_common::store::{self, Topic, Unreadable};
use surety_common::telemetry;
use uuid::Uuid;

/// The interval of the scans. The shortest deadline is a second.
const INTERVAL: Duration = Duration::from_secs(2);
/// The most runs ended in one scan.
const LIMIT: i64 = 200;

/// Scans until the process shuts down.
pub(crate) async fn run(planner: Arc<Planner>, depths: Arc<Mutex<Depths>>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unreadable = Unreadable::default();
    let database = &planner.whose;
    loop {
        ticks.tick().await;
        if let Err(error) = measure(&planner, &depths, planner.now()).await {
            tracing::warn!(%error, database, "scan: the backlog could not be counted; retrying");
        }
        if let Err(error) = unblock_waiting(&planner).await {
            tracing::warn!(%error, database, "scan: runs that wait for a workspace were not unblocked");
        }
        if let Err(error) = expire_waits(&planner, &mut unreadable, planner.now()).await {
            tracing::warn!(%error, database, "scan: confirmations past their time were not ended; retrying");
        }
        if let Err(error) = run_once(&planner, &mut unreadable, planner.now()).await {
            tracing::warn!(%error, database, "scan: runs past their deadline could not be ended; retrying");
        }
    }
}

/// Unblocks runs whose workspace is free now.
///
/// # Errors
/// `database_unavailable`.
async fn unblock_waiting(planner: &Planner) -> Result<(), Fault> {
    let free = store::free_workspaces(&planner.pool, LIMIT).await?;
    for run_id in &free {
        let change = |record: &RunRecord, draft: &mut Draft| {
            let wait = record.execution.own_wait();
            if wait.is_none_or(|wait| wait.waiting_on != WaitingOn::Workspace) {
                return Ok(());
            }
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            // It may have ended meanwhile.
            draft.unblock(&graph, "the workspace is free").or(Ok(()))
        };
        planner.change(*run_id, &planner.actor(), change).await?;
    }
    if !free.is_empty() {
        planner.waker.wake_now(Topic::Ready);
    }
    Ok(())
}

/// Sets the queue metric.
///
/// # Errors
/// `database_unavailable`.
async fn measure(
    planner: &Planner,
    depths: &Mutex<Depths>,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let waiting = store::backlog(&planner.pool).await?;
    // Locked until the metric is set, so that a newer sum is never replaced by an older one.
    let mut depths = depths.lock().unwrap_or_else(PoisonError::into_inner);
    for (namespace, runs) in depths.take(planner.shard_index, waiting, now) {
        telemetry::set_queue_depth(&namespace, runs);
    }
    Ok(())
}

/// Ends runs past their deadline, once.
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
        leave_unreadable(end(planner, run_id, now).await, run_id, unreadable, now)?;
    }
    Ok(())
}

/// A row that cannot be decoded must not keep a scan from the other runs.
fn leave_unreadable(
    changed: Result<(), Fault>,
    run_id: Uuid,
    unreadable: &mut Unreadable,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    match changed {
        Err(fault) if fault.reason == Reason::Service(FaultCode::Internal) => {
            if unreadable.leave_alone(run_id, &fault.message, now) {
                tracing::error!(%run_id, "scan: a run past its time cannot be ended, because its row cannot be read; skipped for a while");
            }
            Ok(())
        }
        changed => changed,
    }
}

/// Ends the confirmations whose time has passed, once, whether an executor holds their runs or not.
///
/// # Errors
/// `database_unavailable`.
async fn expire_waits(
    planner: &Planner,
    unreadable: &mut Unreadable,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let except = unreadable.left_alone(now);
    let expired = store::expired_waits(&planner.pool, now, LIMIT, &except).await?;
    for run_id in &expired {
        let change = |record: &RunRecord, draft: &mut Draft| {
            let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
            let after = AfterExpiry::of(&record.spec.policy.confirm, record.spec.driver.thinks());
            // The run may have ended in the meantime: the first terminal state stays.
            draft.expire_calls(&graph, after).or(Ok(()))
        };
        let changed = planner.change(*run_id, &planner.actor(), change).await;
        leave_unreadable(changed, *run_id, unreadable, now)?;
    }
    if !expired.is_empty() {
        planner.waker.wake_now(Topic::Ready);
    }
    Ok(())
}

/// Ends a run past its deadline.
async fn end(planner: &Planner, run_id: Uuid, now: DateTime<Utc>) -> Result<(), Fault> {
    let change = |record: &RunRecord, draft: &mut Draft| {
        if record.execution.deadline_at.is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        let seconds = record.spec.limits.run_deadline_s;
        let end = Ending {
            stop_reason: StopReason::DeadlineExceeded,
            user_message: "The run's deadline passed.".to_owned(),
            internal_reason: format!("run_deadline is {seconds} s"),
        };
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        // The run may have ended in the meantime: the first terminal state stays.
        draft.stop(&graph, end).or(Ok(()))
    };
    planner.change(run_id, &planner.actor(), change).await
}
