//! A journal of any size, read in pages.

use super::StoreError;
use super::journal::JournalRow;
use super::pool::within;
use crate::domain::journal::{Entry, Event, Wanted};
use crate::domain::receipt::EvidenceReceipt;
use crate::domain::signature::ReceiptProof;
use sqlx::PgPool;
use std::collections::BTreeMap;
use uuid::Uuid;

/// The most rows in a page.
const PAGE_ROWS: usize = 1000;
/// The size of a page in bytes, after which at most one row follows.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The most stored text of a run that one call may hold, in bytes.
pub(super) const MAX_HELD: usize = 128 * 1024 * 1024;

/// The pages of a journal between two numbers, in order.
pub(super) struct Pages {
    pool: PgPool,
    run_id: Uuid,
    /// The number after which the next page begins.
    after: i64,
    /// The last requested number.
    until: i64,
}

impl Pages {
    pub(super) fn new(pool: PgPool, run_id: Uuid, after: i64, until: i64) -> Self {
        Self { pool, run_id, after, until }
    }

    /// The next page; none at the end.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(super) async fn next(&mut self) -> Result<Option<Vec<JournalRow>>, StoreError> {
        if self.after >= self.until {
            return Ok(None);
        }
        let page = sqlx::query_as(include_str!("sql/journal_page.sql"))
            .bind(self.run_id)
            .bind(self.after)
            .bind(self.until)
            .bind(count(PAGE_ROWS))
            .bind(count(PAGE_BYTES));
        // On the heap: most journals are read as a whole before, and their futures stay small.
        let reading = Box::pin(within(async { Ok(page.fetch_all(&self.pool).await?) }));
        let rows: Vec<JournalRow> = reading.await?;
        self.after = match rows.last() {
            Some(last) if is_full(&rows) => last.sequence,
            Some(_) | None => self.until,
        };
        Ok(Some(rows).filter(|rows| !rows.is_empty()))
    }
}

/// Whether the journal may hold more after these rows.
fn is_full(rows: &[JournalRow]) -> bool {
    let bytes: usize = rows.iter().map(|row| row.entries.len()).sum();
    rows.len() >= PAGE_ROWS || bytes > PAGE_BYTES
}

pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The receipts of a run in the order of their chain, page by page.
pub struct ReceiptPages(Pages);

impl ReceiptPages {
    /// The receipts in the journal up to the number `until`.
    pub fn new(pool: PgPool, run_id: Uuid, until: i64) -> Self {
        Self(Pages::new(pool, run_id, 0, until))
    }

    /// The next receipts, perhaps an empty page; none at the end.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn next(&mut self) -> Result<Option<Vec<EvidenceReceipt>>, StoreError> {
        let page = self.next_measured().await?;
        Ok(page.map(|(receipts, _)| receipts))
    }

    async fn next_measured(&mut self) -> Result<Option<(Vec<EvidenceReceipt>, usize)>, StoreError> {
        let Some(rows) = self.0.next().await? else { return Ok(None) };
        let (mut receipts, mut bytes) = (Vec::new(), 0);
        for row in rows {
            let (events, read) = row.measured(self.0.run_id, Wanted::Receipts)?;
            receipts.extend(events.into_iter().filter_map(receipt_in));
            bytes += read;
        }
        Ok(Some((receipts, bytes)))
    }
}

/// A page of what a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkPage {
    /// What was wanted, in the order of the journal.
    pub events: Vec<Event>,
    /// The number after which the next page begins; none at the end.
    pub next: Option<i64>,
    /// What signs the receipts among them, by their numbers.
    pub proofs: ReceiptProofs,
}

/// Proofs of receipts, by the numbers of the receipts.
pub type ReceiptProofs = BTreeMap<u64, ReceiptProof>;

/// Pages of the journal that are read for one page of what is wanted.
const READ_FOR_ONE: usize = 64;

/// What is wanted of a run's journal after a number: at most `most` events, of some MiB.
///
/// # Errors
/// [`StoreError`]
pub async fn work_page(
    pool: &PgPool,
    run_id: Uuid,
    after: i64,
    wanted: Wanted,
    most: usize,
) -> Result<WorkPage, StoreError> {
    let mut pages = Pages::new(pool.clone(), run_id, after, i64::MAX);
    let (mut events, mut bytes, mut read) = (Vec::new(), 0, 0);
    let mut proofs = ReceiptProofs::new();
    while let Some(rows) = pages.next().await? {
        for row in rows {
            let (found, size) = row.measured(run_id, wanted)?;
            if found.iter().any(|event| matches!(event.entry, Entry::Receipt(_))) {
                proofs.extend(row.receipt_proofs(run_id)?);
            }
            bytes += size;
            for event in found.into_iter().filter(|event| event.sequence > after) {
                if events.len() == most {
                    return Ok(after_last(events, proofs));
                }
                events.push(event);
            }
            if bytes > PAGE_BYTES {
                return Ok(WorkPage { events, next: Some(row.sequence), proofs });
            }
        }
        read += 1;
        if read == READ_FOR_ONE {
            return Ok(WorkPage { events, next: Some(pages.after), proofs });
        }
    }
    Ok(WorkPage { events, next: None, proofs })
}

fn after_last(events: Vec<Event>, proofs: ReceiptProofs) -> WorkPage {
    let next = events.last().map(|event| event.sequence);
    WorkPage { events, next, proofs }
}

fn receipt_in(event: Event) -> Option<EvidenceReceipt> {
    let Entry::Receipt(receipt) = event.entry else { return None };
    Some(*receipt)
}

/// Every receipt of a run, in order.
///
/// # Errors
/// [`StoreError`]; [`StoreError::TooLarge`] when they take more than 128 MiB.
pub async fn receipts(pool: &PgPool, run_id: Uuid) -> Result<Vec<EvidenceReceipt>, StoreError> {
    let mut pages = ReceiptPages::new(pool.clone(), run_id, i64::MAX);
    let (mut receipts, mut bytes) = (Vec::new(), 0);
    while let Some((mut page, read)) = pages.next_measured().await? {
        receipts.append(&mut page);
        bytes += read;
        if bytes > MAX_HELD {
            return Err(StoreError::TooLarge {
                what: format!("the size of the receipts of run {run_id}"),
                limit: MAX_HELD,
                instead: "ExportReceipts streams them, and what it streams can be checked",
            });
        }
    }
    Ok(receipts)
}

/// The latest turns and receipts of a run in the order of the journal, at most `most` of each.
///
/// # Errors
/// [`StoreError`]; [`StoreError::TooLarge`] when they take more than 128 MiB.
pub async fn latest_work(
    pool: &PgPool,
    run_id: Uuid,
    most: usize,
) -> Result<Vec<Event>, StoreError> {
    let mut latest = Latest { most, turns: 0, receipts: 0, bytes: 0, events: Vec::new() };
    let mut before = i64::MAX;
    loop {
        let page = sqlx::query_as(include_str!("sql/journal_page_back.sql"))
            .bind(run_id)
            .bind(before)
            .bind(count(PAGE_ROWS))
            .bind(count(PAGE_BYTES));
        let rows: Vec<JournalRow> = within(async { Ok(page.fetch_all(pool).await?) }).await?;
        for row in &rows {
            latest.take(row, run_id)?;
        }
        match rows.last() {
            Some(last) if is_full(&rows) && !latest.is_complete() => before = last.sequence,
            Some(_) | None => break,
        }
    }
    latest.events.reverse();
    Ok(latest.events)
}

/// The most rows and bytes of a page that is read backwards for a step.
const STEP_ROWS: usize = 64;
const STEP_BYTES: usize = 256 * 1024;
/// The most of these pages that one call reads.
const STEP_PAGES: usize = 64;

/// The latest events of a run in the order of the journal, read backwards until `is_complete` says so of what was
/// read, the latest first. It ends at the beginning of the journal, and after some MiB.
///
/// # Errors
/// [`StoreError`]
pub async fn latest_events(
    pool: &PgPool,
    run_id: Uuid,
    is_complete: impl Fn(&[Event]) -> bool + Send,
) -> Result<Vec<Event>, StoreError> {
    let (mut events, mut before) = (Vec::new(), i64::MAX);
    for _ in 0..STEP_PAGES {
        let page = sqlx::query_as(include_str!("sql/journal_page_back.sql"))
            .bind(run_id)
            .bind(before)
            .bind(count(STEP_ROWS))
            .bind(count(STEP_BYTES));
        let rows: Vec<JournalRow> = within(async { Ok(page.fetch_all(pool).await?) }).await?;
        for row in &rows {
            let (found, _) = row.measured(run_id, Wanted::Everything)?;
            events.extend(found.into_iter().rev());
        }
        match rows.last() {
            Some(last) if last.sequence > 1 && !is_complete(&events) => before = last.sequence,
            Some(_) | None => break,
        }
    }
    events.reverse();
    Ok(events)
}

/// The events found so far, read backwards from the end of a journal.
struct Latest {
    most: usize,
    turns: usize,
    receipts: usize,
    bytes: usize,
    /// The latest first.
    events: Vec<Event>,
}

impl Latest {
    fn is_complete(&self) -> bool {
        self.turns == self.most && self.receipts == self.most
    }

    /// Takes the events of an earlier row that are still requested.
    fn take(&mut self, row: &JournalRow, run_id: Uuid) -> Result<(), StoreError> {
        if self.is_complete() {
            return Ok(());
        }
        let (events, bytes) = row.measured(run_id, Wanted::Work)?;
        let found = self.events.len();
        for event in events.into_iter().rev() {
            let counted = match &event.entry {
                Entry::Turn(_) => &mut self.turns,
                Entry::Receipt(_) => &mut self.receipts,
                Entry::Transition(_)
                | Entry::Plan(_)
                | Entry::Intent(_)
                | Entry::Output(_)
                | Entry::Verdict(_)
                | Entry::Answer(_)
                | Entry::Forked(_) => continue,
            };
            if *counted < self.most {
                *counted += 1;
                self.events.push(event);
            }
        }
        if self.events.len() > found {
            self.bytes += bytes;
        }
        if self.bytes > MAX_HELD {
            return Err(StoreError::TooLarge {
                what: format!("the size of the latest turns and receipts of run {run_id}"),
                limit: MAX_HELD,
                instead: "WatchRun streams them, and everything else that happened",
            });
        }
        Ok(())
    }
}
