//! The states of a run and what moves them.

use super::Refusal;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// The goal is taken in.
    Intake,
    /// A plan is being made, or the one that came is being validated.
    Planning,
    /// Steps are being worked on.
    Executing,
    /// The runner observes, the gate decides.
    Verifying,
    /// A step failed or a verdict refused: it goes back to planning or to the same plan.
    Recovering,
    /// Nothing can move without something outside. It remembers the phase it left.
    Blocked(Phase),
    /// Accepted by the gate, nothing else.
    Done,
    /// Stopped for a reason.
    Failed,
    /// Stopped by somebody.
    Cancelled,
}

/// The phases a run can be blocked in, and returns to.
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

/// What can happen to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// The planner took the run up.
    PlanningStarted,
    /// A validated plan is stored.
    PlanAccepted,
    /// Every step is done, or may stay undone.
    StepsFinished,
    /// A step failed.
    StepFailed,
    /// The gate accepted.
    VerdictAccepted,
    /// The gate refused.
    VerdictRefused,
    /// Somebody wants another plan while this one is worked on.
    ReplanRequested,
    /// A patch of the plan is wanted.
    ReplanStarted,
    /// The same plan is tried again.
    RetryStarted,
    /// Only something outside can move it now.
    Blocked,
    /// What it waited for came.
    Unblocked,
    /// Somebody wants it paused. It moves nothing by itself: the run is blocked once nothing of it
    /// is under way.
    PauseRequested,
    /// Somebody wants it to go on. It moves nothing by itself: the run is unblocked when it waits
    /// for nothing else.
    ResumeRequested,
    /// A fuse, a verdict without repairs left, or the driver ended it.
    Stopped,
    /// Somebody ended it.
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

    /// The contract's word.
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

    /// The state with this word; `blocked_from` is the word of the phase a blocked run left.
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

    /// Whether nothing moves it any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// The phase that a blocked run left; none for any other.
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

    /// The phase, where it is in one.
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
    pub const ALL: [Self; 15] = [
        Self::PlanningStarted,
        Self::PlanAccepted,
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
        Self::Stopped,
        Self::CancelRequested,
    ];

    /// The word used in the journal, the API and the traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlanningStarted => "planning_started",
            Self::PlanAccepted => "plan_accepted",
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
            Self::Stopped => "stopped",
            Self::CancelRequested => "cancel_requested",
        }
    }
}

/// Where `event` moves a run that stands at `state`.
///
/// # Errors
/// [`Refusal`] when it moves nothing.
pub const fn decide(state: RunState, event: RunEvent) -> Result<RunState, Refusal> {
    use RunEvent as E;
    use RunState as S;
    match (state, event) {
        (S::Done | S::Failed | S::Cancelled, _) => Err(Refusal::Terminal),
        (_, E::Stopped) => Ok(S::Failed),
        (_, E::CancelRequested) => Ok(S::Cancelled),
        (_, E::PauseRequested | E::ResumeRequested) => Ok(state),

        (S::Intake, E::PlanningStarted) | (S::Recovering, E::ReplanStarted) => Ok(S::Planning),
        (S::Planning, E::PlanAccepted) | (S::Recovering, E::RetryStarted) => Ok(S::Executing),
        (S::Executing, E::StepsFinished) => Ok(S::Verifying),
        (S::Executing, E::StepFailed | E::ReplanRequested) | (S::Verifying, E::VerdictRefused) => {
            Ok(S::Recovering)
        }
        (S::Verifying, E::VerdictAccepted) => Ok(S::Done),

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
