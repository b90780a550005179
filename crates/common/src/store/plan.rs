//! Plan revisions. A stored one never changes.

use super::StoreError;
use super::pool::within;
use crate::domain::plan::Plan;
use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use uuid::Uuid;

/// A plan revision as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPlan {
    /// From 1.
    pub revision: u32,
    /// The plan's digest.
    pub digest: String,
    /// The digest of the revision it came from; empty for the first.
    pub parent_digest: String,
    /// Why there is this one.
    pub reason: String,
    /// The plan's stored text.
    pub body: String,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
}

#[derive(sqlx::FromRow)]
struct PlanRow {
    revision: i32,
    digest: String,
    parent_digest: String,
    reason: String,
    body: String,
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
        .bind(super::apply::plan_revision(revision)?);
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

/// The plan that a stored revision holds.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub fn plan_of(stored: &StoredPlan, run_id: Uuid) -> Result<Plan, StoreError> {
    super::run::read_plan(&stored.body, run_id)
}
