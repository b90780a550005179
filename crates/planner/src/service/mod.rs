//! The RPCs of the planner: wire to domain, one call, domain to wire.

mod admin;
mod agents;
mod full_view;
mod hooks;
mod mail;
mod overlays;
mod page;
mod plan_leases;
mod planner;
#[cfg(test)]
mod planning_limits_tests;
mod policy;
mod repository;
mod request;
mod run;
mod submission;
mod task_entry;
mod task_wire;
mod toolchain;
mod waits;
mod work;

pub use policy::read_policy;
pub use request::read_own_limits;
pub(crate) use submission::submit_planned;

use crate::hook::Hooks;
use crate::planner::Planner;
use crate::runs;
use crate::shards::Shards;
use std::sync::Arc;
use surety_common::domain::fault::Fault;
use surety_common::domain::identity::{Object, Role};
use surety_common::domain::verification::Sight;
use surety_common::wire::caller::Caller;
use surety_common::wire::error::MessageError;
use surety_common::wire::status::{needs_database, to_status};
use surety_common::wire::value::id;
use tonic::{Request, Status};
use uuid::Uuid;

/// The planner's handlers.
#[derive(Clone)]
pub(crate) struct Service {
    shards: Arc<Shards>,
    /// Whether a model of the service can drive runs.
    has_model: bool,
    /// Where forges deliver events.
    hooks: Arc<Hooks>,
}

impl Service {
    /// Creates handlers over the planners of all databases.
    pub(crate) fn new(shards: Arc<Shards>, has_model: bool, hooks: Arc<Hooks>) -> Self {
        Self { shards, has_model, hooks }
    }

    /// The run that a request names, once its caller may make the call on it.
    async fn of_run(&self, caller: &Caller, run_id: &str) -> Result<NamedRun, Status> {
        let id = id("run_id", run_id).map_err(|error: MessageError| status(error))?;
        self.find_run(caller, id).await.map_err(status)
    }

    async fn find_run(&self, caller: &Caller, id: Uuid) -> Result<NamedRun, Fault> {
        let not_found = || runs::not_found(id);
        let (found, planner) = self.shards.of_run(id).await?.ok_or_else(not_found)?;
        let namespace = &found.owner.namespace;
        let mut object = Object::run(namespace, &found.owner.submitter);
        if caller.approves() {
            let policies = &self.shards.of_namespace(namespace).await?.policies;
            object.four_eyes = policies.find(namespace).await?.four_eyes;
        }
        let role = caller.may(&object, not_found)?;
        let sight = overlays::sight(caller, &found.owner.submitter);
        let roles = &caller.identity().roles;
        let owns = roles.contains(&Role::Submitter) && caller.name() == found.owner.submitter;
        let is_machine = role.is_machine() && !owns && !roles.contains(&Role::Operator);
        let namespace = namespace.clone();
        Ok(NamedRun { id, namespace, planner, role, is_machine, sight })
    }
}

/// A run that a caller may make its call on.
struct NamedRun {
    id: Uuid,
    namespace: String,
    /// The planner of its database.
    planner: Arc<Planner>,
    /// The role that allows the call.
    role: Role,
    /// Whether only the role of a machine allows it, and none that a person has.
    is_machine: bool,
    /// Whose hidden checks the caller sees whole.
    sight: Sight,
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

fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    Caller::of(request).map_err(status)
}

fn status(fault: impl Into<Fault>) -> Status {
    to_status(&fault.into())
}
