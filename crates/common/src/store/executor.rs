//! Executor processes and their heartbeats: one row covers all leases of a process.

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::pool::within;
use crate::crash;
use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use uuid::Uuid;

/// Registers a new executor process, and the host on which its folders are.
///
/// # Errors
/// [`StoreError`]
pub async fn register(
    dedicated: &mut DedicatedConnection,
    id: Uuid,
    (name, host_label): (&str, &str),
    slots: i32,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let registered = sqlx::query(include_str!("sql/register_executor.sql"))
        .bind(id)
        .bind(name)
        .bind(slots)
        .bind(now)
        .bind(host_label);
    crash::point("executor.before_register");
    dedicated.ask(async |connection| registered.execute(connection).await).await?;
    Ok(())
}

/// A lease as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunLease {
    /// The run.
    pub run_id: Uuid,
    /// The lease's fencing token.
    pub lease_epoch: i64,
}

/// Another process that holds leases, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process.
    pub id: Uuid,
    /// The time in its last heartbeat, by its own clock; none when the process is not registered.
    pub heartbeat_at: Option<DateTime<Utc>>,
}

/// The result of a heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The leases that the process holds.
    pub leases: Vec<RunLease>,
    /// The other processes that hold leases.
    pub others: Vec<Owner>,
    /// Whether a run waits for an executor.
    pub ready: bool,
}

/// Records a heartbeat, and reads in the same statement whether the process has work that no
/// notification named. Runs in `except` and runs on folders of other hosts do not count. Returns none when
/// the process is no longer registered.
///
/// # Errors
/// [`StoreError`]
pub async fn beat(
    dedicated: &mut DedicatedConnection,
    id: Uuid,
    now: DateTime<Utc>,
    except: &[Uuid],
) -> Result<Option<Pulse>, StoreError> {
    let beaten = sqlx::query_as(include_str!("sql/beat.sql")).bind(id).bind(now).bind(except);
    type Row = (Vec<Uuid>, Vec<i64>, Vec<Uuid>, Vec<Option<DateTime<Utc>>>, bool);
    let row: Option<Row> =
        dedicated.ask(async |connection| beaten.fetch_optional(connection).await).await?;
    let Some((run_ids, epochs, ids, heartbeats, ready)) = row else { return Ok(None) };
    let leases = run_ids.into_iter().zip(epochs);
    let others = ids.into_iter().zip(heartbeats);
    Ok(Some(Pulse {
        leases: leases.map(|(run_id, lease_epoch)| RunLease { run_id, lease_epoch }).collect(),
        others: others.map(|(id, heartbeat_at)| Owner { id, heartbeat_at }).collect(),
        ready,
    }))
}

/// Deletes a process that returned all its leases. Also deletes every process without leases whose
/// last heartbeat is before `heard_since`.
///
/// # Errors
/// [`StoreError`]
pub async fn retire(
    executor: impl PgExecutor<'_>,
    id: Uuid,
    heard_since: DateTime<Utc>,
) -> Result<(), StoreError> {
    let retired = sqlx::query(include_str!("sql/retire_executor.sql")).bind(id).bind(heard_since);
    crash::point("executor.before_retire");
    within(async { Ok(retired.execute(executor).await?) }).await?;
    crash::point("executor.after_retire");
    Ok(())
}

/// Those of the host labels of which an executor was heard since a time.
///
/// # Errors
/// [`StoreError`]
pub async fn served_hosts(
    executor: impl PgExecutor<'_>,
    host_labels: &[&str],
    since: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let asking = sqlx::query_scalar(include_str!("sql/served_hosts.sql"));
    let asking = asking.bind(host_labels).bind(since);
    within(async { Ok(asking.fetch_all(executor).await?) }).await
}

/// The backlog of one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backlog {
    /// The namespace.
    pub namespace: String,
    /// Runs that an executor could claim now.
    pub ready_runs: u32,
}

/// The backlog by namespace. A namespace with active runs and none waiting is listed with zero.
///
/// # Errors
/// [`StoreError`]
pub async fn backlog(executor: impl PgExecutor<'_>) -> Result<Vec<Backlog>, StoreError> {
    let backlog = sqlx::query_as(include_str!("sql/backlog.sql"));
    let rows: Vec<(String, i64)> = within(async { Ok(backlog.fetch_all(executor).await?) }).await?;
    Ok(rows
        .into_iter()
        .map(|(namespace, ready)| Backlog {
            namespace,
            ready_runs: u32::try_from(ready).unwrap_or(u32::MAX),
        })
        .collect())
}
