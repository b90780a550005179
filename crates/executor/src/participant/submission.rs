//! A decision that a participant submits.

use surety_common::domain::decision::Usage;
use surety_common::domain::model::ModelReply;
use uuid::Uuid;

/// A decision as it was submitted.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    /// The run.
    pub(crate) run_id: Uuid,
    /// The step.
    pub(crate) step_id: String,
    /// The fencing token of the lease.
    pub(crate) lease_epoch: i64,
    /// The number of the turn.
    pub(crate) turn: u32,
    /// The reply as text.
    pub(crate) text: String,
    /// What it cost; none where the agent does not say.
    pub(crate) usage: Option<Usage>,
    /// The caller's `traceparent`; empty without one.
    pub(crate) trace_parent: String,
    /// Where a model of the service made it.
    pub(crate) model: Option<Box<ModelReply>>,
}
