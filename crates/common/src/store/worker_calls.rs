//! The calls that wait for workers: offered, leased, resumed by their workers, and lost.

use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::pool::within;
use super::scans::OfferedIn;
use super::wait::WaitLease;
use super::worker_tools::WorkerName;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use sqlx::types::Json;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Calls that workers of this process take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCalls {
    /// The namespace.
    pub namespace: String,
    /// The tool.
    pub tool: String,
    /// Only calls of runs that carry all of these labels.
    pub labels: BTreeMap<String, String>,
    /// At most so many.
    pub most: i64,
}

/// A call that is offered.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OfferedWorkerCall {
    /// Its wait.
    #[sqlx(rename = "id")]
    pub wait_id: Uuid,
    /// The namespace of its run.
    pub namespace: String,
    /// The tool.
    pub tool: String,
    /// The labels of its run.
    #[sqlx(json)]
    pub labels: BTreeMap<String, String>,
}

impl OfferedIn for OfferedWorkerCall {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// The most urgent calls that are offered at `now`.
///
/// # Errors
/// [`StoreError`]
pub async fn offered_calls(
    dedicated: &mut DedicatedConnection,
    wanted: &[WantedCalls],
    now: DateTime<Utc>,
) -> Result<Vec<OfferedWorkerCall>, StoreError> {
    let namespaces: Vec<&str> = wanted.iter().map(|call| call.namespace.as_str()).collect();
    let tools: Vec<&str> = wanted.iter().map(|call| call.tool.as_str()).collect();
    let most: Vec<i64> = wanted.iter().map(|call| call.most).collect();
    let is_labelled = wanted.iter().any(|call| !call.labels.is_empty());
    let statement = match is_labelled {
        false => include_str!("sql/offered_calls.sql"),
        true => include_str!("sql/offered_labelled_calls.sql"),
    };
    let mut listed = sqlx::query_as(statement).bind(namespaces).bind(tools).bind(most).bind(now);
    if is_labelled {
        listed = listed.bind(wanted.iter().map(|call| Json(&call.labels)).collect::<Vec<_>>());
    }
    dedicated.ask(async |connection| listed.fetch_all(connection).await).await
}

/// The calls that a worker has leased at `now`.
///
/// # Errors
/// [`StoreError`]
pub async fn held_calls(
    pool: &PgPool,
    worker: &WorkerName,
    now: DateTime<Utc>,
) -> Result<Vec<WaitLease>, StoreError> {
    let held = sqlx::query_as(include_str!("sql/held_calls.sql")).bind(worker.holder()).bind(now);
    within(async { Ok(held.fetch_all(pool).await?) }).await
}

/// The waits of a run whose workers are lost.
///
/// # Errors
/// [`StoreError`]
pub async fn lost_calls(pool: &PgPool, run_id: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let lost = sqlx::query_scalar(include_str!("sql/lost_calls.sql")).bind(run_id);
    within(async { Ok(lost.fetch_all(pool).await?) }).await
}

/// The waits of a run for calls that a worker has or had.
///
/// # Errors
/// [`StoreError`]
pub async fn begun_calls(pool: &PgPool, run_id: Uuid) -> Result<Vec<Uuid>, StoreError> {
    let begun = sqlx::query_scalar(include_str!("sql/begun_calls.sql")).bind(run_id);
    within(async { Ok(begun.fetch_all(pool).await?) }).await
}

/// A report of a worker about a call that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressReport {
    /// The run.
    pub run_id: Uuid,
    /// The wait of the call.
    pub wait_id: Uuid,
    /// The fencing token of its lease.
    pub lease_epoch: i64,
    /// One line.
    pub message: String,
    /// In percent.
    pub percent: Option<i16>,
}

/// Stores reports of workers, of calls that they still have.
///
/// # Errors
/// [`StoreError`]
pub async fn report_progress(pool: &PgPool, reports: &[ProgressReport]) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = reports.iter().map(|report| report.wait_id).collect();
    let epochs: Vec<i64> = reports.iter().map(|report| report.lease_epoch).collect();
    let messages: Vec<&str> = reports.iter().map(|report| report.message.as_str()).collect();
    let percents: Vec<Option<i16>> = reports.iter().map(|report| report.percent).collect();
    let storing = sqlx::query(include_str!("sql/report_progress.sql"))
        .bind(ids)
        .bind(epochs)
        .bind(messages)
        .bind(percents);
    within(async { Ok(storing.execute(pool).await.map(drop)?) }).await
}
