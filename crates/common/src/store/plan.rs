//! Plan revisions. A stored one never changes.

use super::StoreError;
use super::pool::within;
use super::stored_time::StoredTime;
use crate::domain::json;
use crate::domain::plan::Plan;
use chrono::{DateTime, Utc};
use hashlink::LruCache;
use sqlx::PgExecutor;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// The number of decoded plans in the cache.
const REMEMBERED: usize = 32;
/// The largest text of a plan in the cache, so that all of them take a few MiB at most.
const REMEMBERED_BYTES: usize = 16 * 1024;

/// A plan revision as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlan {
    /// The revision, from 1.
    pub revision: u32,
    /// The plan's digest.
    pub digest: String,
    /// The digest of the revision that it is derived from; empty for the first.
    pub parent_digest: String,
    /// The reason for this revision.
    pub reason: String,
    /// The plan's stored text.
    pub body: String,
    /// The time when it was stored.
    pub created_at: DateTime<Utc>,
}

#[derive(sqlx::FromRow)]
struct PlanRow {
    revision: i32,
    digest: String,
    parent_digest: String,
    reason: String,
    body: String,
    #[sqlx(try_from = "StoredTime")]
    created_at: DateTime<Utc>,
}

/// A plan revision of a run; the latest when `revision` is 0.
///
/// # Errors
/// [`StoreError`]
pub async fn find_plan(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    revision: u32,
) -> Result<Option<StoredPlan>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/find_plan.sql"))
        .bind(run_id)
        .bind(super::execution::plan_revision(revision)?);
    let row: Option<PlanRow> = within(async { Ok(found.fetch_optional(executor).await?) }).await?;
    row.map(|row| {
        Ok(StoredPlan {
            revision: u32::try_from(row.revision)
                .map_err(|error| StoreError::corrupt("plan.revision", error))?,
            digest: row.digest,
            parent_digest: row.parent_digest,
            reason: row.reason,
            body: row.body,
            created_at: row.created_at,
        })
    })
    .transpose()
}

/// Decodes the plan of a stored revision.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub fn plan_of(stored: &StoredPlan, run_id: Uuid) -> Result<Plan, StoreError> {
    read(&stored.body, run_id)
}

/// Decodes a plan from its text.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub(super) fn read(body: &str, run_id: Uuid) -> Result<Plan, StoreError> {
    let what = || format!("plan of run {run_id}");
    let value = json::parse_stored(body).map_err(|error| StoreError::corrupt(what(), error))?.value;
    Plan::from_json(&value).map_err(|error| StoreError::corrupt(what(), error))
}

/// A decoded plan and its text. A digest is not compared alone: it says what a text should be, not
/// what it is.
struct Read {
    body: String,
    plan: Arc<Plan>,
    /// Whether the plan has the digest, once that was asked.
    has_digest: Option<bool>,
}

/// Decodes the plan in a row, or takes it from the cache. Many runs often have the same plan, and
/// one run is read often.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub(super) fn recall(digest: &str, body: String, run_id: Uuid) -> Result<Arc<Plan>, StoreError> {
    if let Some(read) = latest().get(digest)
        && read.body == body
    {
        return Ok(Arc::clone(&read.plan));
    }
    let plan = Arc::new(read(&body, run_id)?);
    if body.len() <= REMEMBERED_BYTES {
        latest()
            .insert(digest.to_owned(), Read { body, plan: Arc::clone(&plan), has_digest: None });
    }
    Ok(plan)
}

/// Whether a plan that was read from a row has the digest of that row. It is computed once for a plan in the cache.
pub fn has_digest(plan: &Arc<Plan>, digest: &str) -> bool {
    let is_same = |read: &&mut Read| Arc::ptr_eq(&read.plan, plan);
    if let Some(known) = latest().get_mut(digest).filter(is_same).and_then(|read| read.has_digest) {
        return known;
    }
    let has_digest = plan.digest() == digest;
    if let Some(read) = latest().get_mut(digest).filter(is_same) {
        read.has_digest = Some(has_digest);
    }
    has_digest
}

fn latest() -> MutexGuard<'static, LruCache<String, Read>> {
    static LATEST: LazyLock<Mutex<LruCache<String, Read>>> =
        LazyLock::new(|| Mutex::new(LruCache::new(REMEMBERED)));
    LATEST.lock().unwrap_or_else(PoisonError::into_inner)
}
