//! The journal: read in order from any number, never changed.

use super::StoreError;
use super::apply::Chain;
use super::artifact::patience;
use super::pool::{within, within_at_most};
use crate::domain::journal::{
    Entry, Event, Output, StoredRow, VerdictRecord, Wanted, read_changes,
};
use crate::domain::receipt::EvidenceReceipt;
use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

#[derive(FromRow)]
struct JournalRow {
    sequence: i64,
    at: DateTime<Utc>,
    actor: String,
    entries: String,
}

impl JournalRow {
    fn events(&self, run_id: Uuid, wanted: Wanted) -> Result<Vec<Event>, StoreError> {
        let Self { sequence, at, actor, entries } = self;
        read_row(StoredRow { sequence: *sequence, at: *at, actor, text: entries }, run_id, wanted)
    }
}

/// The events that one row holds.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub(super) fn read_row(
    row: StoredRow<'_>,
    run_id: Uuid,
    wanted: Wanted,
) -> Result<Vec<Event>, StoreError> {
    let sequence = row.sequence;
    read_changes(row, wanted)
        .map_err(|error| StoreError::corrupt(format!("journal {run_id} at {sequence}"), error))
}

/// Events of a run from the number `from` on, in order, from at most `rows` rows of what was
/// committed together.
///
/// # Errors
/// [`StoreError`]
pub async fn events(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    from: i64,
    rows: i64,
) -> Result<Vec<Event>, StoreError> {
    let mut events = read(executor, run_id, from, rows, Wanted::Everything).await?;
    events.retain(|event| event.sequence >= from);
    Ok(events)
}

async fn read(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    from: i64,
    rows: i64,
    wanted: Wanted,
) -> Result<Vec<Event>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/events.sql")).bind(run_id).bind(from).bind(rows);
    let rows: Vec<JournalRow> = within(async { Ok(found.fetch_all(executor).await?) }).await?;
    let mut events = Vec::new();
    for row in rows {
        events.append(&mut row.events(run_id, wanted)?);
    }
    Ok(events)
}

/// Every receipt of a run, in order.
///
/// # Errors
/// [`StoreError`]
pub async fn receipts(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
) -> Result<Vec<EvidenceReceipt>, StoreError> {
    let events = read(executor, run_id, 1, i64::MAX, Wanted::Receipts).await?;
    Ok(events
        .into_iter()
        .filter_map(|event| match event.entry {
            Entry::Receipt(receipt) => Some(*receipt),
            Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Turn(_)
            | Entry::Intent(_)
            | Entry::Output(_)
            | Entry::Verdict(_)
            | Entry::Answer(_) => None,
        })
        .collect())
}

/// The verdict that stands at a number of a run's journal.
///
/// # Errors
/// [`StoreError`]
pub async fn verdict(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    sequence: i64,
) -> Result<Option<VerdictRecord>, StoreError> {
    let events = events(executor, run_id, sequence, 1).await?;
    Ok(events.into_iter().find_map(|event| match event.entry {
        Entry::Verdict(record) if event.sequence == sequence => Some(*record),
        Entry::Verdict(_)
        | Entry::Receipt(_)
        | Entry::Transition(_)
        | Entry::Plan(_)
        | Entry::Turn(_)
        | Entry::Intent(_)
        | Entry::Output(_)
        | Entry::Answer(_) => None,
    }))
}

/// The whole text of an output, from the journal or the artifacts; none when neither has it.
///
/// # Errors
/// [`StoreError`]
pub async fn output_text(
    executor: impl PgExecutor<'_>,
    output: &Output,
) -> Result<Option<String>, StoreError> {
    if let Some(text) = &output.text {
        return Ok(Some(text.clone()));
    }
    let found = sqlx::query_scalar(include_str!("sql/find_artifact.sql")).bind(&output.digest);
    let body: Option<Vec<u8>> =
        within_at_most(patience(output.bytes), async { Ok(found.fetch_optional(executor).await?) })
            .await?;
    Ok(body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

/// Whether exactly these changes were stored: for a writer that lost its connection before it heard
/// the answer. Ones that journalled nothing are known by their row alone, and only while nobody
/// wrote after it.
pub(super) async fn holds(
    connection: &mut PgConnection,
    chain: &Chain<'_>,
) -> Result<bool, StoreError> {
    let row = chain.row();
    Ok(sqlx::query_scalar(include_str!("sql/journal_holds.sql"))
        .bind(row.run_id)
        .bind(row.sequence)
        .bind(row.updated_at)
        .bind(chain.entries())
        .bind(row.version)
        .bind(row.lease_epoch)
        .fetch_one(connection)
        .await?)
}
