//! The history of tasks, and what the gate judges them by.

use crate::domain::toolchain::{EntryKind, TaskEntry};
use crate::store::StoreError;
use crate::store::pool::within;
use crate::store::request_outcome::{NewOutcome, store_outcome};
use chrono::{DateTime, Utc};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

/// The most entries that the gate reads of one task.
const JUDGED: i64 = 2_000;

/// An entry to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The task.
    pub run_id: Uuid,
    /// The kind.
    pub kind: EntryKind,
    /// The agent or the component that writes it.
    pub author: String,
    /// The text.
    pub body: String,
    /// Addresses that show what was done.
    pub links: Vec<String>,
    /// The name of the output that the text is; empty for none.
    pub attachment: String,
    /// Now.
    pub at: DateTime<Utc>,
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    /// Grows with time, with gaps.
    pub sequence: i64,
    /// What it says.
    pub entry: TaskEntry,
    /// Addresses that show what was done.
    pub links: Vec<String>,
    /// The name of the output that the text is; empty for none.
    pub attachment: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    sequence: i64,
    kind: String,
    author: String,
    body: String,
    links: Vec<String>,
    attachment: String,
    at: DateTime<Utc>,
}

impl Row {
    fn into_entry(self, run_id: Uuid) -> Result<EntryRow, StoreError> {
        let Self { sequence, kind, author, body, links, attachment, at } = self;
        let what = || format!("entry {sequence} of task {run_id}");
        let kind = EntryKind::from_text(&kind).ok_or_else(|| StoreError::corrupt(what(), &kind))?;
        let entry = TaskEntry { kind, author, body, at };
        Ok(EntryRow { sequence, entry, links, attachment })
    }
}

/// Adds an entry. With an outcome, it is stored once for the call: none for a call that was answered concurrently.
///
/// # Errors
/// [`StoreError`]
pub async fn add_entry(
    pool: &PgPool,
    entry: &NewEntry,
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<i64>, StoreError> {
    within(async {
        let Some((transaction, sequence)) = insert_once(pool, entry, outcome).await? else {
            return Ok(None);
        };
        transaction.commit().await?;
        Ok(Some(sequence))
    })
    .await
}

/// Stores the report of a task with its answer: the entry, and that the clock of the report ends. None for a call that
/// was answered concurrently.
///
/// # Errors
/// [`StoreError`]
pub async fn report_task(
    pool: &PgPool,
    entry: &NewEntry,
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<i64>, StoreError> {
    within(async {
        let Some((mut transaction, sequence)) = insert_once(pool, entry, outcome).await? else {
            return Ok(None);
        };
        sqlx::query(include_str!("../sql/report_task.sql"))
            .bind(entry.run_id)
            .bind(entry.at)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(Some(sequence))
    })
    .await
}

/// Begins a transaction with an entry and the outcome of its call; none where the call was answered concurrently.
async fn insert_once(
    pool: &PgPool,
    entry: &NewEntry,
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<(Transaction<'static, Postgres>, i64)>, StoreError> {
    let mut transaction = pool.begin().await?;
    let sequence = insert_entry(&mut transaction, entry).await?;
    if let Some(outcome) = outcome(sequence)
        && !store_outcome(&mut transaction, &outcome).await?
    {
        transaction.rollback().await?;
        return Ok(None);
    }
    Ok(Some((transaction, sequence)))
}

pub(in crate::store) async fn insert_entry(
    connection: &mut sqlx::PgConnection,
    entry: &NewEntry,
) -> Result<i64, StoreError> {
    let NewEntry { run_id, kind, author, body, links, attachment, at } = entry;
    Ok(sqlx::query_scalar(include_str!("../sql/add_task_entry.sql"))
        .bind(run_id)
        .bind(kind.as_str())
        .bind(author)
        .bind(body)
        .bind(links)
        .bind(attachment)
        .bind(at)
        .fetch_one(connection)
        .await?)
}

/// At most `limit` entries of a task behind `after`, the oldest first.
///
/// # Errors
/// [`StoreError`]
pub async fn list_entries(
    pool: &PgPool,
    run_id: Uuid,
    after: i64,
    limit: i64,
) -> Result<Vec<EntryRow>, StoreError> {
    let listing = sqlx::query_as(include_str!("../sql/task_entries.sql"))
        .bind(run_id)
        .bind(after)
        .bind(limit);
    let rows: Vec<Row> = within(async { Ok(listing.fetch_all(pool).await?) }).await?;
    rows.into_iter().map(|row| row.into_entry(run_id)).collect()
}

/// Stops the clock of a task while its assignee waits for others, or lets it run again where the text is empty.
///
/// # Errors
/// [`StoreError`]
pub async fn hold_task(
    pool: &PgPool,
    run_id: Uuid,
    waiting_for: &str,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let holding =
        sqlx::query(include_str!("../sql/hold_task.sql")).bind(run_id).bind(waiting_for).bind(now);
    within(async { Ok(holding.execute(pool).await?) }).await.map(drop)
}

/// What the gate judges a task by: its action, its assignee, when it began, its entries, and how many of them are
/// outputs. None for a run that is no task.
///
/// # Errors
/// [`StoreError`]
pub async fn task_facts(
    pool: &PgPool,
    run_id: Uuid,
) -> Result<Option<(String, String, DateTime<Utc>, Vec<EntryRow>)>, StoreError> {
    let finding = sqlx::query_as(include_str!("../sql/task_facts.sql")).bind(run_id);
    let found: Option<(String, String, DateTime<Utc>)> =
        within(async { Ok(finding.fetch_optional(pool).await?) }).await?;
    let Some((action_type, assignee, began_at)) = found else { return Ok(None) };
    let entries = list_entries(pool, run_id, 0, JUDGED).await?;
    Ok(Some((action_type, assignee, began_at, entries)))
}

/// The wait for the next decision of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct DecisionWait {
    /// The wait.
    pub id: Uuid,
    /// The fencing token of its last lease.
    pub lease_epoch: i64,
    /// Whether a participant holds it.
    pub is_leased: bool,
}

/// The wait for the next decision of a run; none while it waits for none.
///
/// # Errors
/// [`StoreError`]
pub async fn decision_wait(
    pool: &PgPool,
    run_id: Uuid,
) -> Result<Option<DecisionWait>, StoreError> {
    let finding = sqlx::query_as(include_str!("../sql/decision_wait.sql")).bind(run_id);
    within(async { Ok(finding.fetch_optional(pool).await?) }).await
}
