//! The states of a step.

use serde::{Deserialize, Serialize};

/// The states of a step.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// A dependency is not done yet.
    #[default]
    Pending,
    /// Every dependency is done; any executor may lease it.
    Ready,
    /// Leased: turns are being taken.
    Running,
    /// Waiting for an external event; it holds no lease.
    Waiting,
    /// Complete.
    Done,
    /// Ended without completing.
    Failed,
    /// A step that it depends on failed permanently.
    Blocked,
    /// Skipped.
    Skipped,
    /// Cancelled with the run.
    Cancelled,
}

impl StepState {
    /// Every state, in the order of a step's life cycle.
    pub const ALL: [Self; 9] = [
        Self::Pending,
        Self::Ready,
        Self::Running,
        Self::Waiting,
        Self::Done,
        Self::Failed,
        Self::Blocked,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether the step has ended, unless a retry or a repair reopens it.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Blocked | Self::Skipped | Self::Cancelled)
    }
}
