//! Leases: no dead executor holds one.

use anyhow::{Result, ensure};
use sqlx::PgPool;
use std::time::Duration;
use uuid::Uuid;

/// Every lease belongs to a registered executor: an unregistered one is never detected as dead.
pub(super) async fn held_by_the_known(pool: &PgPool) -> Result<()> {
    let unknown: Vec<Uuid> = sqlx::query_scalar(
        "select run_id from execution
         where lease_owner is not null
           and not exists (select from executor where executor.id = execution.lease_owner)",
    )
    .fetch_all(pool)
    .await?;
    ensure!(unknown.is_empty(), "the lease of {unknown:?} is held by an unregistered executor");
    Ok(())
}

/// Every lease belongs to an executor with a heartbeat within `limit`, by the database's clock.
pub(super) async fn held_by_the_living(pool: &PgPool, limit: Duration) -> Result<()> {
    let dead: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "select run_id, lease_owner from execution
         join executor on executor.id = execution.lease_owner
         where executor.heartbeat_at < clock_timestamp() - make_interval(secs => $1)",
    )
    .bind(limit.as_secs_f64())
    .fetch_all(pool)
    .await?;
    ensure!(dead.is_empty(), "leases are held by dead executors: {dead:?}");
    Ok(())
}

/// No run is leased.
pub(super) async fn handed_back(pool: &PgPool) -> Result<()> {
    let kept: Vec<(Uuid, Uuid)> =
        sqlx::query_as("select run_id, lease_owner from execution where lease_owner is not null")
            .fetch_all(pool)
            .await?;
    ensure!(kept.is_empty(), "executors that shut down kept leases: {kept:?}");
    Ok(())
}

/// No run is leased, and none waits for an executor.
pub(super) async fn none_held(pool: &PgPool) -> Result<()> {
    let left: Vec<(Uuid, String)> = sqlx::query_as(
        "select run_id, state from execution where lease_owner is not null or ready_at is not null",
    )
    .fetch_all(pool)
    .await?;
    ensure!(left.is_empty(), "a lease or unclaimed work is left: {left:?}");
    Ok(())
}
