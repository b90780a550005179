//! A plan: an immutable, revisioned set of steps and acceptance checks.

mod call;
mod places;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use call::{CALL_KEYS, read_tool_call};
pub use places::CheckPlace;
pub use read::{Draft, Refusal, STEP_KEYS, TAG, check_tag, read_plan, read_step};

use crate::domain::check::AcceptCheck;
use crate::domain::json::Value;
use crate::domain::todo::Todo;

/// The work to do, and the checks that decide whether it is done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// A short name for people; never blank in a validated plan.
    pub title: String,
    /// The goal in the submitter's words; may be empty.
    pub goal: String,
    /// The steps in the order of the text, which orders steps that are ready together.
    pub steps: Vec<PlanStep>,
    /// The plan's acceptance checks, decided by the gate.
    pub verify: Vec<AcceptCheck>,
    /// The plan's own todos.
    pub todos: Vec<Todo>,
}

/// A unit of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanStep {
    /// Unique in the plan, trimmed, never empty.
    pub id: String,
    /// The step's task; never blank.
    pub description: String,
    /// Ids of the steps that must be done first, each once.
    pub dependencies: Vec<String>,
    /// Names of the tools the step may call; empty allows every tool.
    pub tools_expected: Vec<String>,
    /// What the step leaves behind, in words: files, answers, states.
    pub outputs_expected: Vec<String>,
    /// Checks that must hold before the step counts as done.
    pub verify: Vec<AcceptCheck>,
    /// When the step is done, in words.
    pub done_when: String,
    /// Whether the step must leave a successful receipt.
    pub evidence: Evidence,
    /// Tool calls for the script driver, in order.
    pub script: Vec<ToolCall>,
    /// Globs of the paths that the step may write; empty allows the whole workspace.
    pub write_scope: Vec<String>,
    /// Names and patterns of tools of which each call needs a confirmation, beside those of the run's policy.
    pub confirm_tools: Vec<String>,
}

/// Whether a step must leave a successful receipt before it counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evidence {
    /// It must.
    #[default]
    Required,
    /// It need not: the step has no effects.
    None,
}

impl Evidence {
    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::None => "none",
        }
    }

    /// The member with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::Required, Self::None].into_iter().find(|evidence| evidence.as_str() == text)
    }
}

/// A call of a tool by name, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name, trimmed.
    pub name: String,
    /// Always a [`Value::Object`]; `{}` when none were given.
    pub arguments: Value,
}
