//! Where a step stands.

use serde::{Deserialize, Serialize};

/// The states of a step.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Some dependency is not done yet.
    #[default]
    Pending,
    /// Every dependency is done; any executor may lease it.
    Ready,
    /// Leased: turns are being taken.
    Running,
    /// Paused for something outside; it holds no lease.
    Waiting,
    /// Finished with what it needed.
    Done,
    /// Ended without what it needed.
    Failed,
    /// Cannot start because of a step that failed for good.
    Blocked,
    /// Left out.
    Skipped,
    /// Ended because the run ended.
    Cancelled,
}

impl StepState {
    /// Every state, in the order of a step's life.
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

    /// The contract's word.
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

    /// The state with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether work on the step is over, unless a retry or a repair reopens it.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Blocked | Self::Skipped | Self::Cancelled)
    }
}
