//! The journal: read in order from any number, never changed.

use super::StoreError;
use super::apply::Chain;
use super::artifact::{compared, patience};
use super::pool::{within, within_at_most};
use super::stored_time::StoredTime;
use crate::domain::journal::{
    Actor, Entry, Event, Evidence, Extent, Output, StoredError, StoredRow, VerdictRecord, Wanted,
    read_changes, read_measured,
};
use crate::domain::json::sha256;
use crate::domain::signature::{Commit, CommitLine, ReceiptProof, RowSignature};
use chrono::{DateTime, Utc};
use sqlx::{FromRow, PgConnection, PgExecutor};
use uuid::Uuid;

/// The number of a run's latest verdicts that are read, above what its repairs and replans allow.
const MAX_VERDICTS: i64 = 100;

/// A row as it is stored.
#[derive(FromRow)]
pub(super) struct JournalRow {
    pub(super) sequence: i64,
    #[sqlx(try_from = "StoredTime")]
    at: DateTime<Utc>,
    actor: String,
    pub(super) entries: String,
    /// Read only where signatures are checked or exported.
    #[sqlx(default)]
    pub(super) signature: Option<Vec<u8>>,
}

impl JournalRow {
    pub(super) fn stored(&self) -> StoredRow<'_> {
        let Self { sequence, at, actor, entries, signature: _ } = self;
        StoredRow { sequence: *sequence, at: *at, actor, text: entries }
    }

    /// The requested events, and the bytes of text that they were read from.
    pub(super) fn measured(
        &self,
        run_id: Uuid,
        wanted: Wanted,
    ) -> Result<(Vec<Event>, usize), StoreError> {
        read_measured(self.stored(), wanted).map_err(|error| unread(run_id, self.sequence, error))
    }

    /// What signs each of its receipts, by their numbers; nothing where its signature is missing or does not fit it.
    pub(super) fn receipt_proofs(
        &self,
        run_id: Uuid,
    ) -> Result<Vec<(u64, ReceiptProof)>, StoreError> {
        let Some(column) = self.signature.as_deref() else { return Ok(Vec::new()) };
        let (mut evidence, mut extent) = (Evidence::default(), Extent::default());
        let seen = |_: StoredRow<'_>, of_row, _: &[_]| extent = of_row;
        let read = evidence.read_on([self.stored()], |_| true, seen);
        read.map_err(|error| unread(run_id, self.sequence, error))?;
        let read = RowSignature::of_row(column, extent.answers);
        let Some(signature) = read else { return Ok(Vec::new()) };
        let line = CommitLine {
            sequence: self.sequence,
            entries: extent.entries,
            at: self.at,
            actor: self.actor.clone(),
            entries_digest: sha256(&[self.entries.as_bytes()]),
            verdicts: extent.verdicts,
            answers: extent.answers,
            change: None,
        };
        let (line, uncounted_answers) = line.under(Some(&signature));
        let receipts = evidence.receipts.into_iter().map(Ok).collect();
        let signature = Some(signature);
        let commit = Commit { line, receipts, uncounted_answers, signature, unread: None };
        Ok(commit.receipt_proofs(&run_id.to_string()))
    }
}

fn unread(run_id: Uuid, sequence: i64, error: StoredError) -> StoreError {
    StoreError::corrupt(format!("journal {run_id} at {sequence}"), error)
}

/// The events in one row.
///
/// # Errors
/// [`StoreError::Corrupt`]
pub(super) fn read_row(
    row: StoredRow<'_>,
    run_id: Uuid,
    wanted: Wanted,
) -> Result<Vec<Event>, StoreError> {
    read_changes(row, wanted).map_err(|error| unread(run_id, row.sequence, error))
}

/// Events of a run from the number `from` on, in order, from at most `rows` journal rows.
///
/// # Errors
/// [`StoreError`]
pub async fn events(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    from: i64,
    rows: i64,
) -> Result<Vec<Event>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/events.sql")).bind(run_id).bind(from).bind(rows);
    let mut events = read(found.fetch_all(executor), run_id).await?;
    events.retain(|event| event.sequence >= from);
    Ok(events)
}

/// Decodes the events of rows.
async fn read(
    rows: impl Future<Output = Result<Vec<JournalRow>, sqlx::Error>>,
    run_id: Uuid,
) -> Result<Vec<Event>, StoreError> {
    let rows = within(async { Ok(rows.await?) }).await?;
    let mut events = Vec::new();
    for row in &rows {
        events.append(&mut read_row(row.stored(), run_id, Wanted::Everything)?);
    }
    Ok(events)
}

/// The verdict at a number of a run's journal, with its time.
///
/// # Errors
/// [`StoreError`]
pub async fn verdict(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    sequence: i64,
) -> Result<Option<(DateTime<Utc>, VerdictRecord)>, StoreError> {
    let events = events(executor, run_id, sequence, 1).await?;
    Ok(events.into_iter().find(|event| event.sequence == sequence).and_then(verdict_in))
}

/// The latest verdict about a plan revision among the last hundred rows that `by` wrote. `by` is
/// the gate, which writes only verdicts.
///
/// # Errors
/// [`StoreError`]
pub async fn verdict_about(
    executor: impl PgExecutor<'_>,
    run_id: Uuid,
    plan_revision: u32,
    by: &Actor,
) -> Result<Option<(DateTime<Utc>, VerdictRecord)>, StoreError> {
    let found = sqlx::query_as(include_str!("sql/written_by.sql"))
        .bind(run_id)
        .bind(by.0.as_ref())
        .bind(MAX_VERDICTS);
    let mut events = read(found.fetch_all(executor), run_id).await?;
    events.sort_unstable_by_key(|event| std::cmp::Reverse(event.sequence));
    let mut verdicts = events.into_iter().filter_map(verdict_in);
    Ok(verdicts.find(|(_, record)| record.plan_revision == plan_revision))
}

fn verdict_in(event: Event) -> Option<(DateTime<Utc>, VerdictRecord)> {
    let Entry::Verdict(record) = event.entry else { return None };
    Some((event.at, *record))
}

/// The full text of an output, from the journal or the artifacts; none when neither contains it.
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
    let body = compared(&output.digest, body)?;
    Ok(body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

/// Whether exactly these changes were stored: for a writer that lost its connection before the
/// answer. Changes without journal entries are recognized by their execution row, and only until
/// the next write.
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
