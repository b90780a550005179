//! The leaves of a journal row: its receipts, the run or the plans that were stored with it, and the row itself.

use super::columns::{SignedColumns, digest};
use super::envelope::{instant, line_with, number, object, text};
use super::key::write_hex_text;
use super::merkle::{Digest, LEAF};
use super::progress::{SignedState, StateChange, StateName};
use super::row::{RowLeaves, RowSignature};
use crate::domain::json::{ObjectText, Value, sha256, write_string};
use crate::domain::receipt::EvidenceReceipt;
use chrono::{DateTime, Utc};
use data_encoding::HEXLOWER;

/// A journal row and what was stored with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// What the row itself says.
    pub line: CommitLine,
    /// Its receipts; an error replaces one that does not read.
    pub receipts: Vec<Result<EvidenceReceipt, String>>,
    /// How many answers of persons are among its entries that its line does not count.
    pub uncounted_answers: u32,
    /// Its signature; none for a row that was written without.
    pub signature: Option<RowSignature>,
    /// The column of the signature where it does not read; then `signature` is none.
    pub unread: Option<Vec<u8>>,
}

/// A journal row as it is checked: [`Commit`], without owning its parts.
#[derive(Debug, Clone)]
pub struct Row<'r> {
    /// What the row itself says.
    pub line: &'r CommitLine,
    /// Its receipts; an error replaces one that does not read.
    pub receipts: Vec<Result<&'r EvidenceReceipt, &'r str>>,
    /// How many answers of persons are among its entries that its line does not count.
    pub uncounted_answers: u32,
    /// Its signature; none for a row that was written without.
    pub signature: Option<&'r RowSignature>,
    /// The column of the signature where it does not read; then `signature` is none.
    pub unread: Option<&'r [u8]>,
}

impl Row<'_> {
    /// The leaves that its signature covers, in a run.
    pub(super) fn leaves_in(&self, run_id: &str) -> Vec<Digest> {
        let columns = self.signature.map(|signed| &signed.columns);
        leaves_of(run_id, self.receipts.iter().flatten().copied(), columns, self.line)
    }
}

/// What a journal row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitLine {
    /// The number of its last entry.
    pub sequence: i64,
    /// The number of its entries.
    pub entries: u32,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// What wrote it.
    pub actor: String,
    /// The SHA-256 of its entries.
    pub entries_digest: Digest,
    /// How many verdicts are among its entries.
    pub verdicts: u32,
    /// How many answers of persons are among its entries. Earlier versions did not count them in the line that they signed.
    pub answers: u32,
    /// What it makes of the run's mutable row; none for a row without a signature.
    pub change: Option<StateChange>,
}

impl CommitLine {
    /// The line as this signature covers it, and how many answers it does not count then.
    pub fn under(self, signature: Option<&RowSignature>) -> (Self, u32) {
        let change = signature.map(|signature| signature.change);
        if signature.is_none_or(|signature| signature.counts_answers) {
            return (Self { change, ..self }, 0);
        }
        (Self { change, answers: 0, ..self }, self.answers)
    }

    /// The canonical line of an export.
    pub fn to_line(&self) -> String {
        line_with("commit", |out| self.write(out))
    }

    /// In the order of the canonical form.
    fn write(&self, out: &mut String) {
        let Self { sequence, entries, at, actor, entries_digest, verdicts, answers, change } = self;
        let (before, after) = change.map_or((None, None), |it| (it.before, Some(it.after)));
        let mut line = ObjectText::begin(out).with("actor", |out| write_string(actor, out));
        if *answers > 0 {
            line = line.number("answers", answers);
        }
        line = line.text("at", &instant(*at));
        if let Some(before) = before {
            line = line.with("before", |out| {
                with_state(with_progress(ObjectText::begin(out), before), before).end();
            });
        }
        line = line
            .number("entries", entries)
            .with("entries_digest", |out| write_hex_text(out, entries_digest));
        if let Some(after) = after {
            line = with_progress(line, after);
        }
        line = line.number("sequence", sequence);
        if let Some(after) = after {
            line = with_state(line, after);
        }
        line.number("verdicts", verdicts).end();
    }

    /// Reads the value of the key `commit`.
    pub fn read(value: &Value) -> Option<Self> {
        let at = value.get("at")?.as_str()?;
        Some(Self {
            sequence: value.get("sequence")?.as_number()?.parse().ok()?,
            entries: value.get("entries")?.as_number()?.parse().ok()?,
            at: DateTime::parse_from_rfc3339(at).ok()?.to_utc(),
            actor: value.get("actor")?.as_str()?.to_owned(),
            entries_digest: digest(value.get("entries_digest")?)?,
            verdicts: value.get("verdicts")?.as_number()?.parse().ok()?,
            answers: read_count(value, "answers")?,
            change: match (value.get("before"), value.get("progress"), value.get("state")) {
                (None, None, None) => None,
                (before, _, _) => {
                    let before = match before {
                        Some(before) => Some(read_state(before)?),
                        None => None,
                    };
                    Some(StateChange { before, after: read_state(value)? })
                }
            },
        })
    }
}

/// A number that is left out where it is 0.
pub(super) fn read_count(value: &Value, name: &str) -> Option<u32> {
    match value.get(name) {
        Some(count) => count.as_number()?.parse().ok(),
        None => Some(0),
    }
}

fn with_progress<'o>(object: ObjectText<'o>, of: SignedState) -> ObjectText<'o> {
    object.with("progress", |out| write_hex_text(out, &of.progress))
}

fn with_state<'o>(object: ObjectText<'o>, of: SignedState) -> ObjectText<'o> {
    object.text("state", of.state.as_str())
}

fn read_state(value: &Value) -> Option<SignedState> {
    let state = StateName::from_text(value.get("state")?.as_str()?)?;
    Some(SignedState { state, progress: digest(value.get("progress")?)? })
}

/// The leaf of a receipt of a run.
pub(super) fn receipt_leaf(run_id: &str, seq: u64, digest: &str) -> Digest {
    let seq = seq.to_string();
    sha256(&[LEAF, run_id.as_bytes(), b"\n", seq.as_bytes(), b"\n", digest.as_bytes()])
}

/// The leaf of any other line of an export.
pub(super) fn line_leaf(run_id: &str, line: &str) -> Digest {
    sha256(&[LEAF, run_id.as_bytes(), b"\n", line.as_bytes()])
}

/// The leaves of a row, in the order in which an export has them.
fn leaves_of<'r>(
    run_id: &str,
    receipts: impl IntoIterator<Item = &'r EvidenceReceipt>,
    columns: Option<&SignedColumns>,
    line: &CommitLine,
) -> Vec<Digest> {
    let receipts = receipts.into_iter();
    let receipts = receipts.map(|receipt| receipt_leaf(run_id, receipt.seq, &receipt.digest));
    let mut leaves: Vec<Digest> = receipts.collect();
    let columns = columns.into_iter().flat_map(SignedColumns::to_lines);
    leaves.extend(columns.map(|line| line_leaf(run_id, &line)));
    leaves.push(line_leaf(run_id, &line.to_line()));
    leaves
}

impl RowLeaves {
    /// The leaves of a row that is stored with these columns.
    pub fn of<'r>(
        run_id: &str,
        receipts: impl IntoIterator<Item = &'r EvidenceReceipt>,
        columns: SignedColumns,
        line: &CommitLine,
    ) -> Self {
        let leaves = leaves_of(run_id, receipts, Some(&columns), line);
        Self { leaves, columns, change: line.change, counts_answers: line.answers > 0 }
    }
}

impl Commit {
    /// The row, without owning its parts.
    pub fn as_row(&self) -> Row<'_> {
        let receipts = self.receipts.iter();
        let receipts = receipts.map(|receipt| receipt.as_ref().map_err(String::as_str));
        let (signature, unread) = (self.signature.as_ref(), self.unread.as_deref());
        let (line, receipts) = (&self.line, receipts.collect());
        Row { line, receipts, uncounted_answers: self.uncounted_answers, signature, unread }
    }

    /// The lines of an export, in their order.
    pub fn to_lines(&self, run_id: &str) -> Vec<String> {
        let mut lines = Vec::with_capacity(self.receipts.len() + 4);
        match &self.signature {
            Some(signature) => {
                let leaves = self.as_row().leaves_in(run_id);
                // A proof that does not fit its leaves has no root: the line that follows shows it.
                lines.extend(signature.envelope(&leaves).map(|envelope| envelope.to_line()));
                let nodes = signature.proof.nodes.iter().map(|node| text(HEXLOWER.encode(node)));
                let (first, nodes) = (number(signature.proof.first), Value::Array(nodes.collect()));
                let proof = match self.uncounted_answers {
                    0 => object([("first", first), ("nodes", nodes)]),
                    answers => {
                        object([("answers", number(answers)), ("first", first), ("nodes", nodes)])
                    }
                };
                lines.push(object([("proof", proof)]).to_canonical());
            }
            None => {
                let column = self.unread.as_ref().map(|bytes| text(HEXLOWER.encode(bytes)));
                let proof = column.map(|column| object([("column", column)]));
                lines.push(object([("proof", proof.unwrap_or(Value::Null))]).to_canonical());
            }
        }
        lines.extend(self.receipts.iter().flatten().map(EvidenceReceipt::to_text));
        lines.extend(self.signature.iter().flat_map(|signed| signed.columns.to_lines()));
        lines.push(self.line.to_line());
        lines
    }
}
