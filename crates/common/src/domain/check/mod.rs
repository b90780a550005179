//! Acceptance checks: what must hold before a run, or a step, counts as done.

use std::collections::BTreeMap;

/// One acceptance criterion, normalised: trimmed (but the needle), kind and match in lower case,
/// empty params dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptCheck {
    /// The author's name for it; empty when there is none, and then results go by the kind.
    pub id: String,
    /// The kind as written, so that an unknown one is kept and fails by name.
    pub kind: String,
    /// A command line, a path, or free text, by kind.
    pub target: String,
    /// How a command is compared with the target.
    pub r#match: Match,
    /// Whether the verdict depends on it.
    pub required: bool,
    /// Named texts, such as `contains` for a content_contains check.
    pub params: BTreeMap<String, String>,
    /// Who wrote it; a patch may not weaken what a user or an operator wrote.
    pub owner: Owner,
}

/// Who wrote a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum Owner {
    /// The plan, which may be a model's.
    #[default]
    Plan,
    /// The person the run works for.
    User,
    /// Whoever runs the service.
    Operator,
}

impl Owner {
    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::User => "user",
            Self::Operator => "operator",
        }
    }
}

/// How the arguments of a command are compared with a check's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Match {
    /// The target is the command's leading whole arguments.
    #[default]
    Prefix,
    /// The target is the whole command.
    Exact,
    /// The same program, and the target's other arguments in their order with others between.
    Contains,
}

impl Match {
    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Exact => "exact",
            Self::Contains => "contains",
        }
    }
}
