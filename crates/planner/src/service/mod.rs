//! The RPCs of the planner: wire to domain, one call, domain to wire.

mod planner;
mod request;
mod run;
mod toolchain;

use crate::Planner;
use crate::shards::Shards;
use std::sync::Arc;
use surety_common::domain::fault::Fault;
use surety_common::wire::error::MessageError;
use surety_common::wire::status::{needs_database, to_status};
use surety_common::wire::value::id;
use tonic::Status;
use uuid::Uuid;

/// The actor of every call, as long as there are no identities: all callers share the token.
const CALLER: &str = "caller";

/// The planner's handlers.
#[derive(Clone)]
pub(crate) struct Service {
    shards: Arc<Shards>,
}

impl Service {
    /// Creates handlers over the planners of all databases.
    pub(crate) fn new(shards: Arc<Shards>) -> Self {
        Self { shards }
    }

    /// The run of a request, and the planner of its database.
    async fn of_run(&self, run_id: &str) -> Result<(Uuid, Arc<Planner>), Status> {
        let id = id("run_id", run_id).map_err(|error: MessageError| status(error))?;
        Ok((id, self.shards.of_run(id).await.map_err(status)?))
    }
}

/// The handlers of `PlannerService`, some of which need no planner.
#[derive(Clone)]
pub(crate) struct Plans {
    service: Option<Service>,
}

impl Plans {
    /// All handlers.
    pub(crate) fn of(service: Service) -> Self {
        Self { service: Some(service) }
    }

    /// The handlers that store no state.
    pub(crate) fn stateless() -> Self {
        Self { service: None }
    }

    fn stateful(&self, rpc: &str) -> Result<&Service, Status> {
        self.service.as_ref().ok_or_else(|| needs_database(rpc))
    }
}

fn status(fault: impl Into<Fault>) -> Status {
    to_status(&fault.into())
}
