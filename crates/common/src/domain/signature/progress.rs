//! What is signed of a run's mutable row: its state, and the digest of what feeds a verdict or is shown of one and stands
//! in no receipt.

use super::merkle::Digest;
use crate::domain::json::sha256;
use crate::domain::machine::run::{Phase, RunState};
use std::sync::LazyLock;

/// The state of a run without the phase of a blocked one, as it is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateName(RunState);

impl From<RunState> for StateName {
    fn from(state: RunState) -> Self {
        Self(match state.blocked_in() {
            Some(_) => RunState::Blocked(Phase::Intake),
            None => state,
        })
    }
}

impl StateName {
    /// The state, as the contract spells it.
    pub const fn as_str(self) -> &'static str {
        self.0.as_str()
    }

    /// The state with this name; none for another text.
    pub(super) fn from_text(name: &str) -> Option<Self> {
        let known = RunState::ALL.into_iter().find(|known| known.as_str() == name);
        known.map(Self::from)
    }

    /// Its number in a signature's column, from 1; four bits have room for it.
    pub(super) const fn number(self) -> u8 {
        match self.0 {
            RunState::Intake => 1,
            RunState::Planning => 2,
            RunState::Executing => 3,
            RunState::Verifying => 4,
            RunState::Recovering => 5,
            RunState::Blocked(_) => 6,
            RunState::Done => 7,
            RunState::Failed => 8,
            RunState::Cancelled => 9,
        }
    }

    /// The state with this number; none for another one.
    pub(super) fn from_number(number: u8) -> Option<Self> {
        RunState::ALL.into_iter().map(Self::from).find(|known| known.number() == number)
    }
}

/// What a run's mutable row says before or behind a journal row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedState {
    /// The state.
    pub state: StateName,
    /// The [`progress_digest`].
    pub progress: Digest,
}

/// What a journal row makes of the run's mutable row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// The row as its writer found it; none for a new run. A verifier compares it with what the journal row before left, so
    /// that a rewritten row is named also where a service went on from it.
    pub before: Option<SignedState>,
    /// The row behind the journal row.
    pub after: SignedState,
}

/// Rows with it store no digest.
static INITIAL: LazyLock<Digest> = LazyLock::new(|| progress_digest(0, ["{}", "[]", "{}"]));

/// Of the number of the verification round, and of the todos, the grants and the rest as JSON. No part can hold a line
/// end, so none can pass for another.
pub fn progress_digest(round: u32, [todos, grants, rest]: [&str; 3]) -> Digest {
    let round = round.to_string();
    let parts = [&round, "\n", todos, "\n", grants, "\n", rest];
    sha256(&parts.map(str::as_bytes))
}

/// The [`progress_digest`] of a new run.
pub fn initial_progress() -> Digest {
    *INITIAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_state_has_a_number_of_its_own_and_is_read_from_it() {
        for state in RunState::ALL {
            let name = StateName::from(state);
            assert_eq!(name.as_str(), state.as_str());
            assert_eq!(StateName::from_number(name.number()), Some(name));
            assert_eq!(StateName::from_text(state.as_str()), Some(name));
        }
        let numbers: BTreeSet<u8> =
            RunState::ALL.into_iter().map(|state| StateName::from(state).number()).collect();
        assert_eq!(numbers.len(), 9, "the phases of BLOCKED share a number");
        assert!(numbers.iter().all(|number| *number < 16), "two numbers share a byte");
        assert_eq!((StateName::from_number(0), StateName::from_text("")), (None, None));
    }
}
