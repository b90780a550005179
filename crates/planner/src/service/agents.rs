//! The registry of agents. It lies in the database of the tasks of the toolchain.

use super::task_wire::{agent, read_agent};
use super::{Service, caller, status};
use crate::planner::Planner;
use crate::task::{TaskType, Toolchain};
use std::sync::Arc;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::mail::MAIL_NAMESPACE;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::toolchain::{Agent, AgentDriver};
use surety_common::store;
use surety_common::wire::caller::Caller;
use surety_common::wire::v1;
use tonic::{Request, Response, Status};

impl Service {
    pub(super) async fn put(
        &self,
        request: Request<v1::PutAgentRequest>,
    ) -> Result<Response<v1::PutAgentResponse>, Status> {
        let caller = caller(&request)?;
        let planner = self.registry(&caller).await.map_err(status)?;
        let sent = request.into_inner().agent;
        let sent = sent.ok_or_else(|| Problem::at(Code::FieldMissing, "agent", "is missing"));
        let wanted = read_agent(sent.map_err(status)?).map_err(status)?;
        if wanted.driver == AgentDriver::Model && !self.has_model {
            let message = "no model is configured, so an agent cannot be driven by it; set SURETY_MODEL_URL and \
                           SURETY_MODEL_NAME (and SURETY_MODEL_KEY_FILE) for the planner and the executors, or use \
                           `remote`";
            let fault = Fault::new(FaultCode::FeatureNotServed, message);
            return Err(status(fault.with_field("agent.driver")));
        }
        let stored = store::put_agent(&planner.pool, &wanted, caller.name(), planner.now()).await;
        if !stored.map_err(status)? {
            let message = "an account of the agent belongs to another one; remove it there first";
            let fault = Fault::new(FaultCode::AccountTaken, message).with_field("agent.accounts");
            return Err(status(fault));
        }
        if let Err(fault) = self.keep_mail_language(&wanted).await {
            tracing::warn!(
                agent = wanted.id, %fault,
                "planner: the language of an agent could not be stored in the database of its messages, which are in the \
                 language of before; register it again once that database answers"
            );
        }
        tracing::info!(agent = wanted.id, by = caller.name(), "planner: an agent was registered");
        Ok(Response::new(v1::PutAgentResponse { agent: Some(agent(wanted)) }))
    }

    pub(super) async fn list(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        let planner = self.registry(&caller(&request)?).await.map_err(status)?;
        let agents = store::list_agents(&planner.pool).await.map_err(status)?;
        let agents = agents.into_iter().map(agent).collect();
        Ok(Response::new(v1::ListAgentsResponse { agents }))
    }

    pub(super) async fn delete(
        &self,
        request: Request<v1::DeleteAgentRequest>,
    ) -> Result<Response<v1::DeleteAgentResponse>, Status> {
        let caller = caller(&request)?;
        let planner = self.registry(&caller).await.map_err(status)?;
        let id = request.into_inner().id;
        if !store::delete_agent(&planner.pool, id.trim()).await.map_err(status)? {
            let message = format!("no agent has the id {id:?}");
            return Err(status(Fault::new(FaultCode::AgentUnknown, message).with_field("id")));
        }
        if let Err(fault) = self.drop_mail_language(id.trim()).await {
            tracing::warn!(
                agent = id, %fault,
                "planner: the language of an agent that was removed stays in the database of its messages; register it \
                 and remove it again once that database answers"
            );
        }
        tracing::info!(agent = id, by = caller.name(), "planner: an agent was removed");
        Ok(Response::new(v1::DeleteAgentResponse {}))
    }

    /// Keeps the language of an agent in the database of the mail, which may be another one.
    async fn keep_mail_language(&self, agent: &Agent) -> Result<(), Fault> {
        let planner = self.shards.of_namespace(MAIL_NAMESPACE).await?;
        Ok(store::put_mail_language(&planner.pool, &agent.id, agent.language).await?)
    }

    /// Drops the language of an agent that was removed.
    async fn drop_mail_language(&self, agent: &str) -> Result<(), Fault> {
        let planner = self.shards.of_namespace(MAIL_NAMESPACE).await?;
        Ok(store::delete_mail_language(&planner.pool, agent).await?)
    }

    /// The planner with the registry, for a caller that reaches the namespace of its tasks.
    async fn registry(&self, caller: &Caller) -> Result<Arc<Planner>, Fault> {
        let namespace = Toolchain.namespace();
        caller.may(&Object::namespace(namespace), || {
            let message = format!("no namespace {namespace:?} is reached by this identity");
            Fault::new(FaultCode::NamespaceNotFound, message)
        })?;
        self.shards.of_namespace(namespace).await
    }
}
