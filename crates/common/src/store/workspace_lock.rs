//! Locks of workspaces: one run works in a folder at a time, and in the folders above and below it.

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
