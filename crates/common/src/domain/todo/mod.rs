//! Todos: what a run still owes beside its steps.

mod read;
mod work;

pub use read::{Progress, read_todos, todo_to_json, validate_todos};
pub use work::{active_ids, move_todo};

use chrono::{DateTime, Utc};

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// Unique inside the run.
    pub id: String,
    /// What is owed, in words.
    pub content: String,
    /// Whether the gate refuses while it is open or failed.
    pub required: bool,
    /// Where it stands.
    pub status: TodoStatus,
    /// Ids of the todos that come first.
    pub dependencies: Vec<String>,
    /// Ids of the todos that this one stands in for.
    pub replaces: Vec<String>,
    /// When it was written down; none for a plan's own todos, which are as old as the plan.
    pub created_at: Option<DateTime<Utc>>,
}

/// Where a todo stands. Completed, failed and cancelled are terminal and frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TodoStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    InProgress,
    /// Cannot move.
    Blocked,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// No longer wanted.
    Cancelled,
}

impl TodoStatus {
    /// Every status.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::InProgress,
        Self::Blocked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "canceled",
        }
    }

    /// The status with this word; `cancelled` is read as `canceled`.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "cancelled" => Some(Self::Cancelled),
            text => Self::ALL.into_iter().find(|status| status.as_str() == text),
        }
    }

    /// Whether nothing changes it any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
