//! Taking runs up.

use super::StoreError;
use super::apply::{Outcome, apply};
use super::committer::Commit;
use super::pool::within;
use super::run::RunRow;
use crate::domain::run::RunRecord;
use chrono::{DateTime, Utc};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

/// Runs that are locked for this process until the transaction ends.
pub struct Claimed {
    transaction: Transaction<'static, Postgres>,
    /// The runs.
    pub runs: Vec<RunRecord>,
}

impl Claimed {
    /// Writes what was decided about the runs and lets them go.
    ///
    /// # Errors
    /// [`StoreError`]; then none of it is stored, or, where the connection broke, it is not known.
    /// A lease that was stored without this process knowing comes to light with its next
    /// heartbeat: see [`forgotten`].
    pub async fn commit(mut self, commits: &[Commit]) -> Result<Vec<Outcome>, StoreError> {
        let changes: Vec<_> = commits.iter().map(|commit| commit.change().into()).collect();
        if changes.is_empty() {
            within(async { Ok(self.transaction.rollback().await?) }).await?;
            return Ok(Vec::new());
        }
        within(async {
            let outcomes = apply(&mut self.transaction, &changes).await?;
            self.transaction.commit().await?;
            Ok(outcomes)
        })
        .await
    }
}

/// Locks up to `limit` runs that an executor could take up, the most urgent first.
///
/// # Errors
/// [`StoreError`]
pub async fn claim(pool: &PgPool, now: DateTime<Utc>, limit: i64) -> Result<Claimed, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let ids: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/claim.sql"))
            .bind(now)
            .bind(limit)
            .fetch_all(&mut *transaction)
            .await?;
        let runs = load(&mut transaction, &ids).await?;
        Ok(Claimed { transaction, runs })
    })
    .await
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
    within(async {
        let mut transaction = pool.begin().await?;
        let ids: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/orphans.sql"))
            .bind(heard_since)
            .bind(limit)
            .bind(me)
            .fetch_all(&mut *transaction)
            .await?;
        let runs = load(&mut transaction, &ids).await?;
        Ok(Claimed { transaction, runs })
    })
    .await
}

/// Locks those of `run_ids` whose lease is still `me`'s: for a process that holds leases it does not
/// know of, because the answer to its claim was lost on the way.
///
/// # Errors
/// [`StoreError`]
pub async fn forgotten(pool: &PgPool, me: Uuid, run_ids: &[Uuid]) -> Result<Claimed, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let ids: Vec<Uuid> = sqlx::query_scalar(include_str!("sql/forgotten.sql"))
            .bind(me)
            .bind(run_ids)
            .fetch_all(&mut *transaction)
            .await?;
        let runs = load(&mut transaction, &ids).await?;
        Ok(Claimed { transaction, runs })
    })
    .await
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
