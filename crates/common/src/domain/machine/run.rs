//! The states of a run and their transitions.

use super::Refusal;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// The goal is being read.
    Intake,
    /// A plan is being written, or a submitted one validated.
    Planning,
    /// Steps are being executed.
    Executing,
    /// The runner observes, and the gate decides.
    Verifying,
    /// A step failed or a verdict refused: the run returns to planning or to the same plan.
    Recovering,
    /// The run waits for an external event. The phase is the one that it left.
    Blocked(Phase),
    /// The gate accepted; there is no other way into this state.
    Done,
    /// Stopped for a reason.
    Failed,
    /// Cancelled by a user or an operator.
    Cancelled,
}

/// The phases that a run can be blocked in, and returns to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// See [`RunState::Intake`].
    Intake,
    /// See [`RunState::Planning`].
    Planning,
    /// See [`RunState::Executing`].
    Executing,
    /// See [`RunState::Verifying`].
    Verifying,
    /// See [`RunState::Recovering`].
    Recovering,
}

/// Events of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// The planner began to plan the run.
    PlanningStarted,
    /// A validated plan is stored.
    PlanAccepted,
    /// A plan or a patch of a planning agent was refused. This changes no state: another one is awaited.
    PlanRefused,
    /// Every step is done or skipped.
    StepsFinished,
    /// A step failed.
    StepFailed,
    /// The gate accepted.
    VerdictAccepted,
    /// The gate refused.
    VerdictRefused,
    /// A caller requested another plan while this one is executed.
    ReplanRequested,
    /// A patch of the plan is requested.
    ReplanStarted,
    /// The same plan is retried.
    RetryStarted,
    /// Only an external event can continue the run now.
    Blocked,
    /// The event that it waited for occurred.
    Unblocked,
    /// A caller requested a pause. This changes no state by itself: the run is blocked once none of
    /// its work is running.
    PauseRequested,
    /// A caller requested to resume. This changes no state by itself: the run is unblocked when it
    /// waits for nothing else.
    ResumeRequested,
    /// A caller raised a budget. This changes no state by itself: the steps that wait for it go on.
    BudgetExtended,
    /// A budget has too little left for the next reply of a model. This changes no state by itself: the run is blocked
    /// once nothing else of it can go on.
    BudgetShort,
    /// The endpoint of a model does not answer. This changes no state by itself: the run is blocked once nothing
    /// else of it can go on.
    ModelAway,
    /// A limit, a verdict without repairs left, or the driver ended it.
    Stopped,
    /// A caller cancelled it.
    CancelRequested,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 13] = [
        Self::Intake,
        Self::Planning,
        Self::Executing,
        Self::Verifying,
        Self::Recovering,
        Self::Blocked(Phase::Intake),
        Self::Blocked(Phase::Planning),
        Self::Blocked(Phase::Executing),
        Self::Blocked(Phase::Verifying),
        Self::Blocked(Phase::Recovering),
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The value's name in the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Intake => "INTAKE",
            Self::Planning => "PLANNING",
            Self::Executing => "EXECUTING",
            Self::Verifying => "VERIFYING",
            Self::Recovering => "RECOVERING",
            Self::Blocked(_) => "BLOCKED",
            Self::Done => "DONE",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// The state with this name; `blocked_from` names the phase that a blocked run left.
    pub fn from_text(text: &str, blocked_from: Option<&str>) -> Option<Self> {
        if text == "BLOCKED" {
            return Phase::ALL
                .into_iter()
                .find(|phase| Some(phase.state().as_str()) == blocked_from)
                .map(Self::Blocked);
        }
        Self::ALL
            .into_iter()
            .find(|state| !matches!(state, Self::Blocked(_)) && state.as_str() == text)
    }

    /// Whether the state never changes again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// The phase that a blocked run left; none in any other state.
    pub const fn blocked_in(self) -> Option<Phase> {
        match self {
            Self::Blocked(phase) => Some(phase),
            Self::Intake
            | Self::Planning
            | Self::Executing
            | Self::Verifying
            | Self::Recovering
            | Self::Done
            | Self::Failed
            | Self::Cancelled => None,
        }
    }

    /// The phase, if the run is in one.
    pub const fn phase(self) -> Option<Phase> {
        match self {
            Self::Intake => Some(Phase::Intake),
            Self::Planning => Some(Phase::Planning),
            Self::Executing => Some(Phase::Executing),
            Self::Verifying => Some(Phase::Verifying),
            Self::Recovering => Some(Phase::Recovering),
            Self::Blocked(_) | Self::Done | Self::Failed | Self::Cancelled => None,
        }
    }
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 5] =
        [Self::Intake, Self::Planning, Self::Executing, Self::Verifying, Self::Recovering];

    /// The state of a run in this phase.
    pub const fn state(self) -> RunState {
        match self {
            Self::Intake => RunState::Intake,
            Self::Planning => RunState::Planning,
            Self::Executing => RunState::Executing,
            Self::Verifying => RunState::Verifying,
            Self::Recovering => RunState::Recovering,
        }
    }
}

impl RunEvent {
    /// Every event.
    pub const ALL: [Self; 19] = [
        Self::PlanningStarted,
        Self::PlanAccepted,
        Self::PlanRefused,
        Self::StepsFinished,
        Self::StepFailed,
        Self::VerdictAccepted,
        Self::VerdictRefused,
        Self::ReplanRequested,
        Self::ReplanStarted,
        Self::RetryStarted,
        Self::Blocked,
        Self::Unblocked,
        Self::PauseRequested,
        Self::ResumeRequested,
        Self::BudgetExtended,
        Self::BudgetShort,
        Self::ModelAway,
        Self::Stopped,
        Self::CancelRequested,
    ];

    /// The name used in the journal, the API and the traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlanningStarted => "planning_started",
            Self::PlanAccepted => "plan_accepted",
            Self::PlanRefused => "plan_refused",
            Self::StepsFinished => "steps_finished",
            Self::StepFailed => "step_failed",
            Self::VerdictAccepted => "verdict_accepted",
            Self::VerdictRefused => "verdict_refused",
            Self::ReplanRequested => "replan_requested",
            Self::ReplanStarted => "replan_started",
            Self::RetryStarted => "retry_started",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::PauseRequested => "pause_requested",
            Self::ResumeRequested => "resume_requested",
            Self::BudgetExtended => "budget_extended",
            Self::BudgetShort => "budget_short",
            Self::ModelAway => "model_away",
            Self::Stopped => "stopped",
            Self::CancelRequested => "cancel_requested",
        }
    }
}

/// The state after `event` in `state`.
///
/// # Errors
/// [`Refusal`] when the event changes nothing.
pub const fn decide(state: RunState, event: RunEvent) -> Result<RunState, Refusal> {
    use RunEvent as E;
    use RunState as S;
    match (state, event) {
        (S::Done | S::Failed | S::Cancelled, _) => Err(Refusal::Terminal),
        (_, E::Stopped) => Ok(S::Failed),
        (_, E::CancelRequested) => Ok(S::Cancelled),
        (
            _,
            E::PauseRequested
            | E::ResumeRequested
            | E::BudgetExtended
            | E::BudgetShort
            | E::ModelAway,
        ) => Ok(state),

        (S::Intake, E::PlanningStarted) | (S::Recovering, E::ReplanStarted) => Ok(S::Planning),
        (S::Planning, E::PlanAccepted) | (S::Recovering, E::RetryStarted) => Ok(S::Executing),
        (S::Executing, E::StepsFinished) => Ok(S::Verifying),
        (S::Executing, E::StepFailed | E::ReplanRequested) | (S::Verifying, E::VerdictRefused) => {
            Ok(S::Recovering)
        }
        (S::Verifying, E::VerdictAccepted) => Ok(S::Done),

        (S::Blocked(Phase::Planning), E::PlanRefused) => Ok(state),
        (S::Blocked(phase), E::Unblocked) => Ok(phase.state()),
        (S::Intake, E::Blocked) => Ok(S::Blocked(Phase::Intake)),
        (S::Planning, E::Blocked) => Ok(S::Blocked(Phase::Planning)),
        (S::Executing, E::Blocked) => Ok(S::Blocked(Phase::Executing)),
        (S::Verifying, E::Blocked) => Ok(S::Blocked(Phase::Verifying)),
        (S::Recovering, E::Blocked) => Ok(S::Blocked(Phase::Recovering)),

        (
            S::Intake | S::Planning | S::Executing | S::Verifying | S::Recovering | S::Blocked(_),
            _,
        ) => Err(Refusal::Meaningless),
    }
}
