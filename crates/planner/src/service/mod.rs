//! The RPCs of the planner: wire to domain, one call, domain to wire.

mod order;
mod planner;
mod run;
mod toolchain;

use crate::Planner;
use std::sync::Arc;
use surety_common::domain::fault::Fault;
use surety_common::wire::error::MessageError;
use surety_common::wire::status::{needs_database, to_status};
use surety_common::wire::value::id;
use tonic::Status;
use uuid::Uuid;

/// Who acts where there are no identities yet: whoever holds the service's token.
const CALLER: &str = "caller";

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

/// The handlers of `PlannerService`, some of which need no planner.
#[derive(Clone)]
pub(crate) struct Plans {
    service: Option<Service>,
}

impl Plans {
    /// All of them.
    pub(crate) fn of(service: Service) -> Self {
        Self { service: Some(service) }
    }

    /// Those that keep no state.
    pub(crate) fn referee() -> Self {
        Self { service: None }
    }

    fn stateful(&self, rpc: &str) -> Result<&Service, Status> {
        self.service.as_ref().ok_or_else(|| needs_database(rpc))
    }
}

fn status(fault: impl Into<Fault>) -> Status {
    to_status(&fault.into())
}

fn run_id(text: &str) -> Result<Uuid, Status> {
    id("run_id", text).map_err(|error: MessageError| status(error))
}
