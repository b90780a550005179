//! The digest of what a run's mutable row says that feeds a verdict and stands in no receipt.

use super::merkle::Digest;
use crate::domain::json::sha256;
use std::sync::LazyLock;

/// Of a run without todos and grants, before its first verification round. Rows with it store no digest.
static INITIAL: LazyLock<Digest> = LazyLock::new(|| progress_digest(0, "{}", "[]"));

/// Of the number of the verification round, and of todos and grants as JSON. No part can hold a line end, so none can
/// pass for another.
pub fn progress_digest(round: u32, todos: &str, grants: &str) -> Digest {
    let round = round.to_string();
    sha256(&[round.as_bytes(), b"\n", todos.as_bytes(), b"\n", grants.as_bytes()])
}

pub(super) fn initial() -> Digest {
    *INITIAL
}
