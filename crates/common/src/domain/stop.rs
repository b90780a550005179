//! Why a run stopped, and what a blocked run waits for.

use serde::{Deserialize, Serialize};

/// Why a run reached a terminal state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The gate accepted.
    Accepted,
    /// A required check does not hold and no repairs remain.
    AcceptCheckFailed,
    /// A required todo failed.
    RequiredTodoFailed,
    /// A required todo is still open.
    TodoNotConverged,
    /// The driver never reported completion.
    MissingCompletionSignal,
    /// The same turn was repeated too often.
    RepeatCycle,
    /// No replans remain.
    MaxReplansReached,
    /// No valid patch was received.
    ReplanParseFailed,
    /// No valid plan was received.
    PlanParseFailed,
    /// A reviewer rejected the plan.
    PlanRejected,
    /// Work remains and none of it can start.
    DependencyDeadlock,
    /// The run used all its turns.
    MaxRoundsReached,
    /// Too many refused decisions in a row.
    MaxConsecutiveCorrections,
    /// The driver aborted.
    Aborted,
    /// A caller cancelled the run.
    Cancelled,
    /// The run's deadline passed.
    DeadlineExceeded,
    /// The run's budget is used up.
    BudgetExceeded,
    /// A confirmation was refused.
    ConfirmationDenied,
    /// A confirmation was not given in time.
    ConfirmationExpired,
    /// No model answers.
    ModelUnavailable,
    /// A defect of Surety.
    InternalError,
}

impl StopReason {
    /// Every reason, in the contract's order.
    pub const ALL: [Self; 21] = [
        Self::Accepted,
        Self::AcceptCheckFailed,
        Self::RequiredTodoFailed,
        Self::TodoNotConverged,
        Self::MissingCompletionSignal,
        Self::RepeatCycle,
        Self::MaxReplansReached,
        Self::ReplanParseFailed,
        Self::PlanParseFailed,
        Self::PlanRejected,
        Self::DependencyDeadlock,
        Self::MaxRoundsReached,
        Self::MaxConsecutiveCorrections,
        Self::Aborted,
        Self::Cancelled,
        Self::DeadlineExceeded,
        Self::BudgetExceeded,
        Self::ConfirmationDenied,
        Self::ConfirmationExpired,
        Self::ModelUnavailable,
        Self::InternalError,
    ];

    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::AcceptCheckFailed => "accept_check_failed",
            Self::RequiredTodoFailed => "required_todo_failed",
            Self::TodoNotConverged => "todo_not_converged",
            Self::MissingCompletionSignal => "missing_completion_signal",
            Self::RepeatCycle => "repeat_cycle",
            Self::MaxReplansReached => "max_replans_reached",
            Self::ReplanParseFailed => "replan_parse_failed",
            Self::PlanParseFailed => "plan_parse_failed",
            Self::PlanRejected => "plan_rejected",
            Self::DependencyDeadlock => "dependency_deadlock",
            Self::MaxRoundsReached => "max_rounds_reached",
            Self::MaxConsecutiveCorrections => "max_consecutive_corrections",
            Self::Aborted => "aborted",
            Self::Cancelled => "cancelled",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::BudgetExceeded => "budget_exceeded",
            Self::ConfirmationDenied => "confirmation_denied",
            Self::ConfirmationExpired => "confirmation_expired",
            Self::ModelUnavailable => "model_unavailable",
            Self::InternalError => "internal_error",
        }
    }

    /// What the reason means, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Accepted => "The gate accepted.",
            Self::AcceptCheckFailed => "A required check does not hold and no repairs remain.",
            Self::RequiredTodoFailed => "A required todo failed.",
            Self::TodoNotConverged => "A required todo is still open.",
            Self::MissingCompletionSignal => "The driver never reported completion.",
            Self::RepeatCycle => "The same turn was repeated too often.",
            Self::MaxReplansReached => "No replans remain.",
            Self::ReplanParseFailed => "No valid patch was received.",
            Self::PlanParseFailed => "No valid plan was received.",
            Self::PlanRejected => "A reviewer rejected the plan.",
            Self::DependencyDeadlock => "Work remains and none of it can start.",
            Self::MaxRoundsReached => "The run used all its turns.",
            Self::MaxConsecutiveCorrections => "Too many refused decisions in a row.",
            Self::Aborted => "The driver aborted.",
            Self::Cancelled => "A caller cancelled the run.",
            Self::DeadlineExceeded => "The run's deadline passed.",
            Self::BudgetExceeded => "The run's budget is used up.",
            Self::ConfirmationDenied => "A confirmation was refused.",
            Self::ConfirmationExpired => "A confirmation was not given in time.",
            Self::ModelUnavailable => "No model answers.",
            Self::InternalError => "A defect of Surety.",
        }
    }

    /// The reason with this name.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// What a blocked run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    /// The user that the run works for.
    User,
    /// A user who may confirm.
    Approver,
    /// A tool worker or a remote driver.
    Worker,
    /// A model, or a submitter of a plan in its place.
    Model,
    /// The operator of the service.
    Operator,
    /// A time.
    Timer,
    /// A driver outside the executor: its next decision.
    Driver,
    /// The end of another run, which works in the same workspace.
    Workspace,
}

impl WaitingOn {
    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Approver => "approver",
            Self::Worker => "worker",
            Self::Model => "model",
            Self::Operator => "operator",
            Self::Timer => "timer",
            Self::Driver => "driver",
            Self::Workspace => "workspace",
        }
    }

    /// Whether a step that waits for it leaves its run in EXECUTING: the step keeps its write scope
    /// and its place among the parallel steps, and no person has to act.
    pub const fn keeps_executing(self) -> bool {
        match self {
            Self::Driver | Self::Worker | Self::Timer => true,
            Self::User | Self::Approver | Self::Model | Self::Operator | Self::Workspace => false,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// Why.
    pub stop_reason: StopReason,
    /// The state that was left, in lower case.
    pub stage: String,
    /// The message for the user.
    pub user_message: String,
    /// The message for the operator.
    pub internal_reason: String,
    /// The code that the driver gave when it aborted; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub abort_code: String,
}
