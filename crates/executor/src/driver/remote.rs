//! The remote driver: an agent outside the executor that leases the decision of a step.

use super::{Driver, Need, Next, Situation};
use surety_common::domain::stop::WaitingOn;

/// Never replies at once: each decision is a wait that an agent leases.
#[derive(Debug, Clone, Copy, Default)]
pub struct Remote;

impl Driver for Remote {
    fn next(&self, _: &Situation<'_>) -> Next {
        let unblocks = "an agent that calls LeaseStep and SubmitDecision".to_owned();
        Next::Later(Need { waiting_on: WaitingOn::Driver, unblocks, of_model: false })
    }
}
