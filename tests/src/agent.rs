//! An agent that drives steps over the API, as any program with generated code would.

use crate::harness::{PATIENCE, Process};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use surety_common::wire::client::{ServiceChannel, channel};
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use tempfile::NamedTempFile;
use tonic::{Code, Status};

/// The name of the identity that submits runs in tests with agents.
pub const PERSON: &str = "person";
/// The name of the identity of the agents.
pub const AGENT: &str = "agent";
/// Another driver of the same namespaces.
pub const OTHER: &str = "other";
/// A worker of every namespace.
pub const WORKER: &str = "ci";
/// The token of the agent's identity as an approver and an operator.
pub const SECOND_ROLE: &str = "second-role";
/// A driver of another namespace.
pub const FOREIGN: &str = "foreign";

/// The token of an identity.
pub fn secret(name: &str) -> String {
    format!("{name}-0123456789abcdef0123456789abcdef0123456789abcdef")
}

/// A token file with a person, two drivers and a worker of every namespace, a driver of another one, and what the
/// services need.
///
/// # Errors
/// It cannot be written.
pub fn token_file() -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600))?;
    let all = "viewer,submitter,operator,approver,service";
    writeln!(file, "{} {PERSON} {all} *", secret(PERSON))?;
    writeln!(file, "{} {AGENT} driver *", secret(AGENT))?;
    writeln!(file, "{} {AGENT} approver,operator *", secret(SECOND_ROLE))?;
    writeln!(file, "{} {OTHER} driver *", secret(OTHER))?;
    writeln!(file, "{} {WORKER} worker *", secret(WORKER))?;
    writeln!(file, "{} {FOREIGN} driver elsewhere", secret(FOREIGN))?;
    writeln!(file, "{} service service *", secret("service"))?;
    Ok(file)
}

/// A leased step, with what its next turn is decided from.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// The lease.
    pub lease: v1::StepLease,
    /// The context of the next turn.
    pub context: v1::StepContext,
}

/// One agent.
#[derive(Clone)]
pub struct Agent {
    client: ExecutorServiceClient<ServiceChannel>,
    driver_id: String,
    /// The span in which it submits.
    trace_parent: Option<String>,
}

impl Agent {
    /// An agent of an identity, at an executor.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub fn new(executor: &Process, identity: &str, driver_id: &str) -> Result<Self> {
        Self::at(&executor.url(), identity, driver_id)
    }

    /// An agent of an identity, at an address.
    ///
    /// # Errors
    /// The address or the token cannot be used.
    pub fn at(url: &str, identity: &str, driver_id: &str) -> Result<Self> {
        let channel = channel(url, Some(&Token::new(&secret(identity))?))?;
        let driver_id = driver_id.to_owned();
        let (client, trace_parent) = (ExecutorServiceClient::new(channel), None);
        Ok(Self { client, driver_id, trace_parent })
    }

    /// The same agent, submitting inside the span of this `traceparent`.
    #[must_use]
    pub fn within(self, trace_parent: &str) -> Self {
        Self { trace_parent: Some(trace_parent.to_owned()), ..self }
    }

    /// Leases the next step, of one run or of any. None when none was offered in time.
    ///
    /// # Errors
    /// The call's.
    pub async fn lease(&self, run_id: &str, wait_s: i64) -> Result<Option<Work>, Status> {
        let request = v1::LeaseStepRequest {
            run_id: run_id.to_owned(),
            wait: Some(prost_types::Duration { seconds: wait_s, nanos: 0 }),
            ..v1::LeaseStepRequest::default()
        };
        self.lease_as(request).await
    }

    /// As [`Agent::lease`], of the runs of a namespace.
    ///
    /// # Errors
    /// The call's.
    pub async fn lease_in(&self, namespace: &str, wait_s: i64) -> Result<Option<Work>, Status> {
        let request = v1::LeaseStepRequest {
            namespaces: vec![namespace.to_owned()],
            wait: Some(prost_types::Duration { seconds: wait_s, nanos: 0 }),
            ..v1::LeaseStepRequest::default()
        };
        self.lease_as(request).await
    }

    /// Leases a step that a request selects, under this agent's name.
    ///
    /// # Errors
    /// The call's.
    pub async fn lease_as(&self, request: v1::LeaseStepRequest) -> Result<Option<Work>, Status> {
        let request = v1::LeaseStepRequest { driver_id: self.driver_id.clone(), ..request };
        let v1::LeaseStepResponse { lease, context, .. } =
            self.client.clone().lease_step(request).await?.into_inner();
        Ok(lease.zip(context).map(|(lease, context)| Work { lease, context }))
    }

    /// Leases a step of a run, and waits for it. A task names its run before the run is there.
    ///
    /// # Errors
    /// The call's, and when none was offered in time.
    pub async fn work(&self, run_id: &str) -> Result<Work> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.lease(run_id, 5).await {
                Ok(Some(work)) => return Ok(work),
                Ok(None) => {}
                Err(status) if status.code() == Code::NotFound => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(status) => return Err(status.into()),
            }
        }
        anyhow::bail!("no step of run {run_id} was offered in time")
    }

    /// Submits a reply as raw text.
    ///
    /// # Errors
    /// The call's.
    pub async fn submit(
        &self,
        work: &Work,
        raw: &str,
    ) -> Result<v1::SubmitDecisionResponse, Status> {
        self.send(work, DecisionSource::Raw(raw.to_owned())).await
    }

    /// Submits a reply in either form.
    ///
    /// # Errors
    /// The call's.
    pub async fn send(
        &self,
        work: &Work,
        source: DecisionSource,
    ) -> Result<v1::SubmitDecisionResponse, Status> {
        let usage = v1::Usage { input_tokens: 5, output_tokens: 2, ..Default::default() };
        self.send_with(work, source, Some(usage)).await
    }

    /// Submits a reply with what it cost.
    ///
    /// # Errors
    /// The call's.
    pub async fn send_with(
        &self,
        work: &Work,
        source: DecisionSource,
        usage: Option<v1::Usage>,
    ) -> Result<v1::SubmitDecisionResponse, Status> {
        let request = v1::SubmitDecisionRequest {
            fence: Some(fence(&work.lease)),
            turn: work.context.turn,
            decision_source: Some(source),
            usage,
        };
        let mut request = tonic::Request::new(request);
        if let Some(trace_parent) = &self.trace_parent {
            let value = trace_parent.parse().map_err(|_| Status::internal("no traceparent"))?;
            request.metadata_mut().insert("traceparent", value);
        }
        Ok(self.client.clone().submit_decision(request).await?.into_inner())
    }

    /// Sends a sign of life for leases.
    ///
    /// # Errors
    /// The call's.
    pub async fn heartbeat(
        &self,
        fences: &[v1::StepFence],
    ) -> Result<v1::HeartbeatResponse, Status> {
        let (driver_id, fences) = (self.driver_id.clone(), fences.to_vec());
        let request = v1::HeartbeatRequest { driver_id, fences };
        Ok(self.client.clone().heartbeat(request).await?.into_inner())
    }

    /// Gives a step back.
    ///
    /// # Errors
    /// The call's.
    pub async fn release(&self, work: &Work) -> Result<v1::StepState, Status> {
        self.release_for(work, "the agent stops").await
    }

    /// Gives a step back for a reason.
    ///
    /// # Errors
    /// The call's.
    pub async fn release_for(&self, work: &Work, reason: &str) -> Result<v1::StepState, Status> {
        let reason = reason.to_owned();
        let request = v1::ReleaseStepRequest { fence: Some(fence(&work.lease)), reason };
        Ok(self.client.clone().release_step(request).await?.into_inner().step_state())
    }

    /// Takes the turns of a step with these replies, in order. Answers the outcome of the last.
    ///
    /// # Errors
    /// A call failed, or a turn that is not the last ended the lease.
    pub async fn take_turns(
        &self,
        work: Work,
        replies: &[Value],
    ) -> Result<v1::SubmitDecisionResponse> {
        let mut work = Some(work);
        let mut last = None;
        for reply in replies {
            let at = work.take().context("the lease ended before the last reply")?;
            let answer = self.submit(&at, &reply.to_string()).await?;
            let next = answer.next.clone();
            work = next.map(|context| Work { lease: at.lease, context });
            last = Some(answer);
        }
        last.context("no reply")
    }
}

/// What a write names of a lease.
pub fn fence(lease: &v1::StepLease) -> v1::StepFence {
    let v1::StepLease { run_id, step_id, lease_epoch, .. } = lease.clone();
    v1::StepFence { run_id, step_id, lease_epoch }
}

/// A reply that calls a tool.
pub fn call(name: &str, arguments: Value) -> Value {
    json!({"action": "continue", "tool_call": {"name": name, "arguments": arguments}})
}

/// A reply that ends its step.
pub fn next_plan() -> Value {
    json!({"action": "next_plan", "goal_check": "the step is done"})
}
