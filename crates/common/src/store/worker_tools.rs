//! The tools that workers offer, each with a last sign of life of its worker.

use super::StoreError;
use super::pool::within;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;

/// A worker: the name of its identity, and its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerName {
    /// The name of the identity.
    pub identity: String,
    /// The worker's name within the identity.
    pub worker_id: String,
}

impl WorkerName {
    /// The worker as the holder of leases.
    #[must_use]
    pub fn holder(&self) -> String {
        format!("{} {}", self.identity, self.worker_id)
    }
}

/// A tool that a worker offers in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedTool {
    /// The namespace.
    pub namespace: String,
    /// The name of the tool.
    pub tool: String,
    /// Its description, as JSON text.
    pub spec: String,
    /// The digest of that text.
    pub spec_digest: String,
    /// The digest of its schema alone.
    pub schema_digest: String,
}

/// For how long workers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerTimes {
    /// Now.
    pub now: DateTime<Utc>,
    /// How long a sign of life keeps a worker connected.
    pub live: TimeDelta,
    /// How long a tool stays listed after the last sign of life of its last worker.
    pub listed: TimeDelta,
}

/// A tool whose name a connected worker uses with another schema.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct TakenTool {
    /// The namespace.
    pub namespace: String,
    /// The name of the tool.
    pub tool: String,
    /// The identity of the other worker.
    pub identity: String,
}

/// Stores what a worker offers, instead of what it offered before. Answers a tool whose name is taken; then nothing is
/// stored.
///
/// # Errors
/// [`StoreError`]
pub async fn offer_tools(
    pool: &PgPool,
    worker: &WorkerName,
    tools: &[OfferedTool],
    times: WorkerTimes,
) -> Result<Option<TakenTool>, StoreError> {
    let WorkerName { identity, worker_id } = worker;
    let namespaces: Vec<&str> = tools.iter().map(|tool| tool.namespace.as_str()).collect();
    let names: Vec<&str> = tools.iter().map(|tool| tool.tool.as_str()).collect();
    let specs: Vec<&str> = tools.iter().map(|tool| tool.spec.as_str()).collect();
    let digests: Vec<&str> = tools.iter().map(|tool| tool.spec_digest.as_str()).collect();
    let schemas: Vec<&str> = tools.iter().map(|tool| tool.schema_digest.as_str()).collect();
    within(async {
        let mut transaction = pool.begin().await?;
        // Two workers that offer the same name at once are looked at one after the other.
        sqlx::query("lock table worker_tool in share row exclusive mode")
            .execute(&mut *transaction)
            .await?;
        let taken = sqlx::query_as(include_str!("sql/taken_tool.sql"))
            .bind(identity)
            .bind(worker_id)
            .bind(&namespaces)
            .bind(&names)
            .bind(&schemas)
            .bind(times.now)
            .fetch_optional(&mut *transaction)
            .await?;
        if taken.is_some() {
            return Ok(taken);
        }
        sqlx::query(include_str!("sql/forget_tools.sql"))
            .bind(identity)
            .bind(worker_id)
            .bind(times.now - times.listed)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(include_str!("sql/offer_tools.sql"))
            .bind(identity)
            .bind(worker_id)
            .bind(&namespaces)
            .bind(&names)
            .bind(specs)
            .bind(digests)
            .bind(&schemas)
            .bind(times.now)
            .bind(times.now + times.live)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(None)
    })
    .await
}

/// Stores a sign of life of workers.
///
/// # Errors
/// [`StoreError`]
pub async fn touch_workers(
    pool: &PgPool,
    workers: &[WorkerName],
    times: WorkerTimes,
) -> Result<(), StoreError> {
    let identities: Vec<&str> = workers.iter().map(|worker| worker.identity.as_str()).collect();
    let names: Vec<&str> = workers.iter().map(|worker| worker.worker_id.as_str()).collect();
    let touching = sqlx::query(include_str!("sql/touch_workers.sql"))
        .bind(identities)
        .bind(names)
        .bind(times.now)
        .bind(times.now + times.live);
    within(async { Ok(touching.execute(pool).await.map(drop)?) }).await
}

/// A tool of workers as executors know it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct KnownTool {
    /// The namespace.
    pub namespace: String,
    /// The name of the tool.
    pub tool: String,
    /// The identity of a worker that offers it.
    pub identity: String,
    /// The digest of its description.
    pub spec_digest: String,
    /// The description; none where the caller has it.
    pub spec: Option<String>,
    /// The version of the namespace's policy; 0 where there is none.
    pub policy_version: i64,
}

/// The tools of workers with a sign of life since `seen_since`, by namespace and name, the latest announcement first.
/// Descriptions with the digests `known` are left out.
///
/// # Errors
/// [`StoreError`]
pub async fn known_tools(
    pool: &PgPool,
    seen_since: DateTime<Utc>,
    known: &[String],
) -> Result<Vec<KnownTool>, StoreError> {
    let listed = sqlx::query_as(include_str!("sql/known_tools.sql")).bind(seen_since).bind(known);
    within(async { Ok(listed.fetch_all(pool).await?) }).await
}

/// The namespaces whose policies admit workers.
///
/// # Errors
/// [`StoreError`]
pub async fn worker_namespaces(pool: &PgPool) -> Result<Vec<String>, StoreError> {
    let listed = sqlx::query_scalar(include_str!("sql/worker_namespaces.sql"));
    within(async { Ok(listed.fetch_all(pool).await?) }).await
}
