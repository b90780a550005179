//! The kinds of checks that only the gate decides.

pub mod action_report;
pub mod expression;
pub mod forge_state;
pub mod http_probe;

use surety_common::domain::fault::{Fault, FaultCode};

/// The retry delay after a shortage, in milliseconds.
const RETRY_AFTER_MS: u64 = 500;

/// Whether a check holds, else the stable reason.
pub type Answer = Result<(), &'static str>;

/// The gate is overloaded and could not decide a check. It reached no verdict, and the caller may
/// retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gate is overloaded and reached no verdict; retry")]
pub struct Shortage;

impl From<Shortage> for Fault {
    fn from(shortage: Shortage) -> Self {
        Self::new(FaultCode::Overloaded, shortage.to_string()).with_retry_after_ms(RETRY_AFTER_MS)
    }
}
