//! Taking runs up.

use super::StoreError;
use super::run::{RunRecord, RunRow};
use chrono::{DateTime, Utc};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

/// Runs that are locked for this process until the transaction ends.
pub struct Claimed {
    /// The transaction that holds the locks; commit it with the lease written, or drop it.
    pub transaction: Transaction<'static, Postgres>,
    /// The runs.
    pub runs: Vec<RunRecord>,
}

/// Locks up to `limit` runs that an executor could take up, the most urgent first.
///
/// # Errors
/// [`StoreError`]
pub async fn claim(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<Claimed, StoreError> {
    let mut transaction = pool.begin().await?;
    let ids: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/claim.sql"))
        .bind(now)
        .bind(limit)
        .fetch_all(&mut *transaction)
        .await?;
    let runs = load(&mut transaction, &ids).await?;
    Ok(Claimed { transaction, runs })
}

/// Locks up to `limit` runs whose executor has not been heard of since `heard_since`, `me` apart.
///
/// # Errors
/// [`StoreError`]
pub async fn orphans(
    pool: &PgPool,
    heard_since: DateTime<Utc>,
    me: Uuid,
    limit: i64,
) -> Result<Claimed, StoreError> {
    let mut transaction = pool.begin().await?;
    let ids: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/orphans.sql"))
        .bind(heard_since)
        .bind(limit)
        .bind(me)
        .fetch_all(&mut *transaction)
        .await?;
    let runs = load(&mut transaction, &ids).await?;
    Ok(Claimed { transaction, runs })
}

async fn load(
    transaction: &mut Transaction<'static, Postgres>,
    ids: &[Uuid],
) -> Result<Vec<RunRecord>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<RunRow> = sqlx::query_as(include_str!("sql/load.sql"))
        .bind(ids)
        .fetch_all(&mut **transaction)
        .await?;
    rows.into_iter().map(RunRow::into_record).collect()
}
