//! The outputs of tool calls, found by their call and read in parts.

use super::StoreError;
use super::artifact::{other_content, patience};
use super::journal::JournalRow;
use super::pages::Pages;
use super::pool::{within, within_at_most};
use crate::domain::journal::{Entry, Event, Output, Wanted};
use crate::domain::receipt::EvidenceSource;
use crate::domain::verification::{Sight, is_hidden_name};
use sqlx::PgPool;
use uuid::Uuid;

/// The rows that name a call: its intent, its receipt with its output, and then those of later calls about it.
const NAMING_ROWS: i64 = 8;

/// The output of a call of a run; none when the call put nothing out, or is none of the run.
///
/// # Errors
/// [`StoreError`]
pub async fn find_output(
    pool: &PgPool,
    run_id: Uuid,
    call_id: &str,
) -> Result<Option<Output>, StoreError> {
    let mut pages = Pages::new(pool.clone(), run_id, 0, i64::MAX);
    while let Some(rows) = pages.next().await? {
        for row in rows {
            let (events, _) = row.measured(run_id, Wanted::Outputs)?;
            let found = events.into_iter().filter_map(output_in);
            if let Some(output) = found.into_iter().find(|output| output.call_id == call_id) {
                return Ok(Some(output));
            }
        }
    }
    Ok(None)
}

/// The output of a call that a step of a run made; none for any other call, and for one that put nothing out.
///
/// # Errors
/// [`StoreError`]
pub async fn output_of_step(
    pool: &PgPool,
    run_id: Uuid,
    call_id: Uuid,
) -> Result<Option<Output>, StoreError> {
    let call_id = call_id.to_string();
    let found = sqlx::query_as(include_str!("sql/journal_naming.sql"))
        .bind(run_id)
        .bind(&call_id)
        .bind(NAMING_ROWS);
    let rows: Vec<JournalRow> = within(async { Ok(found.fetch_all(pool).await?) }).await?;
    let mut of_step = false;
    for row in rows {
        for event in row.measured(run_id, Wanted::Everything)?.0 {
            match event.entry {
                Entry::Receipt(receipt) if receipt.call_id == call_id => {
                    of_step = !receipt.step_id.is_empty()
                        && receipt.source != EvidenceSource::Probe
                        && !is_hidden_name(&receipt.name);
                }
                Entry::Output(output) if of_step && output.call_id == call_id => {
                    return Ok(Some(output));
                }
                Entry::Receipt(_)
                | Entry::Output(_)
                | Entry::Transition(_)
                | Entry::Plan(_)
                | Entry::Turn(_)
                | Entry::Intent(_)
                | Entry::Verdict(_)
                | Entry::Answer(_)
                | Entry::Forked(_) => {}
            }
        }
    }
    Ok(None)
}

/// Whether a call of a run was the command of a hidden check that a reader does not see whole.
///
/// # Errors
/// [`StoreError`]
pub async fn is_hidden_call(
    pool: &PgPool,
    run_id: Uuid,
    call_id: &str,
    sight: Sight,
) -> Result<bool, StoreError> {
    let mut pages = Pages::new(pool.clone(), run_id, 0, i64::MAX);
    while let Some(rows) = pages.next().await? {
        for row in rows {
            let (events, _) = row.measured(run_id, Wanted::Receipts)?;
            let is_it = |event: &Event| {
                matches!(&event.entry, Entry::Receipt(receipt)
                    if receipt.call_id == call_id && !sight.covers_receipt(receipt))
            };
            if events.iter().any(is_it) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn output_in(event: Event) -> Option<Output> {
    let Entry::Output(output) = event.entry else { return None };
    Some(output)
}

/// The bytes of an output from one place to another, some at a time.
pub struct OutputParts {
    pool: PgPool,
    output: Output,
    from: u64,
    until: u64,
    /// Whether what is kept was compared with its digest.
    is_compared: bool,
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPart {
    /// Where in the whole it begins.
    pub offset: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl OutputParts {
    /// The bytes from `offset` on, `length` at most; 0 is all of them.
    pub fn new(pool: PgPool, output: Output, offset: u64, length: u64) -> Self {
        let end = if length == 0 { u64::MAX } else { offset.saturating_add(length) };
        Self { pool, from: offset, until: end.min(output.bytes), output, is_compared: false }
    }

    /// The output they are of.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The next part of at most `most` bytes; none at the end. The first part of a kept output comes once the whole was
    /// compared with its digest.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn next(&mut self, most: u32) -> Result<Option<OutputPart>, StoreError> {
        if self.from >= self.until {
            return Ok(None);
        }
        let count = (self.until - self.from).min(most.into());
        let data = match &self.output.text {
            Some(text) => slice(text.as_bytes(), self.from, count),
            None => self.kept(count).await?,
        };
        let part = OutputPart { offset: self.from, data };
        self.from += count;
        Ok(Some(part))
    }

    async fn kept(&mut self, count: u64) -> Result<Vec<u8>, StoreError> {
        let place = |number: u64| {
            i32::try_from(number).map_err(|error| StoreError::corrupt("an output's length", error))
        };
        // Postgres counts from 1.
        let reading = sqlx::query_as(include_str!("sql/artifact_part.sql"))
            .bind(&self.output.digest)
            .bind(place(self.from + 1)?)
            .bind(place(count)?)
            .bind(!self.is_compared);
        let part: Option<(Vec<u8>, bool)> = within_at_most(patience(self.output.bytes), async {
            Ok(reading.fetch_optional(&self.pool).await?)
        })
        .await?;
        let (part, is_whole) =
            part.ok_or_else(|| StoreError::corrupt("an output", "its artifact is gone"))?;
        if !is_whole {
            return Err(other_content(&self.output.digest));
        }
        self.is_compared = true;
        Ok(part)
    }
}

fn slice(bytes: &[u8], from: u64, count: u64) -> Vec<u8> {
    let skip = usize::try_from(from).unwrap_or(usize::MAX);
    let take = usize::try_from(count).unwrap_or(usize::MAX);
    bytes.iter().copied().skip(skip).take(take).collect()
}
