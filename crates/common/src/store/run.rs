//! Runs as they were requested.

use super::StoreError;
use super::execution::{progress, to_text};
use super::options::PLAN_FOR_VALUES;
use super::partition::first_id;
use super::pool::within;
use super::run_row::RunRow;
use super::unread::readable;
use crate::domain::machine::run::RunState;
use crate::domain::run::RunRecord;
use crate::domain::stop::StopReason;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::postgres::PgRow;
use sqlx::{PgExecutor, PgPool, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// One run.
///
/// # Errors
/// [`StoreError`]
pub async fn find_run(
    executor: impl PgExecutor<'_>,
    id: Uuid,
) -> Result<Option<RunRecord>, StoreError> {
    let loaded = sqlx::query_as(include_str!("sql/load.sql")).bind([id]);
    let row: Option<RunRow> = within(async { Ok(loaded.fetch_optional(executor).await?) }).await?;
    row.map(RunRow::into_record).transpose()
}

/// The owner of a run. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct RunOwner {
    /// The namespace.
    pub namespace: String,
    /// The name of the identity that created it; empty for runs of earlier versions.
    pub submitter: String,
}

/// The owner of a run; none when this database does not contain the run.
///
/// # Errors
/// [`StoreError`]
pub async fn find_owner(
    executor: impl PgExecutor<'_>,
    id: Uuid,
) -> Result<Option<RunOwner>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/find_owner.sql")).bind(id);
    within(async { Ok(found.fetch_optional(executor).await?) }).await
}

/// Selects runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only this namespace; empty for all.
    pub namespace: String,
    /// Only these namespaces, which the caller reaches; empty for all.
    pub reached: Vec<String>,
    /// Only these states; empty for all. The phase inside BLOCKED is ignored.
    pub states: Vec<RunState>,
    /// Only runs that carry all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only runs that ended for one of these reasons; empty for all.
    pub stop_reasons: Vec<StopReason>,
    /// Only runs created at this moment or later.
    pub created_from: Option<DateTime<Utc>>,
    /// Only runs created before this moment.
    pub created_before: Option<DateTime<Utc>>,
    /// Only runs older than this one, the last of the page before.
    pub before: Option<Uuid>,
    /// The most runs in the page.
    pub limit: i64,
}

impl RunFilter {
    /// The stop reasons of the runs that the filter selects; empty for any. Where it selects the states of
    /// ended runs, their reasons follow from the states.
    pub fn selected_reasons(&self) -> Vec<&'static str> {
        let by_state = self.stop_reasons.is_empty()
            && !self.states.is_empty()
            && self.states.iter().all(|state| state.is_terminal());
        let selected = |reason: &StopReason| match by_state {
            true => self.states.contains(&state_after(*reason)),
            false => self.stop_reasons.contains(reason),
        };
        StopReason::ALL.into_iter().filter(selected).map(StopReason::as_str).collect()
    }

    /// An id that no run of the filter's times is below.
    pub fn first_id(&self) -> Option<Uuid> {
        self.created_from.map(|at| first_id(at.checked_sub_signed(ID_SPREAD).unwrap_or(at)))
    }

    /// An id that every run of the filter's times is below.
    pub fn behind_id(&self) -> Option<Uuid> {
        self.created_before.map(|at| first_id(at.checked_add_signed(ID_SPREAD).unwrap_or(at)))
    }

    /// Whether the filter selects states of runs that have not ended, and no others.
    pub fn selects_unended_runs(&self) -> bool {
        !self.states.is_empty() && !self.states.iter().any(|state| state.is_terminal())
    }
}

/// The most by which the time inside a run's id differs from the run's creation. The id has the time of
/// the planner's machine, the run that of the database; further apart, the clocks of a deployment are
/// set wrongly.
const ID_SPREAD: TimeDelta = TimeDelta::hours(1);

/// The state of a run that ended for a reason.
const fn state_after(reason: StopReason) -> RunState {
    if matches!(reason, StopReason::Accepted) {
        RunState::Done
    } else if matches!(reason, StopReason::Cancelled) {
        RunState::Cancelled
    } else {
        RunState::Failed
    }
}

/// The most bytes of text in a page, not counting its last run: a page is one message.
pub const LIST_BYTES: i64 = 2 << 20;

/// A page of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// Those whose rows cannot be decoded.
    pub unreadable: Vec<Uuid>,
    /// Where the next page begins; none at the end.
    pub next: Option<Uuid>,
}

/// A page of runs.
///
/// # Errors
/// [`StoreError`]
pub async fn list_runs(pool: &PgPool, filter: &RunFilter) -> Result<RunPage, StoreError> {
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let listed = sqlx::query(include_str!("sql/list.sql"))
        .bind(&filter.namespace)
        .bind(&states)
        .bind(filter.before)
        .bind(filter.limit.saturating_add(1))
        .bind(sqlx::types::Json(&filter.labels))
        .bind(LIST_BYTES)
        .bind(&filter.reached)
        .bind(filter.selected_reasons())
        .bind(filter.created_from)
        .bind(filter.created_before)
        .bind(filter.selects_unended_runs())
        .bind(filter.first_id())
        .bind(filter.behind_id());
    // One plan for all filters could use no index but the key's.
    let asked = async {
        let mut transaction = pool.begin_with(PLAN_FOR_VALUES).await?;
        let rows = listed.fetch_all(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(rows)
    };
    page(within(asked).await?, filter.limit)
}

/// The bytes of text that a run adds to a page, as the list statements count them.
pub fn listed_bytes(run: &RunRecord) -> i64 {
    let RunRecord { spec, execution, .. } = run;
    let labels: usize = spec.labels.iter().map(|(name, text)| name.len() + text.len()).sum();
    let columns = [progress(execution), to_text(&execution.wait), to_text(&execution.terminal)];
    let written: usize = columns.iter().flatten().map(String::len).sum();
    i64::try_from(spec.goal.len() + labels + written).unwrap_or(i64::MAX)
}

/// A page of at most `limit` runs, from rows selected with one more than that.
pub(super) fn page(mut rows: Vec<PgRow>, limit: i64) -> Result<RunPage, StoreError> {
    let found: i64 = rows.first().map(|row| row.try_get("found")).transpose()?.unwrap_or_default();
    rows.truncate(usize::try_from(limit).unwrap_or_default());
    let more = usize::try_from(found).is_ok_and(|found| found > rows.len());
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| row.try_get("run_id")).transpose()?;
    let (runs, unreadable) = readable(&rows)?;
    Ok(RunPage { runs, unreadable, next })
}

/// The run that waits with this id; none when no run does.
///
/// # Errors
/// [`StoreError`]
pub async fn find_wait(
    executor: impl PgExecutor<'_>,
    wait_id: Uuid,
) -> Result<Option<Uuid>, StoreError> {
    let found = sqlx::query_scalar(include_str!("sql/find_wait.sql")).bind(wait_id);
    within(async { Ok(found.fetch_optional(executor).await?) }).await
}
