//! Periodic scans: runs that the clock or a free folder moves on, and the size of the backlog.
//!
//! ```text
//!   store::due --deadline--> the run's deadline passed       it ends
//!              --expiry----> a confirmation passed its time  denied or ended, by policy, leased or not
//!                            a call of a worker did          it ends as timed out
//!              --step------> the time of a step is over whose decision is leased: it fails
//!              --worker----> a worker is lost                its calls are offered again, or their outcome is unknown
//!              --timer-----> a sleep is over                 the step is ready
//!   store::unblocked_runs --> the folder is free              the run is unblocked
//! ```

use crate::depths::Depths;
use crate::planner::Planner;
use chrono::{DateTime, TimeDelta, Utc};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::crash;
use surety_common::domain::confirmation::AfterExpiry;
use surety_common::domain::execution::Graph;
use surety_common::domain::execution::draft::{Draft, Ending};
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::machine::Refusal;
use surety_common::domain::run::RunRecord;
use surety_common::domain::stop::WaitingOn;
use surety_common::store::{self, Cause, Topic, Unreadable};
use surety_common::telemetry;
use uuid::Uuid;

/// The interval of the scans: what the clock moves, moves so much late at most. The shortest deadline and the shortest
/// sleep are a second.
const INTERVAL: Duration = Duration::from_secs(2);
/// The most runs of one cause that one scan moves.
const LIMIT: i64 = 200;
/// The most searches for locks of ended runs in one scan.
const SEARCHES: usize = 20;

/// Scans until the process shuts down.
pub(crate) async fn run(planner: Arc<Planner>, depths: Arc<Mutex<Depths>>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unreadable = Unreadable::default();
    let mut searched = Uuid::nil();
    let database = &planner.whose;
    loop {
        ticks.tick().await;
        if let Err(error) = measure(&planner, &depths, planner.now()).await {
            tracing::warn!(%error, database, "scan: the backlog could not be counted; retrying");
        }
        if let Err(error) = move_due(&planner, &mut unreadable, planner.now()).await {
            tracing::warn!(%error, database, "scan: runs that are due could not be moved; retrying");
        }
        // Apart from those that the clock moves: many locks must not hold up a deadline.
        if let Err(error) =
            unblock_runs(&planner, &mut unreadable, &mut searched, planner.now()).await
        {
            tracing::warn!(%error, database, "scan: runs whose workspace is free could not be unblocked; retrying");
        }
    }
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

/// Unblocks the runs whose workspace is free, once, and deletes locks of ended runs behind `searched`.
///
/// # Errors
/// `database_unavailable`.
async fn unblock_runs(
    planner: &Planner,
    unreadable: &mut Unreadable,
    searched: &mut Uuid,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    for _ in 0..SEARCHES {
        let ended = store::delete_ended_locks(&planner.pool, *searched).await?;
        *searched = ended.last;
        if !ended.are_many() {
            break;
        }
    }
    let except = unreadable.left_alone(now);
    let free = store::unblocked_runs(&planner.pool, LIMIT, &except).await?;
    let free: Vec<_> = free.into_iter().map(|run_id| (Cause::Workspace, run_id)).collect();
    move_runs(planner, unreadable, &free, now).await
}

/// Moves the runs that are due, once.
///
/// # Errors
/// `database_unavailable`.
async fn move_due(
    planner: &Planner,
    unreadable: &mut Unreadable,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let except = unreadable.left_alone(now);
    let due = store::due(&planner.pool, now, LIMIT, &except).await?;
    move_runs(planner, unreadable, &due, now).await
}

/// Moves runs, each for its cause. One that cannot be read is left alone for a while.
///
/// # Errors
/// `database_unavailable`.
async fn move_runs(
    planner: &Planner,
    unreadable: &mut Unreadable,
    due: &[(Cause, Uuid)],
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    for (cause, run_id) in due {
        match move_run(planner, *cause, *run_id, now).await {
            // A row that cannot be decoded must not keep the scan from the other runs.
            Err(fault) if fault.reason == Reason::Service(FaultCode::Internal) => {
                if unreadable.leave_alone(*run_id, &fault.message, now) {
                    tracing::error!(%run_id, ?cause, "scan: a run that is due cannot be moved, because its row cannot be read; skipped for a while");
                }
            }
            moved => moved?,
        }
    }
    if due.iter().any(|(cause, _)| *cause != Cause::Deadline) {
        planner.waker.wake_now(Topic::Ready);
    }
    Ok(())
}

/// What the waits of a run say about why it is due.
#[derive(Default)]
struct Found {
    /// Calls whose workers are lost, each with the wait of the next attempt.
    lost: Vec<(Uuid, Uuid)>,
    /// Calls that a worker has or had.
    begun: Vec<Uuid>,
    /// Steps whose time is over.
    late: Vec<(Uuid, TimeDelta)>,
}

async fn find(
    planner: &Planner,
    cause: Cause,
    run_id: Uuid,
    now: DateTime<Utc>,
) -> Result<Found, Fault> {
    let mut found = Found::default();
    match cause {
        Cause::Worker => {
            let lost = store::lost_calls(&planner.pool, run_id).await?;
            found.lost = lost.into_iter().map(|wait| (wait, Uuid::now_v7())).collect();
        }
        Cause::Expiry => found.begun = store::begun_calls(&planner.pool, run_id).await?,
        Cause::Step => found.late = store::late_steps(&planner.pool, run_id, now).await?,
        Cause::Deadline | Cause::Timer | Cause::Workspace => {}
    }
    Ok(found)
}

/// Moves one run. The run may have ended in the meantime: the first terminal state stays.
async fn move_run(
    planner: &Planner,
    cause: Cause,
    run_id: Uuid,
    now: DateTime<Utc>,
) -> Result<(), Fault> {
    let found = find(planner, cause, run_id, now).await?;
    let change = |record: &RunRecord, draft: &mut Draft| {
        let graph = record.plan.as_deref().map(Graph::of).unwrap_or_default();
        let moved = match cause {
            Cause::Deadline => end(record, draft, &graph, now),
            Cause::Expiry => {
                let thinks = record.spec.driver.thinks();
                // A driver that thinks reads that the call may have happened, and decides.
                let unknown = if thinks { &[][..] } else { &found.begun };
                draft
                    .expire_calls(&graph, AfterExpiry::of(&record.spec.policy.confirm, thinks))
                    .and_then(|()| draft.expire_worker_calls(&graph, unknown))
                    .and_then(|()| draft.expire_models(&graph))
                    .and_then(|()| draft.expire_plan(&graph))
            }
            Cause::Worker => draft.lose_worker_calls(&graph, &found.lost),
            Cause::Step => draft.expire_steps(&graph, &found.late),
            Cause::Timer => draft.wake_steps(&graph),
            Cause::Workspace => unblock(record, draft, &graph),
        };
        moved.or(Ok(()))
    };
    crash::point("planner.before_move");
    planner.change(run_id, &planner.actor(), change).await?;
    crash::point("planner.after_move");
    Ok(())
}

/// Ends a run past its deadline.
fn end(
    record: &RunRecord,
    draft: &mut Draft,
    graph: &Graph,
    now: DateTime<Utc>,
) -> Result<(), Refusal> {
    if record.execution.deadline_at.is_none_or(|deadline| deadline > now) {
        return Ok(());
    }
    draft.stop(graph, Ending::late(record.spec.limits.run_deadline_s))
}

/// Unblocks a run whose folder is free.
fn unblock(record: &RunRecord, draft: &mut Draft, graph: &Graph) -> Result<(), Refusal> {
    let wait = record.execution.own_wait();
    if wait.is_none_or(|wait| wait.waiting_on != WaitingOn::Workspace) {
        return Ok(());
    }
    draft.unblock(graph, "the workspace is free")
}
