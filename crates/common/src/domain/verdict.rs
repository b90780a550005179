//! A verdict: the gate's answer for one plan revision.

use crate::domain::stop::StopReason;

/// Accepted or not, with every result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every required result passed.
    pub accepted: bool,
    /// `accepted`, or the reason of the highest precedence.
    pub stop_reason: StopReason,
    /// `system.todo_failed`, `system.todo_unconverged`, then each check in the plan's order.
    pub results: Vec<CheckResult>,
}

/// What became of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The check's id, or its kind where it has none.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// The contract's reason when it did not; empty when it did.
    pub reason: String,
    /// Whether it is recorded only and decides nothing.
    pub optional: bool,
}
