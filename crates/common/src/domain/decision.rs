//! A decision: what the driver declares it wants to do next. It moves no state by itself.

use crate::domain::plan::ToolCall;
use serde::{Deserialize, Serialize};

/// One decision, read and trimmed. Empty text means not filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteDecision {
    /// Words for the person who follows the run.
    pub speak: String,
    /// What is wanted.
    pub action: Action,
    /// Why.
    pub reason: String,
    /// Why the step, or the goal, counts as reached; needed for next_plan and done.
    pub goal_check: String,
    /// The tool to call.
    pub tool_call: Option<ToolCall>,
    /// Why the driver gives up.
    pub abort: Option<Abort>,
}

/// What a reply of a driver cost, as the driver or its endpoint reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens, prompt and completion together.
    pub tokens: u64,
    /// Cost in millionths of the billing currency.
    pub cost_micros: u64,
}

impl Usage {
    /// Whether nothing was reported.
    pub const fn is_zero(&self) -> bool {
        self.tokens == 0 && self.cost_micros == 0
    }
}

/// The six things a driver may want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Go on with this step, with or without a tool call.
    Continue,
    /// Ask the person the run works for.
    AskUser,
    /// Ask for a confirmation of one tool call.
    Confirm,
    /// This step is done.
    NextPlan,
    /// The whole plan is done.
    Done,
    /// Give up.
    Abort,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 6] =
        [Self::Continue, Self::AskUser, Self::Confirm, Self::NextPlan, Self::Done, Self::Abort];

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::AskUser => "ask_user",
            Self::Confirm => "confirm",
            Self::NextPlan => "next_plan",
            Self::Done => "done",
            Self::Abort => "abort",
        }
    }

    /// The action with this word, in any case.
    pub fn from_any_case(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str().eq_ignore_ascii_case(text))
    }
}

/// Why a driver gives up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Abort {
    /// A word of the driver's own.
    pub code: String,
    /// What the person is told; never blank.
    pub user_message: String,
    /// What the operator is told.
    pub internal_reason: String,
}
