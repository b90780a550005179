//! A tool worker, as any program with generated code would be.

use crate::agent::secret;
use crate::harness::{Deployment, PATIENCE, Process};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::time::Duration;
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::connect_request::Message as Request;
use surety_common::wire::v1::connect_response::Message;
use surety_common::wire::v1::tool_service_client::ToolServiceClient;
use surety_common::wire::value::patience;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// One connected worker. Dropped, its stream ends without a word.
pub struct Worker {
    outgoing: mpsc::Sender<v1::ConnectRequest>,
    incoming: Streaming<v1::ConnectResponse>,
    /// What the executor said of the announcement.
    pub announced: v1::Announced,
    beats: JoinHandle<()>,
    /// Calls that arrived before what was waited for.
    early: VecDeque<v1::ToolInvocation>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

/// Says twice in each interval that the worker is alive.
async fn beat(outgoing: mpsc::Sender<v1::ConnectRequest>, interval: Duration) {
    let message =
        || v1::ConnectRequest { message: Some(Request::Heartbeat(v1::WorkerHeartbeat {})) };
    while outgoing.send(message()).await.is_ok() {
        tokio::time::sleep(interval / 2).await;
    }
}

impl Worker {
    /// Connects to an executor.
    ///
    /// # Errors
    /// The announcement is refused.
    pub async fn connect(
        executor: &Process,
        identity: &str,
        announce: v1::Announce,
    ) -> Result<Self, Status> {
        Self::connect_at(&executor.url(), identity, announce).await
    }

    /// Connects to the executor at an address.
    ///
    /// # Errors
    /// The announcement is refused.
    pub async fn connect_at(
        url: &str,
        identity: &str,
        announce: v1::Announce,
    ) -> Result<Self, Status> {
        let opened = Self::open_at(url, identity, Request::Announce(announce)).await;
        let (outgoing, mut incoming) = opened?;
        let first = incoming.message().await?.and_then(|first| first.message);
        match first {
            Some(Message::Announced(announced)) => {
                let interval = announced
                    .heartbeat_interval
                    .and_then(|every| patience("heartbeat_interval", every).ok());
                let interval = interval.unwrap_or_default();
                let beats = tokio::spawn(beat(outgoing.clone(), interval));
                Ok(Self { outgoing, incoming, announced, beats, early: VecDeque::new() })
            }
            other => Err(Status::internal(format!("not announced: {other:?}"))),
        }
    }

    /// Opens a stream with any first message.
    ///
    /// # Errors
    /// The call's.
    pub async fn open(
        executor: &Process,
        identity: &str,
        first: Request,
    ) -> Result<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>), Status> {
        Self::open_at(&executor.url(), identity, first).await
    }

    async fn open_at(
        url: &str,
        identity: &str,
        first: Request,
    ) -> Result<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>), Status> {
        let token = Token::new(&secret(identity)).map_err(|it| Status::internal(it.to_string()))?;
        let channel = channel(url, Some(&token));
        let channel = channel.map_err(|error| Status::internal(error.to_string()))?;
        let (outgoing, requests) = mpsc::channel(4096);
        let message = v1::ConnectRequest { message: Some(first) };
        outgoing.send(message).await.map_err(|error| Status::internal(error.to_string()))?;
        let stream = ReceiverStream::new(requests);
        let incoming = ToolServiceClient::new(channel).connect(stream).await?.into_inner();
        Ok((outgoing, incoming))
    }

    /// Sends any message.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn send(&self, message: Request) -> Result<()> {
        self.outgoing.send(v1::ConnectRequest { message: Some(message) }).await?;
        Ok(())
    }

    /// The next message.
    ///
    /// # Errors
    /// None came in time, or the stream ended.
    pub async fn next(&mut self) -> Result<Message> {
        match self.early.pop_front() {
            Some(call) => Ok(Message::Invocation(call)),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Result<Message> {
        let next = timeout(PATIENCE, self.incoming.message()).await.context("no message")??;
        next.and_then(|next| next.message).context("the stream ended")
    }

    /// The status with which the stream ends.
    ///
    /// # Errors
    /// It goes on, or ends without one.
    pub async fn end(&mut self) -> Result<Status> {
        loop {
            match timeout(PATIENCE, self.incoming.message()).await.context("no end")? {
                Err(status) => return Ok(status),
                Ok(None) => bail!("the stream ended without a status"),
                Ok(Some(_)) => {}
            }
        }
    }

    /// The next call.
    ///
    /// # Errors
    /// Another message came.
    pub async fn call(&mut self) -> Result<v1::ToolInvocation> {
        let next = self.next().await?;
        let Message::Invocation(call) = next else { bail!("no call: {next:?}") };
        Ok(call)
    }

    /// Answers a call.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn answer(&self, result: v1::ToolResult) -> Result<()> {
        self.send(Request::Result(result)).await
    }

    /// Answers a call, and waits until the result is stored.
    ///
    /// # Errors
    /// It is refused.
    pub async fn store(&mut self, result: v1::ToolResult) -> Result<()> {
        self.answer(result).await?;
        loop {
            match self.read().await? {
                Message::Stored(_) => return Ok(()),
                // The next call may be there before the result of the one before is stored.
                Message::Invocation(call) => self.early.push_back(call),
                other @ (Message::Announced(_)
                | Message::Cancel(_)
                | Message::Refused(_)
                | Message::Draining(_)) => bail!("not stored: {other:?}"),
            }
        }
    }

    /// The code with which a message is refused.
    ///
    /// # Errors
    /// Another message came.
    pub async fn refusal(&mut self, message: Request) -> Result<String> {
        self.send(message).await?;
        self.refused().await
    }

    /// The code of a refusal.
    ///
    /// # Errors
    /// Another message came.
    pub async fn refused(&mut self) -> Result<String> {
        let next = self.next().await?;
        let Message::Refused(refused) = next else { bail!("not refused: {next:?}") };
        Ok(refused.code)
    }

    /// The call that is cancelled.
    ///
    /// # Errors
    /// Another message came.
    pub async fn cancelled(&mut self) -> Result<v1::CancelInvocation> {
        loop {
            match self.read().await? {
                Message::Cancel(cancel) => return Ok(cancel),
                // The call that follows the cancelled one may be there first.
                Message::Invocation(call) => self.early.push_back(call),
                other @ (Message::Announced(_)
                | Message::Stored(_)
                | Message::Refused(_)
                | Message::Draining(_)) => bail!("not cancelled: {other:?}"),
            }
        }
    }
}

/// A tool whose arguments have a text.
pub fn tool(name: &str) -> v1::Tool {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    v1::Tool {
        name: name.to_owned(),
        description: format!("Does {name}."),
        input_schema_json: schema.to_owned(),
        ..v1::Tool::default()
    }
}

/// The announcement of a worker.
pub fn announce(worker_id: &str, tools: &[v1::Tool]) -> v1::Announce {
    v1::Announce {
        worker_id: worker_id.to_owned(),
        tools: tools.to_vec(),
        max_parallel: 4,
        ..v1::Announce::default()
    }
}

/// The successful result of a call.
pub fn result(call: &v1::ToolInvocation, output: &str) -> v1::ToolResult {
    v1::ToolResult {
        call_id: call.call_id.clone(),
        fence: call.fence,
        success: true,
        summary: "done".to_owned(),
        output: output.to_owned(),
        ..v1::ToolResult::default()
    }
}

/// An entry of a policy: a tool, and the identities that may serve it.
pub fn entry(tool: &str, identity: &str) -> v1::ToolWorkerPolicy {
    v1::ToolWorkerPolicy {
        tool: tool.to_owned(),
        identities: vec![identity.to_owned()],
        ..v1::ToolWorkerPolicy::default()
    }
}

/// Lets workers serve tools in the default namespace.
///
/// # Errors
/// The call failed.
pub async fn admit(deployment: &Deployment, entries: &[v1::ToolWorkerPolicy]) -> Result<()> {
    admit_in(deployment, "default", entries).await
}

/// Lets workers serve tools in a namespace.
///
/// # Errors
/// The call failed.
pub async fn admit_in(
    deployment: &Deployment,
    namespace: &str,
    entries: &[v1::ToolWorkerPolicy],
) -> Result<()> {
    let policy = v1::NamespacePolicy { tool_workers: entries.to_vec(), ..Default::default() };
    let request = v1::SetNamespacePolicyRequest {
        namespace: namespace.to_owned(),
        policy: Some(policy),
        ..v1::SetNamespacePolicyRequest::default()
    };
    deployment.admin()?.set_namespace_policy(request).await?;
    Ok(())
}
