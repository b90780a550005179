//! Locks of workspaces: one run works in a folder at a time, and in the folders above and below it.
//!
//! A lock holds nothing once its run has ended. Its row is deleted by a later search, so that the end of a run costs
//! nothing more.

use super::StoreError;
use super::pool::within;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::path::Path;
use uuid::Uuid;

/// A folder of one machine, or of one volume that machines share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPath {
    host: String,
    path: String,
    /// The path and every folder above it, but the root of the file system.
    upwards: Vec<String>,
}

/// The run that holds a folder.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Holder {
    /// The run.
    pub run_id: Uuid,
    /// The folder that it locked, which may lie above or below.
    pub path: String,
}

/// The most locks that each half of a search for those of ended runs reads.
const SEARCHED: i64 = 500;
/// A search that finds as many is repeated at once: there may be more.
const MANY_ENDED: i64 = SEARCHED / 5;

/// What a search for locks of ended runs came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedLocks {
    /// Behind this run the next search goes on.
    pub last: Uuid,
    /// How many locks were deleted.
    pub locks: i64,
}

impl EndedLocks {
    /// Whether another search at once is worth its time.
    pub const fn are_many(&self) -> bool {
        self.locks >= MANY_ENDED
    }
}

impl HostPath {
    /// The folder with this real, absolute path.
    pub fn new(host: &str, path: &Path) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let upwards = path.ancestors().filter(|path| path.parent().is_some()).map(text).collect();
        Self { host: host.to_owned(), path: text(path), upwards }
    }

    fn beneath(&self) -> String {
        format!("{}/", self.path.trim_end_matches('/'))
    }
}

/// Locks a folder for a run until the run ends, or enters the run as one that waits for it. Returns the
/// holder that is in the way. A run that holds the lock keeps it.
///
/// # Errors
/// [`StoreError`]
pub async fn lock_workspace(
    pool: &PgPool,
    run_id: Uuid,
    folder: &HostPath,
    now: DateTime<Utc>,
) -> Result<Option<Holder>, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        // Two runs that lock at once would each see no other holder.
        sqlx::query(
            "select pg_advisory_xact_lock(hashtextextended('surety workspaces ' || $1, 0))",
        )
        .bind(&folder.host)
        .execute(&mut *transaction)
        .await?;
        let holder = sqlx::query_as(include_str!("sql/lock_workspace.sql"))
            .bind(run_id)
            .bind(&folder.host)
            .bind(&folder.path)
            .bind(now)
            .bind(&folder.upwards)
            .bind(folder.beneath())
            .fetch_optional(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(holder)
    })
    .await
}

/// Whether a run holds the lock of this folder. It keeps it until it ends.
///
/// # Errors
/// [`StoreError`]
pub async fn holds_workspace(
    pool: &PgPool,
    run_id: Uuid,
    folder: &HostPath,
) -> Result<bool, StoreError> {
    let asking = sqlx::query_scalar(include_str!("sql/holds_workspace.sql"))
        .bind(run_id)
        .bind(&folder.host)
        .bind(&folder.path);
    within(async { Ok(asking.fetch_one(pool).await?) }).await
}

/// Runs that are blocked until a folder is free that is free now, at most `limit`, except `except`.
///
/// # Errors
/// [`StoreError`]
pub async fn unblocked_runs(
    pool: &PgPool,
    limit: i64,
    except: &[Uuid],
) -> Result<Vec<Uuid>, StoreError> {
    let found =
        sqlx::query_scalar(include_str!("sql/free_workspaces.sql")).bind(limit).bind(except);
    within(async { Ok(found.fetch_all(pool).await?) }).await
}

/// Deletes locks of ended runs, among the newest locks and among some behind the run `after`, so that as many searches
/// read all locks.
///
/// # Errors
/// [`StoreError`]
pub async fn delete_ended_locks(pool: &PgPool, after: Uuid) -> Result<EndedLocks, StoreError> {
    let deleting = sqlx::query_as(include_str!("sql/ended_locks.sql")).bind(after).bind(SEARCHED);
    let (last, locks): (Option<Uuid>, i64) =
        within(async { Ok(deleting.fetch_one(pool).await?) }).await?;
    Ok(EndedLocks { last: last.unwrap_or_default(), locks })
}

/// The run that holds a folder now.
///
/// # Errors
/// [`StoreError`]
pub async fn workspace_holder(
    pool: &PgPool,
    folder: &HostPath,
) -> Result<Option<Holder>, StoreError> {
    let finding = sqlx::query_as(include_str!("sql/workspace_holder.sql"))
        .bind(&folder.host)
        .bind(&folder.upwards)
        .bind(folder.beneath());
    within(async { Ok(finding.fetch_optional(pool).await?) }).await
}
