//! A decision: what the driver declares it wants to do next. It changes no state by itself.

use crate::domain::json::Value;
use crate::domain::plan::ToolCall;
use serde::{Deserialize, Serialize};

/// One decision, parsed and trimmed. Empty text means not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteDecision {
    /// Text for the user who follows the run.
    pub speak: String,
    /// The requested action.
    pub action: Action,
    /// The reason.
    pub reason: String,
    /// Why the step, or the goal, counts as reached; required for next_plan and done.
    pub goal_check: String,
    /// The tool to call.
    pub tool_call: Option<ToolCall>,
    /// Why the driver aborts.
    pub abort: Option<Abort>,
    /// The JSON Schema of the answer to a question: an object; none for other actions, and where any text will do.
    pub answer_schema: Option<Value>,
}

impl ExecuteDecision {
    /// The text with which the driver ends a step or the work: what it says, else its goal check.
    pub fn last_word(&self) -> &str {
        match self.speak.as_str() {
            "" => &self.goal_check,
            speak => speak,
        }
    }
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

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

/// Where the usage of a turn is known from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UsageSource {
    /// The driver costs nothing.
    #[default]
    Free,
    /// A driver outside the services said it.
    Reported,
    /// The driver said nothing: it is what the budget had reserved.
    Reserved,
    /// The service called the endpoint itself and counted.
    Measured,
}

impl UsageSource {
    /// Every source.
    pub const ALL: [Self; 4] = [Self::Free, Self::Reported, Self::Reserved, Self::Measured];

    /// The stored word; empty for a driver that costs nothing.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "",
            Self::Reported => "reported",
            Self::Reserved => "reserved",
            Self::Measured => "measured",
        }
    }

    /// The source with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == text)
    }
}

/// The six actions of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Continue with this step, with or without a tool call.
    Continue,
    /// Ask the user that the run works for.
    AskUser,
    /// Request a confirmation of one tool call.
    Confirm,
    /// This step is done.
    NextPlan,
    /// The whole plan is done.
    Done,
    /// End the run as failed.
    Abort,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 6] =
        [Self::Continue, Self::AskUser, Self::Confirm, Self::NextPlan, Self::Done, Self::Abort];

    /// The value's name in the contract.
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

    /// The action with this name, in any case.
    pub fn from_any_case(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str().eq_ignore_ascii_case(text))
    }
}

/// Why a driver aborts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Abort {
    /// A code chosen by the driver.
    pub code: String,
    /// The message for the user; never blank.
    pub user_message: String,
    /// The message for the operator.
    pub internal_reason: String,
}
