//! The evidence for a verdict. A journal consists mostly of turns, of which only the last one
//! counts, so the others are skipped without decoding.

use super::stored::{
    ANSWER, RECEIPT, StoredError, StoredRow, TRANSITION, TURN, VERDICT, kind_of, read_entry,
};
use super::{Actor, Entry, JournaledSteps, Turn};
use crate::domain::receipt::EvidenceReceipt;
use serde_json::value::RawValue;

/// The parts of a journal that the gate uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// Every receipt, in order.
    pub receipts: Vec<EvidenceReceipt>,
    /// The last turn of the requested kind.
    pub last_turn: Option<Turn>,
    /// The last transition of each step; none where it is not asked for.
    pub steps: Option<JournaledSteps>,
}

impl Evidence {
    /// Evidence whose rows are compared with their signatures: the transitions of steps are read too.
    pub fn with_steps() -> Self {
        Self { steps: Some(JournaledSteps::default()), ..Self::default() }
    }

    /// Reads the receipts of more rows, and the last of their turns that is `wanted`. Shows each row to
    /// `seen` with its receipts. Returns the bytes of text that the receipts were read from.
    ///
    /// # Errors
    /// [`StoredError`] with the row when a text has another format.
    pub fn read_on<'a>(
        &mut self,
        rows: impl IntoIterator<Item = StoredRow<'a>>,
        wanted: impl Fn(&Turn) -> bool,
        mut seen: impl FnMut(StoredRow<'a>, Extent, &[EvidenceReceipt]),
    ) -> Result<usize, StoredError> {
        let mut bytes = 0;
        let mut turns = Vec::new();
        for row in rows {
            let before = self.receipts.len();
            let (read, extent) =
                read_row(row, self, &mut turns).map_err(|error| error.at(row.sequence))?;
            bytes += read;
            seen(row, extent, self.receipts.get(before..).unwrap_or_default());
        }
        while let Some((sequence, text)) = turns.pop() {
            let read = read(text).map_err(|error| error.at(sequence))?;
            let Entry::Turn(turn) = read else { return Err(unexpected(text).at(sequence)) };
            if wanted(&turn) {
                self.last_turn = Some(*turn);
                break;
            }
        }
        Ok(bytes)
    }
}

/// What a row holds besides its receipts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The number of its entries.
    pub entries: u32,
    /// How many of them are verdicts.
    pub verdicts: u32,
    /// How many of them are answers of persons.
    pub answers: u32,
}

/// Reads the receipts of a row, and its steps where they are asked for. Keeps the text of its turns with the row's
/// number.
fn read_row<'a>(
    row: StoredRow<'a>,
    evidence: &mut Evidence,
    turns: &mut Vec<(i64, &'a str)>,
) -> Result<(usize, Extent), StoredError> {
    let changes: Vec<Vec<&'a RawValue>> =
        serde_json::from_str(row.text).map_err(|error| StoredError(error.to_string()))?;
    let (mut bytes, mut extent) = (0, Extent::default());
    // A change begins with its time and its span; its entries follow.
    for entry in changes.into_iter().flat_map(|change| change.into_iter().skip(2)) {
        extent.entries = extent.entries.saturating_add(1);
        match kind_of(entry.get())? {
            RECEIPT => {
                let read = read(entry.get())?;
                let Entry::Receipt(receipt) = read else { return Err(unexpected(entry.get())) };
                bytes += entry.get().len();
                evidence.receipts.push(*receipt);
            }
            TURN => turns.push((row.sequence, entry.get())),
            TRANSITION => {
                if let Some(steps) = &mut evidence.steps {
                    steps.read(entry.get())?;
                }
            }
            ANSWER => {
                let read = read(entry.get())?;
                let Entry::Answer(answer) = read else { return Err(unexpected(entry.get())) };
                extent.answers = extent.answers.saturating_add(answer.is_of_a_person().into());
            }
            VERDICT => extent.verdicts = extent.verdicts.saturating_add(1),
            _ => {}
        }
    }
    Ok((bytes, extent))
}

/// Neither kind of entry names its author.
fn read(entry: &str) -> Result<Entry, StoredError> {
    read_entry(entry, &Actor("".into()))
}

fn unexpected(entry: &str) -> StoredError {
    StoredError(format!("an entry does not match its key: {entry}"))
}
