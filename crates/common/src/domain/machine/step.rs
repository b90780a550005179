//! What moves a step.

use super::Refusal;
use crate::domain::step::StepState;

/// What can happen to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepEvent {
    /// Its last dependency is done, or it has none.
    DependenciesDone,
    /// An executor took it up.
    Leased,
    /// The executor gave it back, or died.
    LeaseEnded,
    /// It pauses for something outside.
    WaitStarted,
    /// What it paused for came.
    WaitEnded,
    /// It has what it needed.
    Finished,
    /// It will not get what it needed.
    Failed,
    /// A step it depends on failed and is not tried again.
    DependencyFailed,
    /// The next revision of the plan leaves it out, and no work on it had begun.
    Skipped,
    /// The run ended, or the next revision leaves it out, after work on it had begun.
    Cancelled,
    /// It is tried again after it failed.
    Retried,
    /// The next revision of the plan begins, and it is not done.
    Replanned,
    /// It was done, and a refused verdict sends work back to it.
    Reopened,
}

impl StepEvent {
    /// Every event.
    pub const ALL: [Self; 13] = [
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
    ];

    /// The word used in the journal, the API and the traces.
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
        }
    }
}

/// Where `event` moves a step that stands at `state`.
///
/// A settled step is terminal but for three ways back, each of which the run pays for from a bound:
/// `Retried` and `Replanned` (max_replans), and `Reopened` (max_repairs).
///
/// # Errors
/// [`Refusal`] when it moves nothing.
pub const fn decide(state: StepState, event: StepEvent) -> Result<StepState, Refusal> {
    use StepEvent as E;
    use StepState as S;
    match (state, event) {
        (S::Pending, E::DependenciesDone) => Ok(S::Ready),
        (S::Ready, E::Leased) => Ok(S::Running),
        // A waiting step holds no lease, so whoever is free takes it up again.
        (S::Running, E::LeaseEnded) | (S::Waiting, E::WaitEnded) => Ok(S::Ready),
        (S::Running, E::WaitStarted) => Ok(S::Waiting),
        (S::Running, E::Finished) => Ok(S::Done),
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
