//! The runs that the clock moves on. The id of a timer is made of its time, so the due ones are the
//! first of an index over ids.

use super::StoreError;
use super::pool::within;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use uuid::{NoContext, Timestamp, Uuid};

/// An id for a wait that the clock ends: a UUIDv7 of that time.
pub fn timer_id(until: DateTime<Utc>) -> Uuid {
    let (seconds, nanos) = (until.timestamp(), until.timestamp_subsec_nanos());
    let seconds = u64::try_from(seconds).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos))
}

/// Above the ids of all timers that are due `now`, and below those of later milliseconds.
fn due_before(now: DateTime<Utc>) -> Uuid {
    let millis = u128::try_from(now.timestamp_millis()).unwrap_or_default();
    Uuid::from_u128(millis.saturating_add(1) << 80)
}

/// Why the planner moves a run without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum Cause {
    /// The run's deadline passed.
    Deadline,
    /// A confirmation of the run, or a call of a worker, passed its time.
    Expiry,
    /// A sleep of the run is over.
    Timer,
    /// The folder that the run waits for is free.
    Workspace,
    /// A worker of the run is lost.
    Worker,
    /// The time of a step whose decision is leased is over.
    Step,
}

/// The runs that the clock moves on at `now`, at most `limit` of each cause, except `except`. Those that a free folder
/// moves on are [`super::unblocked_runs`].
///
/// # Errors
/// [`StoreError`]
pub async fn due(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
    except: &[Uuid],
) -> Result<Vec<(Cause, Uuid)>, StoreError> {
    let due = sqlx::query_as(include_str!("sql/due.sql"))
        .bind(now)
        .bind(due_before(now))
        .bind(limit)
        .bind(except);
    within(async { Ok(due.fetch_all(pool).await?) }).await
}

/// The decisions of a run whose step's time is over at `now` and was while they were leased, each with the time for which no participant had
/// leased it.
///
/// # Errors
/// [`StoreError`]
pub async fn late_steps(
    pool: &PgPool,
    run_id: Uuid,
    now: DateTime<Utc>,
) -> Result<Vec<(Uuid, TimeDelta)>, StoreError> {
    let late = sqlx::query_as(include_str!("sql/late_steps.sql")).bind(run_id).bind(now);
    let late: Vec<(Uuid, i64)> = within(async { Ok(late.fetch_all(pool).await?) }).await?;
    Ok(late.into_iter().map(|(id, free_ms)| (id, TimeDelta::milliseconds(free_ms))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_due_at_its_time_and_not_before() {
        let at = |millis: i64| DateTime::from_timestamp_millis(1_700_000_000_000 + millis).unwrap();
        for end in [0, 1, 999, 60_000] {
            let id = timer_id(at(end));
            assert!(id < due_before(at(end)), "{end}: it is due at its end");
            assert!(id > due_before(at(end - 1)), "{end}: it is not due before");
        }
    }
}
