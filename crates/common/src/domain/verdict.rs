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

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The check's id, or its kind when it has no id.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// The contract's reason; empty when it holds.
    pub reason: String,
    /// Whether the verdict does not depend on it.
    pub optional: bool,
}
