//! The rows of entries in the history of a task, and what signs them.

use crate::domain::json::sha256;
use crate::domain::signature::{EntryLine, EntrySignature, KeyId, SignedEntry, links_digest};
use crate::domain::toolchain::{EntryKind, TaskEntry};
use crate::store::StoreError;
use crate::store::stored_time::StoredTime;
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    /// Grows with time, with gaps.
    pub sequence: i64,
    /// What it says.
    pub entry: TaskEntry,
    /// Addresses that show what was done.
    pub links: Vec<String>,
    /// The name of the output that the text is; empty for none.
    pub attachment: String,
}

/// The row of an entry, without what signs it.
#[derive(sqlx::FromRow)]
pub(super) struct Row {
    sequence: i64,
    pub(super) kind: String,
    pub(super) author: String,
    pub(super) body: String,
    pub(super) links: Vec<String>,
    pub(super) attachment: String,
    #[sqlx(try_from = "StoredTime")]
    pub(super) at: DateTime<Utc>,
}

impl Row {
    pub(super) fn into_entry(self, run_id: Uuid) -> Result<EntryRow, StoreError> {
        let Self { sequence, kind, author, body, links, attachment, at } = self;
        let what = || format!("entry {sequence} of task {run_id}");
        let kind = EntryKind::from_text(&kind).ok_or_else(|| StoreError::corrupt(what(), &kind))?;
        let entry = TaskEntry { kind, author, body, at };
        Ok(EntryRow { sequence, entry, links, attachment })
    }
}

/// An entry as it is stored, with what signs it.
#[derive(sqlx::FromRow)]
pub(super) struct JudgedRow {
    #[sqlx(flatten)]
    pub(super) row: Row,
    number: i32,
    previous: Option<Vec<u8>>,
    key_id: Option<Vec<u8>>,
    signature: Option<Vec<u8>>,
    signed_at: Option<StoredTime>,
}

impl JudgedRow {
    /// What is signed of it. Bytes that do not read give an entry that does not fit, so that a check names it.
    pub(super) fn signed(&self) -> SignedEntry {
        let Self { row, number, previous, key_id, signature, signed_at } = self;
        let line = EntryLine {
            number: u32::try_from(*number).unwrap_or_default(),
            at: row.at,
            kind: row.kind.clone(),
            author: row.author.clone(),
            body: sha256(&[row.body.as_bytes()]),
            links: links_digest(&row.links),
            attachment: row.attachment.clone(),
            previous: previous.as_ref().map(|it| it.as_slice().try_into().unwrap_or_default()),
        };
        let parts = (key_id.as_ref(), signature.as_ref(), *signed_at);
        let signature = match parts {
            (None, None, None) => None,
            (key_id, signature, signed_at) => Some(EntrySignature {
                key_id: KeyId(fixed(key_id)),
                signed_at: signed_at.map(StoredTime::nearest).unwrap_or_default(),
                signature: fixed(signature),
            }),
        };
        SignedEntry { line, signature }
    }

    /// The agent that the entry gives the task to.
    pub(super) fn assigned(&self) -> Option<&str> {
        let is_assignment = self.row.kind == EntryKind::Assignment.as_str();
        is_assignment.then_some(self.row.body.as_str())
    }
}

/// Bytes of a length that the column does not have are no key and no signature: zeros.
fn fixed<const N: usize>(bytes: Option<&Vec<u8>>) -> [u8; N] {
    bytes.and_then(|bytes| bytes.as_slice().try_into().ok()).unwrap_or([0; N])
}
