//! The parts of an export's lines, as they are read.

use super::super::columns::digest;
use super::super::commit::read_count;
use super::super::envelope::Statement;
use super::super::merkle::Digest;
use super::super::report::StoredState;
use crate::domain::json::Value;
use chrono::{DateTime, Utc};
use data_encoding::HEXLOWER;

/// What stands in the place of a row's inclusion proof.
#[derive(Debug)]
pub(super) enum Proof {
    /// Nothing: the row has no signature.
    None,
    /// The index of the first leaf, the nodes, and the answers that the row's line does not count.
    Range(u32, Vec<Digest>, u32),
    /// The column of the signature, which does not read.
    Column(Vec<u8>),
}

/// What a signed root says of its tree.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) leaf_count: u32,
    pub(super) signed_at: DateTime<Utc>,
}

pub(super) fn read_state(value: &Value) -> Option<StoredState> {
    Some(StoredState {
        state: value.get("state")?.as_str()?.to_owned(),
        plan_revision: value.get("plan_revision")?.as_number()?.parse().ok()?,
        sequence: value.get("sequence")?.as_number()?.parse().ok()?,
        progress: digest(value.get("progress")?)?,
        history: None,
    })
}

pub(super) fn read_root(statement: &Statement) -> Option<Root> {
    let predicate = &statement.predicate;
    let at = predicate.get("signed_at")?.as_str()?;
    Some(Root {
        leaf_count: predicate.get("leaf_count")?.as_number()?.parse().ok()?,
        signed_at: DateTime::parse_from_rfc3339(at).ok()?.to_utc(),
    })
}

pub(super) fn read_proof(value: &Value) -> Result<Proof, String> {
    if *value == Value::Null {
        return Ok(Proof::None);
    }
    if let Some(column) = value
        .get("column")
        .and_then(Value::as_str)
        .and_then(|digits| HEXLOWER.decode(digits.as_bytes()).ok())
    {
        return Ok(Proof::Column(column));
    }
    let first = value.get("first").and_then(Value::as_number).and_then(|first| first.parse().ok());
    let nodes = value.get("nodes").and_then(Value::as_array);
    let nodes = nodes.and_then(|nodes| nodes.iter().map(digest).collect());
    let all = first.zip(nodes).zip(read_count(value, "answers"));
    all.map(|((first, nodes), answers)| Proof::Range(first, nodes, answers))
        .ok_or_else(|| "an inclusion proof does not read".to_owned())
}
