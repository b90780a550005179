//! The signature of a journal row, as its column keeps it.
//!
//! ```text
//!   form 1 | key id 16 | signed at 8 | leaves 4 | first 4 | signature 64 | states 1 | flags 1 | plans 1
//!     | columns of the run 32 each, if flagged | columns of its task 32 each, if flagged | progress 32, if flagged
//!     | progress before 32, if flagged | (revision 4, columns 32 each) of each plan | nodes 32 each
//! ```
//!
//! The form is 6 where the row's line counts answers of persons, else 5.
//!
//! `states` has the state before in its upper four bits, 0 in the first row of a run, and the state behind in the lower ones.

use super::columns::{PlanColumns, RunColumns, SignedColumns, TaskColumns};
use super::envelope::{Envelope, instant, message_of, statement_text, write_subject};
use super::key::{KeyId, SIGNATURE_BYTES, SecretKey};
use super::merkle::{Digest, RangeProof, Tree};
use super::progress::{SignedState, StateChange, StateName, initial_progress};
use crate::domain::json::{ObjectText, write_list};
use chrono::{DateTime, Utc};
use data_encoding::HEXLOWER;

/// The predicate of a signed root.
pub(super) const ROOT: &str = "urn:surety:predicate:receipts-root:v1";
const VERSION: u8 = 5;
/// The same, of a row whose line counts its answers of persons. Of rows without such answers both would have the same leaf.
const WITH_ANSWERS: u8 = 6;
/// The last form that a later version may write: a column that begins with another byte was rewritten.
const LAST_VERSION: u8 = 31;
const HAS_RUN: u8 = 1;
/// The progress differs from that of a new run.
const HAS_PROGRESS: u8 = 2;
const HAS_TASK: u8 = 4;
/// The progress before is that of a new run, and the one behind is not.
const CHANGES_INITIAL: u8 = 8;
/// The progress before is neither the one behind nor that of a new run.
const CHANGES_PROGRESS: u8 = 16;

/// What signs the leaves of one journal row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSignature {
    /// The key.
    pub key_id: KeyId,
    /// When it signed.
    pub signed_at: DateTime<Utc>,
    /// Where the row's leaves are in the tree of the group commit.
    pub proof: RangeProof,
    /// The signature over the statement about the root.
    pub signature: [u8; SIGNATURE_BYTES],
    /// The columns that were stored with the row, as they were signed.
    pub columns: SignedColumns,
    /// What the row makes of the run's mutable row.
    pub change: StateChange,
    /// Whether the line that it covers counts answers of persons.
    pub counts_answers: bool,
}

/// The statement that is signed for a group commit.
pub fn root_statement(root: &Digest, leaf_count: u32, signed_at: DateTime<Utc>) -> String {
    let predicate = |out: &mut String| {
        ObjectText::begin(out)
            .number("leaf_count", leaf_count)
            .text("signed_at", &instant(signed_at))
            .end();
    };
    let root = HEXLOWER.encode(root);
    let subject = |out: &mut String| {
        write_list(out, [&root], |out, root| write_subject(out, "receipts", "sha256", root));
    };
    statement_text(ROOT, predicate, subject)
}

/// The leaves of one journal row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowLeaves {
    /// Their digests, in the order of an export.
    pub leaves: Vec<Digest>,
    /// The columns that are stored with the row.
    pub columns: SignedColumns,
    /// What the row makes of the run's mutable row; none for a row that is not stored.
    pub change: Option<StateChange>,
    /// Whether its line counts answers of persons.
    pub counts_answers: bool,
}

impl RowSignature {
    /// Signs the rows of one group commit with one signature. A row without leaves gets none.
    pub fn sign(
        key: &SecretKey,
        signed_at: DateTime<Utc>,
        rows: Vec<RowLeaves>,
    ) -> Vec<Option<Self>> {
        let all: Vec<Digest> = rows.iter().flat_map(|row| row.leaves.iter().copied()).collect();
        let leaf_count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let Some(tree) = Tree::over(&all) else { return rows.iter().map(|_| None).collect() };
        let (statement, key_id) = (root_statement(&tree.root(), leaf_count, signed_at), key.id());
        let signature = key.sign(&message_of(&statement));
        let mut from = 0;
        let signed = rows.into_iter().map(|row| {
            let RowLeaves { leaves, columns, change, counts_answers } = row;
            let (first, to) = (from, from + leaves.len());
            from = to;
            change.filter(|_| first < to).map(|change| Self {
                key_id,
                signed_at,
                proof: RangeProof {
                    leaf_count,
                    first: u32::try_from(first).unwrap_or(u32::MAX),
                    nodes: tree.prove(first, to),
                },
                signature,
                columns,
                change,
                counts_answers,
            })
        });
        signed.collect()
    }

    /// The signed statement in its envelope; none when the proof does not fit the leaves.
    pub fn envelope(&self, leaves: &[Digest]) -> Option<Envelope> {
        let root = self.proof.root(leaves)?;
        let payload = root_statement(&root, self.proof.leaf_count, self.signed_at);
        Some(Envelope { payload, key_id: self.key_id, signature: self.signature })
    }

    /// The column.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { key_id, signed_at, proof, signature, columns, change, counts_answers } = self;
        let SignedColumns { run, task, plans } = columns;
        let mut bytes = Vec::with_capacity(128 + 32 * proof.nodes.len());
        bytes.push(if *counts_answers { WITH_ANSWERS } else { VERSION });
        bytes.extend(key_id.0);
        bytes.extend(signed_at.timestamp_micros().to_be_bytes());
        bytes.extend(proof.leaf_count.to_be_bytes());
        bytes.extend(proof.first.to_be_bytes());
        bytes.extend(signature);
        let StateChange { before, after } = change;
        let state_before = before.map_or(0, |before| before.state.number());
        bytes.push(state_before << 4 | after.state.number());
        let progress = Some(after.progress).filter(|progress| *progress != initial_progress());
        let other = before.map(|before| before.progress).filter(|it| *it != after.progress);
        let is_from_initial = other == Some(initial_progress());
        let other = other.filter(|progress| *progress != initial_progress());
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        bytes.push(
            flag(run.is_some(), HAS_RUN)
                | flag(task.is_some(), HAS_TASK)
                | flag(progress.is_some(), HAS_PROGRESS)
                | flag(is_from_initial, CHANGES_INITIAL)
                | flag(other.is_some(), CHANGES_PROGRESS),
        );
        bytes.push(u8::try_from(plans.len()).unwrap_or(u8::MAX));
        run.iter().for_each(|run| bytes.extend(run.0.as_flattened()));
        task.iter().for_each(|task| bytes.extend(task.0.as_flattened()));
        progress.iter().chain(&other).for_each(|progress| bytes.extend(progress));
        for PlanColumns { revision, columns } in plans {
            bytes.extend(revision.to_be_bytes());
            bytes.extend(columns.as_flattened());
        }
        bytes.extend(proof.nodes.as_flattened());
        bytes
    }

    /// The form of a column that another version wrote, and whether that is a later one; none for any other column.
    pub(super) fn other_form(bytes: &[u8]) -> Option<(u8, bool)> {
        let form = bytes.first().copied().filter(|form| (1..=LAST_VERSION).contains(form))?;
        (!(VERSION..=WITH_ANSWERS).contains(&form)).then_some((form, form > WITH_ANSWERS))
    }

    /// Reads the column of a row with so many answers of persons; none for bytes that are not written for such a row.
    pub fn of_row(bytes: &[u8], answers: u32) -> Option<Self> {
        Self::from_bytes(bytes).filter(|read| answers > 0 || !read.counts_answers)
    }

    /// Reads the column; none for bytes that [`RowSignature::to_bytes`] does not write.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (form, mut rest) = bytes.split_first()?;
        let counts_answers = match *form {
            VERSION => false,
            WITH_ANSWERS => true,
            _ => return None,
        };
        let key_id = KeyId(take(&mut rest)?);
        let signed_at = DateTime::from_timestamp_micros(i64::from_be_bytes(take(&mut rest)?))?;
        let leaf_count = u32::from_be_bytes(take(&mut rest)?);
        let first = u32::from_be_bytes(take(&mut rest)?);
        let signature = take(&mut rest)?;
        let [states, flags, plan_count] = take(&mut rest)?;
        let has_run = flags & HAS_RUN != 0;
        let run = if has_run { Some(RunColumns(digests(&mut rest)?)) } else { None };
        let has_task = flags & HAS_TASK != 0;
        let task = if has_task { Some(TaskColumns(digests(&mut rest)?)) } else { None };
        let has_progress = flags & HAS_PROGRESS != 0;
        let progress = if has_progress { take(&mut rest)? } else { initial_progress() };
        let progress_before = match (flags & CHANGES_INITIAL != 0, flags & CHANGES_PROGRESS != 0) {
            (_, true) => take(&mut rest)?,
            (true, false) => initial_progress(),
            (false, false) => progress,
        };
        let mut plans = Vec::new();
        for _ in 0..plan_count {
            let revision = u32::from_be_bytes(take(&mut rest)?);
            plans.push(PlanColumns { revision, columns: digests(&mut rest)? });
        }
        let (nodes, odd) = rest.as_chunks::<32>();
        let proof = RangeProof { leaf_count, first, nodes: nodes.to_vec() };
        let after = SignedState { state: StateName::from_number(states & 0xf)?, progress };
        let before = match states >> 4 {
            0 => None,
            state => Some(SignedState {
                state: StateName::from_number(state)?,
                progress: progress_before,
            }),
        };
        let (change, columns) = (StateChange { before, after }, SignedColumns { run, task, plans });
        let read = Self { key_id, signed_at, proof, signature, columns, change, counts_answers };
        // Each signature has one form, so that no second one of the same row goes unnoticed.
        (odd.is_empty() && read.to_bytes() == bytes).then_some(read)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (found, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*found)
}

fn digests<const N: usize>(rest: &mut &[u8]) -> Option<[Digest; N]> {
    let mut all = [[0; 32]; N];
    for place in &mut all {
        *place = take(rest)?;
    }
    Some(all)
}
