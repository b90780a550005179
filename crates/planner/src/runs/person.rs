//! Who answers for a person: never a participant that decides about the run, whatever else its identity may do.

use crate::call::Call;
use crate::planner::Planner;
use surety_common::clock;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::run::RunRecord;
use surety_common::store;
use uuid::Uuid;

/// The identity that answers, and whether a participant with it has leased a decision or the plan of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Person<'c> {
    by: &'c str,
    holds: bool,
}

impl Planner {
    /// Whether a call comes from an identity that decides about the run, whatever role its token has.
    ///
    /// # Errors
    /// `database_unavailable`
    pub(crate) async fn drives(&self, record: &RunRecord, call: &Call) -> Result<bool, Fault> {
        Ok(Person::of(self, record.spec.id, call).await?.check(record).is_err())
    }
}

impl<'c> Person<'c> {
    /// The identity of a call.
    ///
    /// # Errors
    /// `database_unavailable`
    pub(super) async fn of(planner: &Planner, run_id: Uuid, call: &'c Call) -> Result<Self, Fault> {
        let holds = store::holds_decision(&planner.pool, run_id, call.by(), clock::now()).await?;
        Ok(Self { by: call.by(), holds })
    }

    /// Refuses the answer of a participant of the run.
    ///
    /// # Errors
    /// `permission_denied`
    pub(super) fn check(self, record: &RunRecord) -> Result<(), Fault> {
        let Self { by, holds } = self;
        if !holds && !record.execution.counters.drivers.iter().any(|driver| driver == by) {
            return Ok(());
        }
        let message = format!(
            "{by:?} is a driver of this run, and never answers for a person about it; another identity has to"
        );
        Err(Fault::new(FaultCode::PermissionDenied, message))
    }
}
