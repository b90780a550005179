//! Leases of plans: planning agents that supply a run's plan or a patch of it.

use crate::planner::Planner;
use crate::shards::Shards;
use chrono::TimeDelta;
use futures::FutureExt;
use futures::future::select_all;
use std::sync::Arc;
use std::time::Duration;
use surety_common::clock;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::run::RunRecord;
use surety_common::store::{
    self, Extended, HeldLease, Offers, Scope, StoreError, Topic, WaitLease,
};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// How long a planning agent keeps a lease without a sign of life.
const LEASE_MS: i32 = 120_000;

/// The plan of a run that cannot be read is offered again after this time.
const UNREADABLE_FOR: TimeDelta = TimeDelta::seconds(60);

/// What a planning agent asks for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// The agent: its identity and its own name.
    pub(crate) holder: (String, String),
    /// What it takes.
    pub(crate) scope: Scope,
    /// How long it waits.
    pub(crate) patience: Duration,
}

/// Leases the plan of a run that needs one; none when that takes too long.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn lease(
    shards: &Shards,
    ask: Ask,
) -> Result<Option<(WaitLease, RunRecord)>, Fault> {
    let leased = lease_from(shards, ask, |planner| &planner.offers).await?;
    Ok(leased.map(|(_, lease, record)| (lease, record)))
}

/// As [`lease`], from other offers, with the planner of the run's database.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn lease_from(
    shards: &Shards,
    ask: Ask,
    offers: impl Fn(&Planner) -> &Offers,
) -> Result<Option<(Arc<Planner>, WaitLease, RunRecord)>, Fault> {
    let Ask { holder, scope, patience } = ask;
    let planners = shards.offering(&scope).await?;
    let deadline = Instant::now() + patience;
    loop {
        // The databases that are not first give what they leased meanwhile back.
        let waiting = planners.iter().map(|planner| {
            let next = offers(planner).next(scope.clone(), holder.clone(), LEASE_MS);
            async move { (next.await, planner) }.boxed()
        });
        let Ok(((lease, planner), ..)) = timeout_at(deadline, select_all(waiting)).await else {
            return Ok(None);
        };
        let Some(lease) = lease else { return Ok(None) };
        let record = match store::find_run(&planner.pool, lease.run_id).await {
            Ok(record) => record,
            Err(error) => {
                let WaitLease { run_id, lease_epoch, .. } = lease;
                let untaken = HeldLease { run_id, lease_epoch, identity: holder.0.clone() };
                // A run that does not read must not hold up the others; where this fails, too, the lease expires.
                let is_unreadable = matches!(error, StoreError::Corrupt { .. });
                let until = is_unreadable.then(|| planner.now() + UNREADABLE_FOR);
                let until = (planner.now(), until);
                if let Err(error) = store::release_until(&planner.pool, &untaken, until).await {
                    tracing::warn!(%run_id, lease_epoch, %error, "waits: the plan of a run that cannot be read was not given back; its lease expires");
                }
                return Err(error.into());
            }
        };
        let waits = |record: &RunRecord| {
            record.execution.own_wait().is_some_and(|wait| wait.id == lease.wait_id)
        };
        // The wait may have ended since it was offered.
        if let Some(record) = record.filter(waits) {
            return Ok(Some((Arc::clone(planner), lease, record)));
        }
    }
}

/// Extends a lease; none when it is lost.
///
/// # Errors
/// `database_unavailable`.
pub(crate) async fn extend(planner: &Planner, lease: HeldLease) -> Result<Option<Extended>, Fault> {
    let extended = planner.heartbeats.extend(vec![lease], planner.now()).await?;
    Ok(extended.into_iter().next().flatten())
}

/// Ends a lease.
///
/// # Errors
/// `lease_lost`, `database_unavailable`.
pub(crate) async fn release(planner: &Arc<Planner>, lease: &HeldLease) -> Result<(), Fault> {
    if !store::release_wait(&planner.pool, lease, planner.now()).await? {
        return Err(lost(lease.run_id));
    }
    planner.wakeups.wake_here(Topic::Waits(lease.run_id));
    planner.waker.wake_now(Topic::Waits(lease.run_id));
    Ok(())
}

/// Checks that a caller holds the lease that it names. The write itself is fenced too.
///
/// # Errors
/// `lease_lost`, `database_unavailable`.
pub(super) async fn held(
    planner: &Planner,
    record: &RunRecord,
    identity: &str,
    lease_epoch: i64,
) -> Result<(), Fault> {
    if lease_epoch == 0 {
        return Ok(());
    }
    let run_id = record.spec.id;
    let lease = HeldLease { run_id, lease_epoch, identity: identity.to_owned() };
    let found = store::find_lease(&planner.pool, &lease, clock::now()).await?;
    let waits = record.execution.own_wait().map(|wait| wait.id);
    match found {
        Some(found) if waits == Some(found.wait_id) => Ok(()),
        Some(_) | None => Err(lost(run_id)),
    }
}

/// The refusal of a plan that an agent submits without a lease.
pub(crate) fn not_leased(run_id: Uuid) -> Fault {
    let message = format!(
        "an agent plans run {run_id} under a lease; call LeasePlan and send the lease_epoch of its answer"
    );
    Fault::new(FaultCode::LeaseLost, message).with_field("lease_epoch")
}

fn lost(run_id: Uuid) -> Fault {
    let message = format!(
        "the lease of the plan of run {run_id} is not held by this caller under that lease_epoch any more"
    );
    Fault::new(FaultCode::LeaseLost, message).with_field("lease_epoch")
}
