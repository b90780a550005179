//! The transitions of a step.

use super::Refusal;
use crate::domain::step::StepState;

/// Events of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepEvent {
    /// Its last dependency is done, or it has none.
    DependenciesDone,
    /// An executor leased it.
    Leased,
    /// The executor released the lease, or it expired.
    LeaseEnded,
    /// It waits for an external event.
    WaitStarted,
    /// The event that it waited for occurred.
    WaitEnded,
    /// It is complete.
    Finished,
    /// It cannot complete.
    Failed,
    /// A step that it depends on failed and is not retried.
    DependencyFailed,
    /// The next revision of the plan does not have it, and it was not started.
    Skipped,
    /// The run ended, or the next revision of the plan does not have it, after it was started.
    Cancelled,
    /// It is retried after it failed.
    Retried,
    /// The next revision of the plan begins, and the step is not done.
    Replanned,
    /// It was done, and a refused verdict reopens it.
    Reopened,
    /// The call that it waits for is offered to workers again.
    OfferedAgain,
    /// It was done in the run that this one is a fork of.
    Inherited,
}

impl StepEvent {
    /// Every event.
    pub const ALL: [Self; 15] = [
        Self::DependenciesDone,
        Self::Leased,
        Self::LeaseEnded,
        Self::WaitStarted,
        Self::WaitEnded,
        Self::Finished,
        Self::Failed,
        Self::DependencyFailed,
        Self::Skipped,
        Self::Cancelled,
        Self::Retried,
        Self::Replanned,
        Self::Reopened,
        Self::OfferedAgain,
        Self::Inherited,
    ];

    /// The name used in the journal, the API and the traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DependenciesDone => "dependencies_done",
            Self::Leased => "leased",
            Self::LeaseEnded => "lease_ended",
            Self::WaitStarted => "wait_started",
            Self::WaitEnded => "wait_ended",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::DependencyFailed => "dependency_failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Retried => "retried",
            Self::Replanned => "replanned",
            Self::Reopened => "reopened",
            Self::OfferedAgain => "offered_again",
            Self::Inherited => "inherited",
        }
    }
}

/// The state after `event` in `state`.
///
/// A settled step is terminal, with three exceptions that the run's limits bound: `Retried` and
/// `Replanned` (max_replans), and `Reopened` (max_repairs).
///
/// # Errors
/// [`Refusal`] when the event changes nothing.
pub const fn decide(state: StepState, event: StepEvent) -> Result<StepState, Refusal> {
    use StepEvent as E;
    use StepState as S;
    match (state, event) {
        (S::Pending, E::DependenciesDone) => Ok(S::Ready),
        (S::Ready, E::Leased) => Ok(S::Running),
        // A waiting step holds no lease, so any executor can take it.
        (S::Running, E::LeaseEnded) | (S::Waiting, E::WaitEnded) => Ok(S::Ready),
        (S::Running, E::WaitStarted) | (S::Waiting, E::OfferedAgain) => Ok(S::Waiting),
        (S::Running, E::Finished) | (S::Pending, E::Inherited) => Ok(S::Done),
        (S::Running | S::Waiting, E::Failed) => Ok(S::Failed),
        (S::Pending, E::DependencyFailed) => Ok(S::Blocked),
        (S::Pending | S::Ready, E::Skipped) => Ok(S::Skipped),
        (S::Pending | S::Ready | S::Running | S::Waiting, E::Cancelled) => Ok(S::Cancelled),
        (S::Failed, E::Retried)
        | (S::Ready | S::Waiting | S::Failed, E::Replanned)
        | (S::Done, E::Reopened) => Ok(S::Pending),

        (S::Done | S::Failed | S::Blocked | S::Skipped | S::Cancelled, _) => Err(Refusal::Terminal),
        (S::Pending | S::Ready | S::Running | S::Waiting, _) => Err(Refusal::Meaningless),
    }
}
