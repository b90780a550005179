//! The RPCs of the planner: wire to domain, one call, domain to wire.

mod order;
mod planner;
mod run;
mod toolchain;

use crate::Planner;
use std::sync::Arc;
use surety_common::domain::fault::Fault;
use surety_common::wire::error::MessageError;
use surety_common::wire::status::to_status;
use surety_common::wire::value::id;
use tonic::Status;
use uuid::Uuid;

/// The planner's handlers.
#[derive(Clone)]
pub(crate) struct Service {
    planner: Arc<Planner>,
}

impl Service {
    /// Handlers over a planner.
    pub(crate) fn new(planner: Arc<Planner>) -> Self {
        Self { planner }
    }
}

fn status(fault: impl Into<Fault>) -> Status {
    to_status(&fault.into())
}

fn run_id(text: &str) -> Result<Uuid, Status> {
    id("run_id", text).map_err(|error: MessageError| status(error))
}
