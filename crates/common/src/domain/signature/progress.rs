//! What is signed of a run's mutable row: its state, and the digest of what feeds a verdict or is shown of one and stands
//! in no receipt.

use super::merkle::Digest;
use crate::domain::json::sha256;
use crate::domain::machine::run::RunState;
use std::sync::LazyLock;

/// What a run's mutable row says behind a journal row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedState {
    /// The state, as the contract spells it.
    pub state: &'static str,
    /// The [`progress_digest`].
    pub progress: Digest,
}

/// The name of a state, and its letter in a signature's column.
const LETTERS: [(&str, u8); 9] = [
    (RunState::Intake.as_str(), b'i'),
    (RunState::Planning.as_str(), b'p'),
    (RunState::Executing.as_str(), b'e'),
    (RunState::Verifying.as_str(), b'v'),
    (RunState::Recovering.as_str(), b'r'),
    ("BLOCKED", b'b'),
    (RunState::Done.as_str(), b'd'),
    (RunState::Failed.as_str(), b'f'),
    (RunState::Cancelled.as_str(), b'c'),
];

/// The state with this name; none for another text.
pub(super) fn state_of(name: &str) -> Option<&'static str> {
    LETTERS.into_iter().map(|(known, _)| known).find(|known| *known == name)
}

pub(super) fn state_to_letter(name: &str) -> u8 {
    LETTERS.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, letter)| letter)
}

pub(super) fn state_of_letter(letter: u8) -> Option<&'static str> {
    LETTERS.into_iter().find(|(_, known)| *known == letter).map(|(name, _)| name)
}

/// Of a new run. Rows with it store no digest.
static INITIAL: LazyLock<Digest> = LazyLock::new(|| progress_digest(0, ["{}", "[]", "{}"]));

/// Of the number of the verification round, and of the todos, the grants and the rest as JSON. No part can hold a line
/// end, so none can pass for another.
pub fn progress_digest(round: u32, [todos, grants, rest]: [&str; 3]) -> Digest {
    let round = round.to_string();
    let parts = [&round, "\n", todos, "\n", grants, "\n", rest];
    sha256(&parts.map(str::as_bytes))
}

pub(super) fn initial() -> Digest {
    *INITIAL
}
