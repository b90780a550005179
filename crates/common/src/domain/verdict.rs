//! A verdict: the gate's answer for one plan revision.

use crate::domain::repository::RepositoryOutcome;
use crate::domain::stop::StopReason;
use serde::{Deserialize, Serialize};

/// Accepted or not, with every result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether every required result passed.
    pub accepted: bool,
    /// `accepted`, or the reason of the highest precedence.
    pub stop_reason: StopReason,
    /// `system.todo_failed`, `system.todo_unconverged`, then each check in the plan's order.
    pub results: Vec<CheckResult>,
    /// Whose checks it rests on.
    pub strength: Strength,
    /// The verification round that it is about, from 1; 0 where the steps' receipts decide.
    pub round: u32,
    /// What a reader of the verdict must know, in the order of the checks.
    pub cautions: Vec<Caution>,
    /// The digest of the workspace at the end of the round; empty where none was recorded.
    pub workspace_digest: String,
    /// The weakest level of the sandbox of the round's commands, as receipts name levels; empty where none ran.
    pub sandbox: String,
    /// What persons approved, without which it would not accept.
    pub approvals: Vec<Approval>,
    /// The commit of a run on a git repository, and its difference from the start.
    pub repository: Option<RepositoryOutcome>,
}

/// The approval of what a verdict was in doubt about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The identity that approved.
    pub by: String,
    /// The digest of what it approved: the workspace, the difference and the cautions.
    pub digest: String,
}

/// Whose checks a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strength {
    /// No required check of a user or an operator counts: the author of the plan examined itself, or a participant claims.
    #[default]
    SelfChecked,
    /// At least one required check that counts is a user's or an operator's. An `output_only`, a claim of a
    /// participant and a check that cannot fail do not count.
    Independent,
}

impl Strength {
    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SelfChecked => "self_checked",
            Self::Independent => "independent",
        }
    }

    /// The strength with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        [Self::SelfChecked, Self::Independent].into_iter().find(|value| value.as_str() == text)
    }
}

/// Something that a reader of a verdict must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caution {
    /// The contract's code, such as `thin_check`.
    pub code: String,
    /// The check that it is about, by its name; empty for the whole run.
    pub check: String,
    /// What was observed.
    pub detail: String,
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
