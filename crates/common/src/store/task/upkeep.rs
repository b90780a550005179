//! What the clock, a crash or the end of a run makes of tasks.

use super::history::{NewEntry, insert_entry};
use crate::crash;
use crate::store::Signing;
use crate::store::StoreError;
use crate::store::pool::within;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a planner has for what follows a task's row or a report at once, before another one does it.
const OWN_TIME: TimeDelta = TimeDelta::seconds(5);

/// How long after an agent for a task was looked for in vain it is looked for again, where none was registered meanwhile.
const ASSIGN_PAUSE: TimeDelta = TimeDelta::seconds(60);

/// Why a planner acts on a task without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "lowercase")]
pub enum TaskCause {
    /// Its run was not made.
    Start,
    /// A later event left nothing to do.
    Supersede,
    /// Its report was stored, and the step still waits.
    Report,
    /// Its run ended.
    End,
    /// There was no report in time.
    Remind,
    /// It has no assignee.
    Assign,
    /// Something is to be written on a forge.
    Escalate,
}

/// A task that is due.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct DueTask {
    /// Why.
    pub cause: TaskCause,
    /// Its run.
    pub run_id: Uuid,
    /// The kind of the forge that is asked, or written to; empty where none is.
    pub forge: String,
    /// The repository there; empty likewise.
    pub repo: String,
}

/// The tasks that are due at `now`, at most `limit` of each cause.
///
/// # Errors
/// [`StoreError`]
pub async fn due_tasks(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<DueTask>, StoreError> {
    let due = sqlx::query_as(include_str!("../sql/due_tasks.sql"))
        .bind(now)
        .bind(limit)
        .bind(now - OWN_TIME)
        .bind(now - ASSIGN_PAUSE);
    within(async { Ok(due.fetch_all(pool).await?) }).await
}

/// A kind of open tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
pub struct TaskKind {
    /// The name of the type.
    pub task_type: String,
    /// What happened.
    pub event_type: String,
    /// What they ask for.
    pub action_type: String,
    /// The state of their runs.
    pub state: String,
}

/// How many tasks of one kind are open.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OpenTasks {
    /// The kind.
    #[sqlx(flatten)]
    pub kind: TaskKind,
    /// How many.
    #[sqlx(rename = "count")]
    pub tasks: i64,
}

/// The open tasks by their kinds; a kind without an open task is left out.
///
/// # Errors
/// [`StoreError`]
pub async fn count_open_tasks(pool: &PgPool) -> Result<Vec<OpenTasks>, StoreError> {
    let counting = sqlx::query_as(include_str!("../sql/open_tasks.sql"));
    within(async { Ok(counting.fetch_all(pool).await?) }).await
}

/// Notes that the runs of tasks were made.
///
/// # Errors
/// [`StoreError`]
pub async fn start_tasks(
    pool: &PgPool,
    run_ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let starting = sqlx::query(include_str!("../sql/start_tasks.sql")).bind(run_ids).bind(now);
    within(async { Ok(starting.execute(pool).await?) }).await.map(drop)
}

/// Notes what the assignee of a task waits for, which is looked at again when the next reminder would be due.
///
/// # Errors
/// [`StoreError`]
pub async fn look_again(
    pool: &PgPool,
    run_id: Uuid,
    waiting_for: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let looking =
        sqlx::query(include_str!("../sql/look_again.sql")).bind(run_id).bind(waiting_for).bind(now);
    within(async { Ok(looking.execute(pool).await?) }).await.map(drop)
}

/// Ends the clock of a reported task whose run is not blocked.
///
/// # Errors
/// [`StoreError`]
pub async fn end_clock(pool: &PgPool, run_id: Uuid) -> Result<(), StoreError> {
    let ending = sqlx::query(include_str!("../sql/end_clock.sql")).bind(run_id);
    within(async { Ok(ending.execute(pool).await?) }).await.map(drop)
}

/// Counts a reminder of a task that is due at the time of `entry` and had `before` of them, puts its text before what the
/// assignee is handed, and ends the lease of an agent that holds the task and is silent, so that it is handed again. Returns
/// false, and changes nothing, where it is not due any more.
///
/// # Errors
/// [`StoreError`]
pub async fn remind_task(
    pool: &PgPool,
    signing: &Signing,
    before: u32,
    entry: &NewEntry,
) -> Result<bool, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let number: Option<i32> = sqlx::query_scalar(include_str!("../sql/remind_task.sql"))
            .bind(entry.run_id)
            .bind(entry.at)
            .bind(i32::try_from(before).unwrap_or(i32::MAX))
            .bind(format!("{}\n\n", entry.body))
            .fetch_optional(&mut *transaction)
            .await?;
        if number.is_none() {
            return Ok(false);
        }
        insert_entry(&mut transaction, signing, entry).await?;
        sqlx::query(include_str!("../sql/offer_again.sql"))
            .bind(entry.run_id)
            .bind(entry.at)
            .execute(&mut *transaction)
            .await?;
        crash::point("planner.before_reminder");
        transaction.commit().await?;
        Ok(true)
    })
    .await
}

/// Notes that no agent was found for a task: others are looked at before it.
///
/// # Errors
/// [`StoreError`]
pub async fn try_assign(pool: &PgPool, run_id: Uuid, now: DateTime<Utc>) -> Result<(), StoreError> {
    let noting = sqlx::query(include_str!("../sql/try_assign_task.sql")).bind(run_id).bind(now);
    within(async { Ok(noting.execute(pool).await?) }).await.map(drop)
}
