//! The kinds of checks that only the gate knows.

pub mod expression;
pub mod http_probe;

use surety_common::domain::fault::{Fault, FaultCode};

/// After how long a call that met a shortage is worth another try.
const RETRY_AFTER_MS: u64 = 500;

/// The gate has no room for a check now: nothing is known about what it asks, and nothing may be
/// said about it. Whoever asked may ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gate has no room for one of the checks now; nothing was decided")]
pub struct Shortage;

impl From<Shortage> for Fault {
    fn from(shortage: Shortage) -> Self {
        Self::new(FaultCode::Overloaded, shortage.to_string()).with_retry_after_ms(RETRY_AFTER_MS)
    }
}
