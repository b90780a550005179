//! The stored form of a journal row: changes, each with its time, its span and its entries. An
//! entry is an object whose only key names its kind. Empty fields are omitted. Numbers in a
//! driver's text keep their spelling.

mod call;
mod course;
mod error;
mod fields;
mod turn;

pub use error::StoredError;

use super::{Actor, Entry, Event, VerdictRecord};
use crate::domain::json::{self, ObjectText, write_list};
use crate::domain::receipt::read_stored;
use call::{read_intent, read_output, write_intent, write_output};
use chrono::{DateTime, TimeDelta, Utc};
use course::{
    read_answer, read_fork, read_plan, read_transition, read_verdict, write_answer, write_fork,
    write_plan, write_transition, write_verdict,
};
use fields::{Fields, missing};
use serde_json::value::RawValue;
use turn::{read_turn, write_turn};

/// One change before it becomes text; a row holds the changes that were committed together.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The time of the decision.
    pub at: DateTime<Utc>,
    /// The span of the decision.
    pub span_id: Option<&'a str>,
    /// The change's entries.
    pub entries: &'a [Entry],
}

/// The stored text of changes that `actor` committed together at `row_at`: a list of changes. Each
/// is a list of its time in microseconds after the row's, its span's id, and its entries. The actor
/// is stored once, beside the text.
pub fn write_changes(changes: &[Recorded<'_>], actor: &Actor, row_at: DateTime<Utc>) -> String {
    let mut out = String::with_capacity(1024 * changes.len());
    write_list(&mut out, changes, |out, change| {
        let after = (change.at - row_at).num_microseconds().unwrap_or_default();
        out.extend(["[", &after.to_string(), ",\"", change.span_id.unwrap_or_default(), "\""]);
        for entry in change.entries {
            out.push(',');
            write_entry(out, entry, actor);
        }
        out.push(']');
    });
    out
}

/// The kinds of entries that a reader requests; others are skipped without decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All of them.
    Everything,
    /// Receipts.
    Receipts,
    /// Turns.
    Turns,
    /// Turns and receipts.
    Work,
    /// Outputs.
    Outputs,
}

impl Wanted {
    fn covers(self, kind: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Receipts => kind == RECEIPT,
            Self::Turns => kind == TURN,
            Self::Outputs => kind == OUTPUT,
            Self::Work => kind == RECEIPT || kind == TURN,
        }
    }
}

pub(super) const RECEIPT: &str = "receipt";
pub(super) const TURN: &str = "turn";
pub(super) const VERDICT: &str = "verdict";
pub(super) const TRANSITION: &str = "transition";
pub(super) const ANSWER: &str = "answer";
const OUTPUT: &str = "output";

/// A row of the journal as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct StoredRow<'a> {
    /// The number of its last entry.
    pub sequence: i64,
    /// The time when it was written.
    pub at: DateTime<Utc>,
    /// The actor that wrote it.
    pub actor: &'a str,
    /// The output of [`write_changes`].
    pub text: &'a str,
}

/// Reads the requested events of a row.
///
/// # Errors
/// [`StoredError`] when the text has another format.
pub fn read_changes(row: StoredRow<'_>, wanted: Wanted) -> Result<Vec<Event>, StoredError> {
    read_measured(row, wanted).map(|(events, _)| events)
}

/// As [`read_changes`], with the bytes of text that the events were read from.
///
/// # Errors
/// [`StoredError`] when the text has another format.
pub fn read_measured(
    row: StoredRow<'_>,
    wanted: Wanted,
) -> Result<(Vec<Event>, usize), StoredError> {
    let changes: Vec<Vec<&RawValue>> =
        serde_json::from_str(row.text).map_err(|error| StoredError(error.to_string()))?;
    let actor = Actor(row.actor.into());
    let count: usize = changes.iter().map(|change| change.len().saturating_sub(2)).sum();
    let mut sequence = row.sequence.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
    let mut events = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let [after, span_id, entries @ ..] = &change[..] else {
            return Err(missing("a change's time or span"));
        };
        let after = after.get().parse().map_err(|_| missing("a change's time"))?;
        let at = row.at.checked_add_signed(TimeDelta::microseconds(after));
        let at = at.ok_or_else(|| missing("a change's time"))?;
        let span_id: String =
            serde_json::from_str(span_id.get()).map_err(|_| missing("a change's span"))?;
        let span_id = Some(span_id).filter(|id| !id.is_empty());
        for entry in entries {
            sequence = sequence.saturating_add(1);
            if wanted.covers(kind_of(entry.get())?) {
                bytes += entry.get().len();
                let entry = read_entry(entry.get(), &actor)?;
                events.push(Event { sequence, at, span_id: span_id.clone(), entry });
            }
        }
    }
    Ok((events, bytes))
}

/// The kind of a stored entry: the only key of its object.
pub(super) fn kind_of(entry: &str) -> Result<&str, StoredError> {
    let key = entry.strip_prefix("{\"").and_then(|rest| rest.split_once('"'));
    key.map(|(kind, _)| kind).ok_or_else(|| missing("an entry's kind"))
}

/// A verdict as JSON text, as it is stored and signed.
pub fn verdict_text(record: &VerdictRecord) -> String {
    let mut out = String::with_capacity(512);
    write_verdict(&mut out, record);
    out
}

/// Reads the output of [`verdict_text`].
///
/// # Errors
/// [`StoredError`] when the text has another format.
pub fn read_verdict_text(text: &str) -> Result<VerdictRecord, StoredError> {
    let parsed = json::parse_stored(text).map_err(|error| StoredError(error.to_string()))?;
    read_verdict(&Fields::of(&parsed.value)?)
}

fn write_entry(out: &mut String, entry: &Entry, actor: &Actor) {
    let object = ObjectText::begin(out);
    match entry {
        Entry::Transition(transition) => {
            object.with(TRANSITION, |out| write_transition(out, transition, actor))
        }
        Entry::Plan(plan) => object.with("plan", |out| write_plan(out, plan)),
        Entry::Turn(turn) => object.with(TURN, |out| write_turn(out, turn)),
        Entry::Intent(intent) => object.with("intent", |out| write_intent(out, intent)),
        Entry::Receipt(receipt) => object.with(RECEIPT, |out| receipt.write(out)),
        Entry::Output(output) => object.with(OUTPUT, |out| write_output(out, output)),
        Entry::Verdict(record) => object.with(VERDICT, |out| write_verdict(out, record)),
        Entry::Answer(answer) => object.with(ANSWER, |out| write_answer(out, answer)),
        Entry::Forked(fork) => object.with("forked", |out| write_fork(out, fork)),
    }
    .end();
}

pub(super) fn read_entry(text: &str, actor: &Actor) -> Result<Entry, StoredError> {
    let parsed = json::parse_stored(text).map_err(|error| StoredError(error.to_string()))?;
    let value = &parsed.value;
    let [(kind, body)] = value.as_object().ok_or_else(|| missing("an object"))? else {
        return Err(missing("one key"));
    };
    let body = Fields::of(body)?;
    Ok(match kind.as_str() {
        TRANSITION => Entry::Transition(read_transition(&body, actor)?),
        "plan" => Entry::Plan(read_plan(&body)?),
        TURN => Entry::Turn(Box::new(read_turn(&body)?)),
        "intent" => Entry::Intent(read_intent(&body)?),
        RECEIPT => Entry::Receipt(Box::new(
            read_stored(body.0).map_err(|error| StoredError(error.to_string()))?,
        )),
        OUTPUT => Entry::Output(read_output(&body)?),
        VERDICT => Entry::Verdict(Box::new(read_verdict(&body)?)),
        ANSWER => Entry::Answer(read_answer(&body)?),
        "forked" => Entry::Forked(Box::new(read_fork(&body)?)),
        other => return Err(StoredError(format!("the kind {other:?} is unknown"))),
    })
}
