//! The journal: read in order from any number, never changed.

use super::StoreError;
use super::apply::Chain;
use super::artifact::patience;
use super::pool::{within, within_at_most};
use super::together::Together;
use crate::domain::journal::{
    Entry, Event, Output, StoredRow, VerdictRecord, Wanted, read_changes,
};
use crate::domain::receipt::EvidenceReceipt;
use chrono::{DateTime, Utc};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{FromRow, PgConnection, PgExecutor, PgPool, Postgres};
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

fn read_row(row: StoredRow<'_>, run_id: Uuid, wanted: Wanted) -> Result<Vec<Event>, StoreError> {
    let sequence = row.sequence;
    read_changes(row, wanted)
        .map_err(|error| StoreError::corrupt(format!("journal {run_id} at {sequence}"), error))
}

/// Part of a run's journal.
#[derive(Debug, Clone, Copy)]
struct Page {
    run_id: Uuid,
    /// The number from which on.
    from: i64,
    /// Rows of what was committed together, at most.
    rows: i64,
}

fn statement(pages: &[Page]) -> Query<'static, Postgres, PgArguments> {
    let run_ids: Vec<Uuid> = pages.iter().map(|page| page.run_id).collect();
    let from: Vec<i64> = pages.iter().map(|page| page.from).collect();
    let rows: Vec<i64> = pages.iter().map(|page| page.rows).collect();
    sqlx::query(include_str!("sql/events.sql")).bind(run_ids).bind(from).bind(rows)
}

fn read_page(page: Page, rows: &[PgRow], wanted: Wanted) -> Result<Vec<Event>, StoreError> {
    let mut events = Vec::new();
    for row in rows {
        events.append(&mut JournalRow::from_row(row)?.events(page.run_id, wanted)?);
    }
    events.retain(|event| event.sequence >= page.from);
    Ok(events)
}

/// The process's one reader of journals for those who follow them: all that is wanted at a time is
/// read in one statement. Cloning shares it.
#[derive(Clone)]
pub struct Journals(Together<Page>);

impl Journals {
    /// Starts the reader, on a connection of its own.
    pub fn start(pool: PgPool) -> Self {
        Self(Together::start(pool, statement))
    }

    /// As [`events`].
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn events(
        &self,
        run_id: Uuid,
        from: i64,
        rows: i64,
    ) -> Result<Vec<Event>, StoreError> {
        let page = Page { run_id, from, rows };
        read_page(page, &self.0.ask(page).await?, Wanted::Everything)
    }
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
    read(executor, Page { run_id, from, rows }, Wanted::Everything).await
}

async fn read(
    executor: impl PgExecutor<'_>,
    page: Page,
    wanted: Wanted,
) -> Result<Vec<Event>, StoreError> {
    let found = statement(&[page]).fetch_all(executor);
    read_page(page, &within(async { Ok(found.await?) }).await?, wanted)
}

/// Every receipt of a run, in order.
///
/// # Errors
/// [`StoreError`]
pub async fn receipts(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
) -> Result<Vec<EvidenceReceipt>, StoreError> {
    let events = read(executor, Page { run_id, from: 1, rows: i64::MAX }, Wanted::Receipts).await?;
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
