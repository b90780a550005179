//! The lease of a wait, as the loop of a model holds it.

use surety_common::domain::model::MODEL_NAME;
use surety_common::store::HeldLease;
use uuid::Uuid;

/// A lease of a decision, as the loop of a model holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldWait {
    /// The run.
    pub(crate) run_id: Uuid,
    /// The wait.
    pub(crate) wait_id: Uuid,
    /// The fencing token.
    pub(crate) lease_epoch: i64,
}

impl HeldWait {
    pub(super) fn lease(self) -> HeldLease {
        let Self { run_id, lease_epoch, .. } = self;
        HeldLease { run_id, lease_epoch, identity: MODEL_NAME.to_owned() }
    }
}
