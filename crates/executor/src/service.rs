//! The RPCs of the executor: wire to domain, one call, domain to wire.

use crate::stateless;
use crate::tool::{Annotations, Registry, ToolSpec};
use futures::stream::BoxStream;
use std::sync::Arc;
use surety_common::wire::status::{needs_database, unimplemented};
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_server::ExecutorService;
use surety_common::wire::v1::tool_service_server::ToolService;
use surety_common::wire::value::whole_seconds;
use tonic::{Request, Response, Status, Streaming};

/// The provider of the tools that every executor has.
const BUILTIN: &str = "builtin";

/// The executor's handlers.
#[derive(Clone)]
pub(crate) struct Service {
    tools: Arc<Registry>,
    has_database: bool,
}

impl Service {
    /// Creates handlers over the tools.
    pub(crate) fn new(tools: Arc<Registry>) -> Self {
        Self { tools, has_database: true }
    }

    /// The handlers that store no state.
    pub(crate) fn stateless(tools: Arc<Registry>) -> Self {
        Self { tools, has_database: false }
    }

    fn refuse(&self, rpc: &str) -> Status {
        if self.has_database { unimplemented(rpc) } else { needs_database(rpc) }
    }
}

#[tonic::async_trait]
impl ExecutorService for Service {
    async fn parse_decision(
        &self,
        request: Request<v1::ParseDecisionRequest>,
    ) -> Result<Response<v1::ParseDecisionResponse>, Status> {
        let v1::ParseDecisionRequest { raw } = request.into_inner();
        Ok(Response::new(stateless::read_decision(&raw)))
    }

    async fn lease_step(
        &self,
        _: Request<v1::LeaseStepRequest>,
    ) -> Result<Response<v1::LeaseStepResponse>, Status> {
        Err(self.refuse("LeaseStep"))
    }

    async fn submit_decision(
        &self,
        _: Request<v1::SubmitDecisionRequest>,
    ) -> Result<Response<v1::SubmitDecisionResponse>, Status> {
        Err(self.refuse("SubmitDecision"))
    }

    async fn record_receipt(
        &self,
        _: Request<v1::RecordReceiptRequest>,
    ) -> Result<Response<v1::RecordReceiptResponse>, Status> {
        Err(self.refuse("RecordReceipt"))
    }

    async fn heartbeat(
        &self,
        _: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        Err(self.refuse("Heartbeat"))
    }

    async fn release_step(
        &self,
        _: Request<v1::ReleaseStepRequest>,
    ) -> Result<Response<v1::ReleaseStepResponse>, Status> {
        Err(self.refuse("ReleaseStep"))
    }
}

#[tonic::async_trait]
impl ToolService for Service {
    type ConnectStream = BoxStream<'static, Result<v1::ConnectResponse, Status>>;

    async fn connect(
        &self,
        _: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        Err(self.refuse("Connect"))
    }

    async fn list_tools(
        &self,
        request: Request<v1::ListToolsRequest>,
    ) -> Result<Response<v1::ListToolsResponse>, Status> {
        let v1::ListToolsRequest { provider } = request.into_inner();
        if !provider.is_empty() && provider != BUILTIN {
            return Ok(Response::new(v1::ListToolsResponse::default()));
        }
        let tools = self.tools.specs().map(shown).collect();
        Ok(Response::new(v1::ListToolsResponse { tools }))
    }
}

fn shown(spec: &ToolSpec) -> v1::Tool {
    let ToolSpec { name, description, input_schema, annotations, scan: _, default_timeout } = spec;
    let Annotations { read_only, destructive, idempotent, open_world } = *annotations;
    v1::Tool {
        name: name.clone(),
        description: description.clone(),
        input_schema_json: input_schema.to_string(),
        annotations: Some(v1::ToolAnnotations {
            read_only: Some(read_only),
            destructive: Some(destructive),
            idempotent: Some(idempotent),
            open_world: Some(open_world),
        }),
        return_sample: String::new(),
        timeout: Some(whole_seconds(default_timeout.as_secs())),
        provider: BUILTIN.to_owned(),
        needs_confirmation: false,
    }
}
