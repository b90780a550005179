//! Acceptance checks: conditions that must hold before a run, or a step, counts as done.

mod command_success;
mod content_contains;
mod evidence;
mod file_exists;
mod legacy;
mod normal;
mod output_only;
mod read;
mod reason;
mod tool_fact;
mod workspace_change;
mod write;

#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod tests;

pub use evidence::Evidence;
pub use normal::normalise_checks;
pub use read::{Author, ScannedChecks, read_checks, scan_checks, validate_check};
pub use reason::Reason;
pub use workspace_change::{changed_fact, changed_paths};

use std::collections::BTreeMap;

/// One acceptance criterion, normalized: trimmed (except the needle), kind and match in lower case,
/// empty params dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptCheck {
    /// The author's name for it; empty when it has none, and then results use the kind.
    pub id: String,
    /// The kind as written: an unknown one is kept and fails by name.
    pub kind: String,
    /// A command line, a path, or free text, by kind.
    pub target: String,
    /// How a command is compared with the target.
    pub r#match: Match,
    /// Whether the verdict depends on it.
    pub required: bool,
    /// Named texts, such as `contains` for a content_contains check.
    pub params: BTreeMap<String, String>,
    /// The author of the check; a patch may not weaken a check of a user or an operator.
    pub owner: Owner,
}

/// The author of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Owner {
    /// The plan, which a model may have written.
    #[default]
    Plan,
    /// The user that the run works for.
    User,
    /// The operator of the service.
    Operator,
}

impl Owner {
    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::User => "user",
            Self::Operator => "operator",
        }
    }

    /// The owner with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Plan, Self::User, Self::Operator].into_iter().find(|owner| owner.as_str() == text)
    }
}

/// How the arguments of a command are compared with a check's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Match {
    /// The target equals the command's first arguments.
    #[default]
    Prefix,
    /// The target is the whole command.
    Exact,
    /// The same program, and the target's other arguments in their order, with any arguments
    /// between.
    Contains,
}

impl Match {
    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Exact => "exact",
            Self::Contains => "contains",
        }
    }

    /// The match with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Prefix, Self::Exact, Self::Contains].into_iter().find(|by| by.as_str() == text)
    }
}

/// Decides one check from receipts and the final text. Only the six kinds that need nothing else
/// are known here; the gate knows more.
///
/// # Errors
/// The reason why the check does not hold; `unknown_check_kind` for every other kind.
pub fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    match check.kind.as_str() {
        "output_only" => output_only::evaluate(evidence),
        "workspace_change" => workspace_change::evaluate(check, evidence),
        "command_success" => command_success::evaluate(check, evidence),
        "file_exists" => file_exists::evaluate(check, evidence),
        "content_contains" => content_contains::evaluate(check, evidence),
        "tool_fact" => tool_fact::evaluate(check, evidence),
        _ => Err(Reason::UnknownCheckKind),
    }
}
