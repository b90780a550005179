//! The journal's partitions: ranges of run ids, which begin with a time.
//!
//! ```text
//!   ... | journal_20261109 | journal_20261116 | journal_20261123 |      journal_default
//!         all runs deleted:   current            made in advance        ids in no other range
//!         dropped
//! ```

use super::StoreError;
use super::pool::within_work;
use super::roles::may_change_schema;
use crate::crash;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

/// The advisory lock of the process that creates partitions.
const MAKING: i64 = 0x5375_7265_7479_0001;
/// The advisory lock of the process that deletes expired runs.
const FORGETTING: i64 = 0x5375_7265_7479_0002;
/// How long other sessions may wait behind a change of the partitions.
const LOCK_PATIENCE: &str = "set local lock_timeout = '50ms'";
/// The time limit to create one, which includes a scan of the default partition, usually empty.
const WORK_PATIENCE: &str = "set local statement_timeout = '2s'";

/// Keeps a compressed row that fits into a page in one piece. Rows in several pieces, each with an
/// index entry, cost more to write and to read. The first migration sets the same.
const ROWS_IN_ONE_PIECE: &str = "toast_tuple_target = 8160";

/// A partition as the catalogue lists it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub(super) struct Partition {
    /// The quoted name, as it is written in statements.
    pub(super) name: String,
    /// The first id in it; none for the default partition.
    pub(super) first: Option<Uuid>,
    /// The first id after it.
    pub(super) behind: Option<Uuid>,
}

/// The time range of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
}

/// The smallest id of a run created at `at`.
pub(super) fn first_id(at: DateTime<Utc>) -> Uuid {
    let millis = u128::try_from(at.timestamp_millis()).unwrap_or_default();
    Uuid::from_u128(millis << 80)
}

/// The time inside an id.
pub fn time_of(id: Uuid) -> DateTime<Utc> {
    let millis = i64::try_from(id.as_u128() >> 80).unwrap_or_default();
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}

/// All partitions.
pub(super) async fn partitions(
    connection: &mut PgConnection,
) -> Result<Vec<Partition>, StoreError> {
    Ok(sqlx::query_as(include_str!("sql/partitions.sql")).fetch_all(connection).await?)
}

/// Creates partitions of this width for the present and at least as much time ahead. Several
/// processes may call it at once. Returns whether all exist; one that could not be created
/// immediately is left to the next call.
///
/// # Errors
/// [`StoreError`]
pub async fn prepare_partitions(
    pool: &PgPool,
    now: DateTime<Utc>,
    width: TimeDelta,
) -> Result<bool, StoreError> {
    if !may_change_schema(pool).await? {
        // The owner of the schema makes them; rows go to the default partition until then.
        return Ok(true);
    }
    within_work(prepare(pool, now, width)).await
}

async fn prepare(pool: &PgPool, now: DateTime<Utc>, width: TimeDelta) -> Result<bool, StoreError> {
    let mut transaction = pool.begin().await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(MAKING).execute(&mut *transaction).await?;
    let there = partitions(&mut transaction).await?;
    let ends: Vec<DateTime<Utc>> =
        there.iter().filter_map(|partition| partition.behind).map(time_of).collect();
    for range in missing(now, width, &ends) {
        if holds_default_rows(&mut transaction, range).await? {
            // The runs stay in the default partition, and are deleted row by row.
            continue;
        }
        for patience in [LOCK_PATIENCE, WORK_PATIENCE] {
            sqlx::query(patience).execute(&mut *transaction).await?;
        }
        match make(&mut transaction, range).await {
            Ok(()) => {}
            Err(error) if gave_up(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    crash::point("planner.before_partition");
    transaction.commit().await?;
    crash::point("planner.after_partition");
    Ok(true)
}

/// Takes the lock of the process that deletes expired runs, until the transaction ends. Returns
/// whether it was free.
pub(super) async fn lock_forgetting(connection: &mut PgConnection) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar("select pg_try_advisory_xact_lock($1)")
        .bind(FORGETTING)
        .fetch_one(connection)
        .await?)
}

/// The partitions to create when the existing ones end at `ends`.
fn missing(now: DateTime<Utc>, width: TimeDelta, ends: &[DateTime<Utc>]) -> Vec<Range> {
    let width_ms = width.num_milliseconds().max(1);
    let aligned_ms = now.timestamp_millis().div_euclid(width_ms).saturating_mul(width_ms);
    let aligned = DateTime::from_timestamp_millis(aligned_ms).unwrap_or(now);
    let mut from = ends.iter().copied().fold(aligned, DateTime::max);
    let mut ranges = Vec::new();
    while from <= now + width {
        let to = from + width;
        ranges.push(Range { from, to });
        from = to;
    }
    ranges
}

async fn holds_default_rows(
    connection: &mut PgConnection,
    range: Range,
) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar(
        "select exists (select from journal_default where run_id >= $1 and run_id < $2)",
    )
    .bind(first_id(range.from))
    .bind(first_id(range.to))
    .fetch_one(connection)
    .await?)
}

/// Creates the table and attaches it, because `create table ... partition of` would block all
/// writers.
async fn make(connection: &mut PgConnection, range: Range) -> Result<(), sqlx::Error> {
    let name = format!("journal_{}", range.from.format("%Y%m%d"));
    let (first, behind) = (first_id(range.from), first_id(range.to));
    for statement in [
        format!("create table {name} (like journal including all) with ({ROWS_IN_ONE_PIECE})"),
        format!(
            "alter table journal attach partition {name} for values from ('{first}') to ('{behind}')"
        ),
    ] {
        // Names and bounds are generated here, from digits.
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Drops the partitions that end before `before` and whose runs are all deleted. Returns how many;
/// a locked one is left to the next call.
///
/// # Errors
/// [`StoreError`]
pub async fn drop_partitions(pool: &PgPool, before: DateTime<Utc>) -> Result<u32, StoreError> {
    if !may_change_schema(pool).await? {
        return Ok(0);
    }
    let mut dropped = 0;
    while within_work(take_out_one(pool, before)).await? {
        dropped += 1;
    }
    // Separate from the detaching, because deleting the files takes time and locks out no other
    // session.
    let expired = sqlx::query_scalar(include_str!("sql/expired_partitions.sql"));
    let expired: Vec<String> = within_work(async { Ok(expired.fetch_all(pool).await?) }).await?;
    for name in expired {
        // The catalogue quoted the name. Another process may drop it at the same time.
        let statement = AssertSqlSafe(format!("drop table if exists {name}"));
        crash::point("planner.before_drop");
        within_work(async { Ok(sqlx::query(statement).execute(pool).await?) }).await?;
        crash::point("planner.after_drop");
    }
    Ok(dropped)
}

/// Detaches one partition under a name that marks it for dropping. That locks the whole journal for
/// a moment, so it gives up soon.
async fn take_out_one(pool: &PgPool, before: DateTime<Utc>) -> Result<bool, StoreError> {
    let mut transaction = pool.begin().await?;
    if !lock_forgetting(&mut transaction).await? {
        return Ok(false);
    }
    for partition in partitions(&mut transaction).await? {
        let (Some(first), Some(behind)) = (partition.first, partition.behind) else { continue };
        if behind > first_id(before) || holds_runs(&mut transaction, first, behind).await? {
            continue;
        }
        sqlx::query(LOCK_PATIENCE).execute(&mut *transaction).await?;
        return match detach(&mut transaction, &partition.name, first).await {
            Ok(()) => {
                crash::point("planner.before_take_out");
                transaction.commit().await?;
                crash::point("planner.after_take_out");
                Ok(true)
            }
            Err(error) if gave_up(&error) => Ok(false),
            Err(error) => Err(error.into()),
        };
    }
    Ok(false)
}

async fn holds_runs(
    connection: &mut PgConnection,
    first: Uuid,
    behind: Uuid,
) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar("select exists (select from run where id >= $1 and id < $2)")
        .bind(first)
        .bind(behind)
        .fetch_one(connection)
        .await?)
}

async fn detach(connection: &mut PgConnection, name: &str, first: Uuid) -> Result<(), sqlx::Error> {
    let simple = first.simple();
    for statement in [
        format!("alter table journal detach partition {name}"),
        format!("alter table {name} rename to expired_journal_{simple}"),
    ] {
        // The catalogue quoted the name.
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Whether a lock was not available in time, or the work took too long.
fn gave_up(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("55P03" | "57014" | "40P01"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(days: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(days)
    }

    #[test]
    fn an_id_says_when_its_run_was_made() {
        let made = DateTime::from_timestamp_millis(1_795_262_400_123).unwrap();
        let id = first_id(made);
        assert_eq!(id.to_string(), "01a1fdfa-467b-0000-0000-000000000000");
        assert_eq!(time_of(id), made);
    }

    #[test]
    fn what_is_there_is_not_made_again() {
        let week = TimeDelta::days(7);
        let first = missing(at(10), week, &[]);
        let range = |from, to| Range { from: at(from), to: at(to) };
        assert_eq!(first, [range(7, 14), range(14, 21)]);
        assert_eq!(missing(at(10), week, &[at(14), at(21)]), []);
        assert_eq!(missing(at(15), week, &[at(14), at(21)]), [range(21, 28)]);
    }

    proptest! {
        #[test]
        fn partitions_never_overlap_and_the_present_and_as_much_ahead_is_covered(
            visits in prop::collection::vec((0_i64..500, 1_i64..92), 1..20),
        ) {
            let mut ends: Vec<DateTime<Utc>> = Vec::new();
            let mut now = at(20_000);
            for (later, width) in visits {
                now += TimeDelta::hours(later);
                let width = TimeDelta::days(width);
                for range in missing(now, width, &ends) {
                    prop_assert!(ends.iter().all(|&end| end <= range.from));
                    prop_assert!(range.from < range.to);
                    ends.push(range.to);
                }
                prop_assert!(ends.iter().any(|&end| end > now + width));
            }
        }
    }
}
