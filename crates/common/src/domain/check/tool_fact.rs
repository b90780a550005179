//! `tool_fact`: the last verification by a tool, or of a scope, passed.

use super::{AcceptCheck, Evidence, Reason};
use crate::domain::receipt::Fact;

pub(super) fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let tool = check.params.get("tool");
    let scope = check.params.get("scope").unwrap_or(&check.target);
    let mut matching = evidence.facts().rev().filter_map(|(origin, fact)| match fact {
        Fact::Verification { tool: by, scope: of, passed }
            if tool.is_none_or(|tool| same_in_any_case(tool, by))
                && (scope.is_empty() || scope == of) =>
        {
            Some(origin.proves && *passed)
        }
        Fact::Verification { .. }
        | Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Command { .. }
        | Fact::Content { .. }
        | Fact::Output { .. }
        | Fact::Tests { .. } => None,
    });
    match matching.next() {
        Some(true) => Ok(()),
        Some(false) if matching.any(|passed| passed) => Err(Reason::FactFailedLater),
        Some(false) | None => Err(Reason::NoToolFact),
    }
}

fn same_in_any_case(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
        || left.chars().flat_map(char::to_lowercase).eq(right.chars().flat_map(char::to_lowercase))
}
