//! Todos: obligations of a run beside its steps.

mod read;
mod run;
mod work;

pub use read::{Progress, read_todos, todo_to_json, validate_todos};
pub use run::{MAX_ADDED, MAX_CONTENT, RunTodos, TodoChange};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// Unique inside the run.
    pub id: String,
    /// The task, in words.
    pub content: String,
    /// Whether the gate refuses while it is open or failed.
    pub required: bool,
    /// Its status.
    pub status: TodoStatus,
    /// Ids of the todos that must be completed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// Ids of the todos that this one replaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
    /// The creation time; none for a plan's own todos, which have the plan's.
    pub created_at: Option<DateTime<Utc>>,
}

/// The status of a todo. Completed, failed and cancelled are terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    InProgress,
    /// Cannot proceed.
    Blocked,
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// No longer wanted.
    #[serde(rename = "canceled")]
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

    /// The value's name in the contract.
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

    /// The status with this name; `cancelled` is read as `canceled`.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "cancelled" => Some(Self::Cancelled),
            text => Self::ALL.into_iter().find(|status| status.as_str() == text),
        }
    }

    /// Whether the status never changes again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}
