//! One acceptance check.

use super::{CheckKind, Overlay};
use std::collections::BTreeMap;

/// The parameter that says whose facts count for a check.
pub const SOURCE: &str = "source";
/// Its value for those of every receipt.
const ANY: &str = "any";

/// One acceptance criterion, normalized: trimmed (except the needle), match in lower case, empty
/// params dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptCheck {
    /// The author's name for it; empty when it has none, and then results use the kind.
    pub id: String,
    /// How the check is decided. An unknown kind is kept and fails by name.
    pub kind: CheckKind,
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
    /// Files that only its view has: then it is a hidden check.
    pub overlay: Overlay,
}

impl AcceptCheck {
    /// Whether participants see nothing of it but its line and its result.
    pub const fn is_hidden(&self) -> bool {
        !self.overlay.is_none()
    }

    /// Whether facts of any receipt count for it, and not only those that the runner states.
    pub fn takes_any_source(&self) -> bool {
        self.owner == Owner::Plan || self.names_any_source()
    }

    /// Whether the check itself says that facts of any receipt count for it.
    pub fn names_any_source(&self) -> bool {
        self.params.get(SOURCE).is_some_and(|source| source == ANY)
    }

    /// The name of its result: its id, or its kind when it has no id.
    pub fn name(&self) -> &str {
        if self.id.is_empty() { self.kind.as_str() } else { &self.id }
    }
}

/// The name of a plan's check that no other check of the plan has: its id, or its kind where it has
/// none, with its index where that is not unique.
pub fn check_key(checks: &[AcceptCheck], index: usize) -> String {
    let name = checks.get(index).map_or("", AcceptCheck::name);
    let unique = checks.iter().filter(|check| check.name() == name).nth(1).is_none();
    if unique { name.to_owned() } else { format!("{name}[{index}]") }
}

/// The author of a check, the least trusted one first: what a command of less trust wrote counts for no check of more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Owner {
    /// The plan, which a model may have written.
    #[default]
    Plan,
    /// The operator of the service.
    Operator,
    /// The user that the run works for.
    User,
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
