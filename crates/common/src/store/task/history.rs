//! The history of tasks: entries, each of which is signed when it is stored.

use super::columns::stored_instant;
use super::entry::{EntryRow, JudgedRow, Row};
use crate::crash;
use crate::domain::json::sha256;
use crate::domain::signature::{EntryLine, links_digest};
use crate::domain::toolchain::EntryKind;
use crate::store::Signing;
use crate::store::StoreError;
use crate::store::pool::within;
use crate::store::request_outcome::{NewOutcome, store_outcome};
use chrono::{DateTime, Utc};
use sqlx::{PgPool, Postgres, Transaction};
use uuid::Uuid;

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

/// Adds an entry. With an outcome, it is stored once for the call: none for a call that was answered concurrently.
///
/// # Errors
/// [`StoreError`]
pub async fn add_entry(
    pool: &PgPool,
    signing: &Signing,
    entry: &NewEntry,
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<i64>, StoreError> {
    within(async {
        let Some((transaction, sequence)) = insert_once(pool, signing, entry, outcome).await?
        else {
            return Ok(None);
        };
        transaction.commit().await?;
        Ok(Some(sequence))
    })
    .await
}

/// What the assignee of a task says that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingFor<'a> {
    /// The text; empty while it acts.
    pub text: &'a str,
    /// Whether the clock of the report stops meanwhile. Otherwise the forge is asked when the next reminder is due.
    pub stops_clock: bool,
}

/// Adds an entry of the assignee as [`add_entry`] does, and in the same transaction what it waits for. An entry that says the
/// same as before leaves the clock as it is.
///
/// # Errors
/// [`StoreError`]
pub async fn add_own_entry(
    pool: &PgPool,
    signing: &Signing,
    (entry, waiting): (&NewEntry, WaitingFor<'_>),
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<i64>, StoreError> {
    within(async {
        let Some((mut transaction, sequence)) = insert_once(pool, signing, entry, outcome).await?
        else {
            return Ok(None);
        };
        let saying = match waiting.stops_clock {
            true => sqlx::query(include_str!("../sql/hold_task.sql"))
                .bind(entry.run_id)
                .bind(waiting.text)
                .bind(entry.at),
            false => sqlx::query(include_str!("../sql/say_waiting.sql"))
                .bind(entry.run_id)
                .bind(waiting.text),
        };
        saying.execute(&mut *transaction).await?;
        crash::point("planner.before_entry_waits");
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
    signing: &Signing,
    entry: &NewEntry,
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<i64>, StoreError> {
    within(async {
        let Some((mut transaction, sequence)) = insert_once(pool, signing, entry, outcome).await?
        else {
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
    signing: &Signing,
    entry: &NewEntry,
    outcome: impl FnOnce(i64) -> Option<NewOutcome>,
) -> Result<Option<(Transaction<'static, Postgres>, i64)>, StoreError> {
    let mut transaction = pool.begin().await?;
    let sequence = insert_entry(&mut transaction, signing, entry).await?;
    if let Some(outcome) = outcome(sequence)
        && !store_outcome(&mut transaction, &outcome).await?
    {
        transaction.rollback().await?;
        return Ok(None);
    }
    Ok(Some((transaction, sequence)))
}

/// Stores an entry behind the last one. The lock of the task's row lasts until the transaction ends, so that the planner
/// and an executor never name the same entry before theirs.
pub(in crate::store) async fn insert_entry(
    connection: &mut sqlx::PgConnection,
    signing: &Signing,
    entry: &NewEntry,
) -> Result<i64, StoreError> {
    let NewEntry { run_id, kind, author, body, links, attachment, at } = entry;
    sqlx::query("select from task where run_id = $1 for update")
        .bind(run_id)
        .execute(&mut *connection)
        .await?;
    let last =
        sqlx::query_as(include_str!("../sql/last_task_entry.sql")).bind(run_id).bind(i64::MAX);
    let last: Option<JudgedRow> = last.fetch_optional(&mut *connection).await?;
    let last = last.map(|last| last.signed().line);
    let run_text = run_id.to_string();
    let line = EntryLine {
        number: last.as_ref().map_or(0, |last| last.number).saturating_add(1),
        at: stored_instant(*at),
        kind: kind.as_str().to_owned(),
        author: author.clone(),
        body: sha256(&[body.as_bytes()]),
        links: links_digest(links),
        attachment: attachment.clone(),
        previous: last.map(|last| last.digest(&run_text)),
    };
    let signed = signing.entry(&run_text, &line);
    Ok(sqlx::query_scalar(include_str!("../sql/add_task_entry.sql"))
        .bind(run_id)
        .bind(kind.as_str())
        .bind(author)
        .bind(body)
        .bind(links)
        .bind(attachment)
        .bind(line.at)
        .bind(i32::try_from(line.number).unwrap_or(i32::MAX))
        .bind(line.previous.map(|digest| digest.to_vec()))
        .bind(signed.map(|signed| signed.key_id.0))
        .bind(signed.map(|signed| signed.signature))
        .bind(signed.map(|signed| signed.signed_at))
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
