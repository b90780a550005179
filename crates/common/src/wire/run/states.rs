//! The states of runs and steps, and the parties that they wait for.

use super::super::v1;
use crate::domain::machine::run::RunState;
use crate::domain::run::DriverKind;
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;

impl From<RunState> for v1::RunState {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Intake => Self::Intake,
            RunState::Planning => Self::Planning,
            RunState::Executing => Self::Executing,
            RunState::Verifying => Self::Verifying,
            RunState::Recovering => Self::Recovering,
            RunState::Blocked(_) => Self::Blocked,
            RunState::Done => Self::Done,
            RunState::Failed => Self::Failed,
            RunState::Cancelled => Self::Cancelled,
        }
    }
}

/// The states that a number on the wire selects: BLOCKED selects it in every phase. None for an
/// unknown number.
pub fn read_run_state(number: i32) -> Option<RunState> {
    let wanted = v1::RunState::try_from(number).ok()?;
    RunState::ALL.into_iter().find(|state| v1::RunState::from(*state) == wanted)
}

impl From<StepState> for v1::StepState {
    fn from(state: StepState) -> Self {
        match state {
            StepState::Pending => Self::Pending,
            StepState::Ready => Self::Ready,
            StepState::Running => Self::Running,
            StepState::Waiting => Self::Waiting,
            StepState::Done => Self::Done,
            StepState::Failed => Self::Failed,
            StepState::Blocked => Self::Blocked,
            StepState::Skipped => Self::Skipped,
            StepState::Cancelled => Self::Cancelled,
        }
    }
}

/// The step state of a number on the wire; none for an unknown number.
pub fn read_step_state(number: i32) -> Option<StepState> {
    let wanted = v1::StepState::try_from(number).ok()?;
    StepState::ALL.into_iter().find(|state| v1::StepState::from(*state) == wanted)
}

impl From<WaitingOn> for v1::WaitingOn {
    fn from(waiting_on: WaitingOn) -> Self {
        match waiting_on {
            WaitingOn::User => Self::User,
            WaitingOn::Approver => Self::Approver,
            WaitingOn::Worker => Self::Worker,
            WaitingOn::Model => Self::Model,
            WaitingOn::Operator => Self::Operator,
            WaitingOn::Timer => Self::Timer,
            WaitingOn::Driver => Self::Driver,
            WaitingOn::Workspace => Self::Workspace,
        }
    }
}

impl From<DriverKind> for v1::Driver {
    fn from(driver: DriverKind) -> Self {
        match driver {
            DriverKind::Script => Self::Script,
            DriverKind::Model => Self::Model,
            DriverKind::Remote => Self::Remote,
        }
    }
}
