//! What a verdict is made from. A journal is mostly turns, and of those one counts, so the others
//! are passed over without being read.

use super::stored::{RECEIPT, StoredError, StoredRow, TURN, kind_of, read_entry};
use super::{Actor, Entry, Turn};
use crate::domain::receipt::EvidenceReceipt;
use serde_json::value::RawValue;

/// What a journal says to a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Every receipt, in order.
    pub receipts: Vec<EvidenceReceipt>,
    /// The last turn of the wanted kind.
    pub last_turn: Option<Turn>,
}

/// Reads the receipts of a whole journal and the last of its turns that is `wanted`.
///
/// # Errors
/// [`StoredError`] when a text was written by something else; it names the row.
pub fn read_evidence<'a>(
    rows: impl IntoIterator<Item = StoredRow<'a>>,
    wanted: impl Fn(&Turn) -> bool,
) -> Result<Evidence, StoredError> {
    let mut receipts = Vec::new();
    let mut turns = Vec::new();
    for row in rows {
        read_row(row, &mut receipts, &mut turns).map_err(|error| error.at(row.sequence))?;
    }
    let mut last_turn = None;
    while let Some((sequence, text)) = turns.pop().filter(|_| last_turn.is_none()) {
        let read = read(text).map_err(|error| error.at(sequence))?;
        let Entry::Turn(turn) = read else { return Err(unexpected(text).at(sequence)) };
        last_turn = Some(*turn).filter(&wanted);
    }
    Ok(Evidence { receipts, last_turn })
}

/// Reads the receipts of a row, and keeps the text of its turns with the row's number.
fn read_row<'a>(
    row: StoredRow<'a>,
    receipts: &mut Vec<EvidenceReceipt>,
    turns: &mut Vec<(i64, &'a str)>,
) -> Result<(), StoredError> {
    let changes: Vec<Vec<&'a RawValue>> =
        serde_json::from_str(row.text).map_err(|error| StoredError(error.to_string()))?;
    // Before its entries each change has its time and its span.
    for entry in changes.into_iter().flat_map(|change| change.into_iter().skip(2)) {
        match kind_of(entry.get())? {
            RECEIPT => {
                let read = read(entry.get())?;
                let Entry::Receipt(receipt) = read else { return Err(unexpected(entry.get())) };
                receipts.push(*receipt);
            }
            TURN => turns.push((row.sequence, entry.get())),
            _ => {}
        }
    }
    Ok(())
}

/// Neither kind says who wrote it.
fn read(entry: &str) -> Result<Entry, StoredError> {
    read_entry(entry, &Actor("".into()))
}

fn unexpected(entry: &str) -> StoredError {
    StoredError(format!("an entry is not what its key says: {entry}"))
}
