//! Deletes expired runs in small transactions, by one process at a time, without blocking other
//! sessions.

use super::StoreError;
use super::partition::{first_id, lock_forgetting, partitions};
use super::pool::within_work;
use crate::crash;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;
use sqlx::{AssertSqlSafe, PgPool, Postgres};
use uuid::Uuid;

/// The number of partitions for the retention time.
const PARTS: i64 = 12;
/// The widest partition, for runs that are kept for ever, in days.
const MAX_WIDTH_DAYS: i64 = 91;
/// A partition whose last runs expire within this time is dropped whole later, rather than emptied
/// before.
const GRACE: TimeDelta = TimeDelta::days(2);

/// How long ended runs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// For ever.
    Forever,
    /// For this many days.
    Days(u32),
}

impl Retention {
    /// The retention in the settings.
    #[cfg(feature = "config")]
    #[must_use]
    pub const fn of(config: &crate::config::RetentionConfig) -> Self {
        Self::of_days(config.retention_days)
    }

    /// This many days; 0 is for ever.
    #[must_use]
    pub const fn of_days(days: u32) -> Self {
        match days {
            0 => Self::Forever,
            days => Self::Days(days),
        }
    }

    /// The time before which ended runs are expired; none when all are kept.
    #[must_use]
    pub fn before(self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::Forever => None,
            Self::Days(days) => now.checked_sub_signed(TimeDelta::days(i64::from(days))),
        }
    }

    /// The time range of one partition of the journal. Each partition makes every statement slower,
    /// so their number does not depend on the retention.
    #[must_use]
    pub fn partition_width(self) -> TimeDelta {
        let days = match self {
            Self::Forever => MAX_WIDTH_DAYS,
            Self::Days(days) => (i64::from(days) / PARTS).clamp(1, MAX_WIDTH_DAYS),
        };
        TimeDelta::days(days)
    }
}

/// The result of one step of deleting runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    /// The number of deleted runs.
    pub runs: i64,
    /// The last run; more may follow after it.
    pub last: Uuid,
}

/// Deletes at most `limit` runs that ended before `before`, in the order of their ids after
/// `after`, without those of the namespaces `kept`. It deletes everything but their journals, and
/// the artifacts that only they used. None when no run is left, or another process deletes runs now.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_runs(
    pool: &PgPool,
    before: DateTime<Utc>,
    kept: &[&str],
    (after, limit): (Uuid, i64),
) -> Result<Option<Forgotten>, StoreError> {
    let statement =
        concat!(include_str!("sql/forget_runs.sql"), include_str!("sql/forget_rows.sql"));
    let forget = sqlx::query_as(statement)
        .bind(before)
        .bind(after)
        .bind(first_id(before))
        .bind(limit)
        .bind(kept);
    forget_by(pool, forget).await
}

/// Deletes at most `limit` tasks of a namespace whose runs ended before `before`, with their runs and journals, in the
/// order of their ids after `after`. None when no task is left, or another process deletes runs now.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_tasks(
    pool: &PgPool,
    namespace: &str,
    before: DateTime<Utc>,
    (after, limit): (Uuid, i64),
) -> Result<Option<Forgotten>, StoreError> {
    let statement =
        concat!(include_str!("sql/forget_tasks.sql"), include_str!("sql/forget_rows.sql"));
    let forget = sqlx::query_as(statement)
        .bind(before)
        .bind(after)
        .bind(first_id(before))
        .bind(limit)
        .bind(namespace);
    forget_by(pool, forget).await
}

/// Sends a statement that deletes expired runs, while no other process does.
async fn forget_by(
    pool: &PgPool,
    forget: QueryAs<'_, Postgres, (i64, Option<Uuid>), PgArguments>,
) -> Result<Option<Forgotten>, StoreError> {
    within_work(async {
        let mut transaction = pool.begin().await?;
        if !lock_forgetting(&mut transaction).await? {
            return Ok(None);
        }
        let (runs, last) = forget.fetch_one(&mut *transaction).await?;
        crash::point("planner.before_forget");
        transaction.commit().await?;
        crash::point("planner.after_forget");
        Ok(last.map(|last| Forgotten { runs, last }))
    })
    .await
}

/// The partitions whose journals are deleted row by row. They are the default partition, and
/// expired partitions that still hold a kept run.
///
/// # Errors
/// [`StoreError`]
pub async fn partitions_to_thin(
    pool: &PgPool,
    before: DateTime<Utc>,
) -> Result<Vec<String>, StoreError> {
    let there = within_work(async { partitions(&mut *pool.acquire().await?).await }).await?;
    let late = first_id(before - GRACE);
    Ok(there
        .into_iter()
        .filter(|partition| partition.behind.is_none_or(|behind| behind <= late))
        .map(|partition| partition.name)
        .collect())
}

/// Deletes the journals of deleted runs in one of the [`partitions_to_thin`]. It reads at most
/// `limit` runs created before `before`, in the order of their ids after `after`. Returns the last
/// run that it read; none when no run is left, or another process deletes runs now.
///
/// # Errors
/// [`StoreError`]
pub async fn forget_journals(
    pool: &PgPool,
    partition: &str,
    before: DateTime<Utc>,
    (after, limit): (Uuid, i64),
) -> Result<Option<Uuid>, StoreError> {
    // The catalogue quoted the name.
    let statement =
        AssertSqlSafe(format!(include_str!("sql/forget_journals.sql"), partition = partition));
    let forget = sqlx::query_scalar(statement).bind(after).bind(first_id(before)).bind(limit);
    within_work(async {
        let mut transaction = pool.begin().await?;
        if !lock_forgetting(&mut transaction).await? {
            return Ok(None);
        }
        let last = forget.fetch_optional(&mut *transaction).await?;
        crash::point("planner.before_thin");
        transaction.commit().await?;
        crash::point("planner.after_thin");
        Ok(last)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_has_as_many_partitions_however_long_runs_are_kept() {
        let days = |retention: Retention| retention.partition_width().num_days();
        assert_eq!(days(Retention::Days(1)), 1);
        assert_eq!(days(Retention::Days(30)), 2);
        assert_eq!(days(Retention::Days(90)), 7);
        assert_eq!(days(Retention::Days(365)), 30);
        assert_eq!(days(Retention::Days(36_500)), 91);
        assert_eq!(days(Retention::Forever), 91);
    }
}
