//! What the clock, a crash or the end of a run makes of tasks.

use super::history::{NewEntry, insert_entry};
use crate::domain::toolchain::{EntryKind, SYSTEM};
use crate::store::Signing;
use crate::store::StoreError;
use crate::store::pool::within;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a planner has for what follows a task's row or a report at once, before another one does it.
const OWN_TIME: TimeDelta = TimeDelta::seconds(5);

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

/// The tasks that are due at `now`, at most `limit` of each cause.
///
/// # Errors
/// [`StoreError`]
pub async fn due_tasks(
    pool: &PgPool,
    now: DateTime<Utc>,
    limit: i64,
) -> Result<Vec<(TaskCause, Uuid)>, StoreError> {
    let due = sqlx::query_as(include_str!("../sql/due_tasks.sql"))
        .bind(now)
        .bind(limit)
        .bind(now - OWN_TIME);
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

/// Notes what the assignee of a task says that it waits for; the clock of the report goes on.
///
/// # Errors
/// [`StoreError`]
pub async fn say_waiting(pool: &PgPool, run_id: Uuid, waiting_for: &str) -> Result<(), StoreError> {
    let saying =
        sqlx::query("update task set waiting_for = $2 where run_id = $1 and ended_at is null")
            .bind(run_id)
            .bind(waiting_for);
    within(async { Ok(saying.execute(pool).await?) }).await.map(drop)
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

/// Counts a reminder of a task that is due at `now` and had `before` of them, and puts `text` before what the assignee
/// is handed. Returns false where it is not due any more.
///
/// # Errors
/// [`StoreError`]
pub async fn remind_task(
    pool: &PgPool,
    run_id: Uuid,
    (before, text): (u32, &str),
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let reminding = sqlx::query_scalar(include_str!("../sql/remind_task.sql"))
        .bind(run_id)
        .bind(now)
        .bind(i32::try_from(before).unwrap_or(i32::MAX))
        .bind(text);
    let number: Option<i32> = within(async { Ok(reminding.fetch_optional(pool).await?) }).await?;
    Ok(number.is_some())
}

/// Gives a task without an assignee to an agent. Returns false where it has one, or has ended.
///
/// # Errors
/// [`StoreError`]
pub async fn assign_task(
    pool: &PgPool,
    signing: &Signing,
    run_id: Uuid,
    (agent, instructions): (&str, &str),
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    within(async {
        let mut transaction = pool.begin().await?;
        let assigning = sqlx::query_scalar(include_str!("../sql/assign_task.sql"))
            .bind(run_id)
            .bind(agent)
            .bind(instructions);
        let done: Option<Uuid> = assigning.fetch_optional(&mut *transaction).await?;
        if done.is_none() {
            return Ok(false);
        }
        // The run was signed with a task without an assignee: this entry is what binds the present one.
        let entry = NewEntry {
            run_id,
            kind: EntryKind::Assignment,
            author: SYSTEM.to_owned(),
            body: agent.to_owned(),
            links: Vec::new(),
            attachment: String::new(),
            at: now,
        };
        insert_entry(&mut transaction, signing, &entry).await?;
        transaction.commit().await?;
        Ok(true)
    })
    .await
}
