//! The protocol's client, over a process or over HTTP.

use super::content;
use super::error::CallFailure;
use super::http;
use super::listing::{Listed, Listing, MOST_PAGES, MOST_TOOLS};
use super::process::ServerProcess;
use super::stdio::{TOO_LARGE, Verdict};
use super::{Answer, Asked, LEAVING, McpClient, Request, text};
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, Implementation,
    ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequest, ReadResourceRequestParams, RequestMetaObject, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer, PeerRequestOptions,
    RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::IntoTransport;
use rmcp::{ClientHandler, model};
use serde_json::Value;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The key of a call's metadata with its idempotency key.
const IDEMPOTENCY_KEY: &str = "surety/idempotency-key";
/// How long the notification of a cancellation may take to be sent.
const TELLING: Duration = Duration::from_millis(500);
/// How long the end of a process may take to be known after its output ended.
const ENDED_BY_NOW: Duration = Duration::from_secs(2);
/// The time limit of a list.
const LISTING: Duration = Duration::from_secs(20);

/// Which handshake begins a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    /// `initialize`, up to the protocol version 2025-11-25.
    Initialize,
    /// `server/discover`, from 2026-07-28 on.
    Discover,
}

/// Why a connection was not made.
pub(super) enum NotConnected {
    /// The server speaks only versions of the other handshake.
    OtherHandshake,
    /// Any other reason.
    Failed(CallFailure),
}

/// A connection to a server.
pub(super) struct RmcpClient {
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    peer: Peer<RoleClient>,
    news: Arc<News>,
    process: Option<ServerProcess>,
    verdict: Verdict,
    over: CancellationToken,
}

/// What a server said by itself.
#[derive(Debug, Default)]
struct News {
    changed: AtomicBool,
    notify: Notify,
}

/// Answers what a server asks: nothing but a ping, because no capability is announced.
#[derive(Debug, Clone)]
struct Handler(Arc<News>);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("surety", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(model::ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.changed.store(true, Ordering::SeqCst);
        self.0.notify.notify_one();
    }
}

impl RmcpClient {
    /// Begins a connection over a transport. Without a result the process is ended.
    ///
    /// # Errors
    /// [`NotConnected`]
    pub(super) async fn connect<T, E, A>(
        transport: T,
        handshake: Handshake,
        (process, verdict): (Option<ServerProcess>, Verdict),
    ) -> Result<Self, NotConnected>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: Error + Send + Sync + 'static,
    {
        let news = Arc::new(News::default());
        let lifecycle = match handshake {
            Handshake::Initialize => ClientLifecycleMode::Initialize,
            Handshake::Discover => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
            }
        };
        let connecting =
            serve_client_with_lifecycle(Handler(Arc::clone(&news)), transport, lifecycle);
        let service = match connecting.await {
            Ok(service) => service,
            Err(error) => return Err(not_connected(&error, process, &verdict).await),
        };
        let peer = service.peer().clone();
        let client = Self {
            service: Mutex::new(Some(service)),
            peer,
            news,
            process,
            verdict,
            over: CancellationToken::new(),
        };
        if let Some(version) = client.unknown_version() {
            client.end(true).await;
            let known = ProtocolVersion::KNOWN_VERSIONS.iter().map(ToString::to_string);
            let why = format!(
                "it speaks version {} of the protocol, and this executor {}",
                text::line(&version),
                known.collect::<Vec<_>>().join(", ")
            );
            return Err(NotConnected::Failed(CallFailure::Unreadable(why)));
        }
        Ok(client)
    }

    fn unknown_version(&self) -> Option<String> {
        let version = self.peer.peer_info()?.protocol_version.clone();
        (!ProtocolVersion::KNOWN_VERSIONS.contains(&version)).then(|| version.to_string())
    }

    /// Sends a request, and waits for the answer until the deadline or the cancellation, of which the server is told.
    async fn ask(
        &self,
        request: ClientRequest,
        key: Option<String>,
        (deadline, cancel): (Instant, &CancellationToken),
    ) -> Result<ServerResult, CallFailure> {
        let mut options = PeerRequestOptions::no_options();
        if let Some(key) = key {
            let mut meta = RequestMetaObject::new();
            meta.0.0.insert(IDEMPOTENCY_KEY.to_owned(), Value::String(key));
            options = options.with_meta(meta);
        }
        let sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CallFailure::Cancelled),
            () = sleep_until(deadline) => return Err(CallFailure::TimedOut),
            sent = self.peer.send_cancellable_request(request, options) => sent,
        };
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.failure(error).await),
        };
        let (why, reason) = tokio::select! {
            answered = &mut handle.rx => match answered {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) => return Err(self.failure(error).await),
                Err(_) => return Err(self.lost().await),
            },
            () = cancel.cancelled() => (CallFailure::Cancelled, "the call was cancelled"),
            () = sleep_until(deadline) => (CallFailure::TimedOut, "the deadline of the call passed"),
        };
        if timeout(TELLING, handle.cancel(Some(reason.to_owned()))).await.is_err() {
            tracing::debug!("mcp: a server could not be told of a cancellation in time");
        }
        Err(why)
    }

    async fn failure(&self, error: ServiceError) -> CallFailure {
        if let ServiceError::McpError(error) = error {
            if error.code == TOO_LARGE {
                return CallFailure::TooLarge(error.message.into_owned());
            }
            let said = text::line(&error.message);
            return CallFailure::Refused(format!("it answered the error {}: {said}", error.code.0));
        }
        if let ServiceError::UnexpectedResponse = error {
            let why = "it answered with a result of another kind than was asked for";
            return CallFailure::Unreadable(why.to_owned());
        }
        if let ServiceError::TransportSend(error) = error
            && self.process.is_none()
        {
            return http::failure(error.error.as_ref());
        }
        self.lost().await
    }

    /// Why no answer comes any more.
    async fn lost(&self) -> CallFailure {
        self.over.cancel();
        CallFailure::Lost(match (self.verdict.get(), &self.process) {
            (Some(why), _) => why,
            (None, Some(process)) => match process.wait(ENDED_BY_NOW).await {
                Some(why) => why,
                None => "it closed its output".to_owned(),
            },
            (None, None) => "the connection to it broke".to_owned(),
        })
    }

    async fn tools(&self, until: Instant) -> Result<Vec<Listed>, CallFailure> {
        let never = CancellationToken::new();
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let request = ListToolsRequest { params: Some(params), ..Default::default() };
            let asked = ClientRequest::ListToolsRequest(request);
            let ServerResult::ListToolsResult(page) =
                self.ask(asked, None, (until, &never)).await?
            else {
                let why = "it answered with something else than a list of tools".to_owned();
                return Err(CallFailure::Unreadable(why));
            };
            tools.extend(page.tools.into_iter().map(listed));
            cursor = page.next_cursor;
            // What is left out is counted and said where the list is used.
            if cursor.is_none() || tools.len() > MOST_TOOLS {
                return Ok(tools);
            }
        }
        Err(CallFailure::Unreadable(format!("its list of tools has more than {MOST_PAGES} pages")))
    }
}

fn listed(tool: model::Tool) -> Listed {
    Listed {
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        input_schema: Value::Object(tool.input_schema.as_ref().clone()),
        output_schema: tool.output_schema.map(|schema| Value::Object(schema.as_ref().clone())),
        name: tool.name.into_owned(),
    }
}

/// What a failed start means. The process is ended first, so that its last words are known.
async fn not_connected(
    error: &ClientInitializeError,
    process: Option<ServerProcess>,
    verdict: &Verdict,
) -> NotConnected {
    if let ClientInitializeError::JsonRpcError(data) = error
        && [model::ErrorCode::METHOD_NOT_FOUND, model::ErrorCode::UNSUPPORTED_PROTOCOL_VERSION]
            .contains(&data.code)
    {
        return NotConnected::OtherHandshake;
    }
    let Some(process) = process else {
        if let ClientInitializeError::TransportError { error, .. } = error {
            return NotConnected::Failed(http::failure(error.error.as_ref()));
        }
        return NotConnected::Failed(CallFailure::Unreadable(no_handshake(error)));
    };
    let by_itself = process.wait(LEAVING).await;
    process.end(false).await;
    NotConnected::Failed(match (verdict.get(), by_itself) {
        (Some(why), _) => CallFailure::Unreadable(why),
        (None, Some(why)) => CallFailure::NotSent(why),
        (None, None) => CallFailure::Unreadable(no_handshake(error)),
    })
}

/// What a server answered in place of the handshake.
fn no_handshake(error: &ClientInitializeError) -> String {
    if let ClientInitializeError::JsonRpcError(refused) = error {
        let said = text::line(&refused.message);
        return format!("it answered the handshake with the error {}: {said}", refused.code.0);
    }
    if let ClientInitializeError::ConnectionClosed(_) = error {
        return "it closed the connection before the handshake was over".to_owned();
    }
    "it did not answer the handshake as the protocol says".to_owned()
}

impl McpClient for RmcpClient {
    fn list(&self) -> BoxFuture<'_, Result<Listing, CallFailure>> {
        Box::pin(async move {
            let info = self.peer.peer_info();
            let has = |of: fn(&model::ServerCapabilities) -> bool| {
                info.as_ref().is_some_and(|info| of(&info.capabilities))
            };
            let has_resources = has(|capabilities| capabilities.resources.is_some());
            let tools = match has(|capabilities| capabilities.tools.is_some()) {
                true => self.tools(Instant::now() + LISTING).await?,
                false => Vec::new(),
            };
            Ok(Listing { tools, has_resources })
        })
    }

    fn call<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Answer, CallFailure>> {
        Box::pin(async move {
            let asked = match &request.what {
                Asked::Tool { name, arguments } => {
                    let params = CallToolRequestParams::new(name.clone());
                    let params = params.with_arguments(arguments.clone());
                    ClientRequest::CallToolRequest(CallToolRequest::new(params))
                }
                Asked::Resources(cursor) => {
                    let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
                    let request =
                        ListResourcesRequest { params: Some(params), ..Default::default() };
                    ClientRequest::ListResourcesRequest(request)
                }
                Asked::Resource(uri) => {
                    let params = ReadResourceRequestParams::new(uri.clone());
                    ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
                }
            };
            let until = (request.deadline, &request.cancel);
            let result = self.ask(asked, Some(request.call_id.to_string()), until).await?;
            content::answer(result)
        })
    }

    fn take_changed(&self) -> bool {
        self.news.changed.swap(false, Ordering::SeqCst)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            tokio::select! {
                () = self.news.notify.notified() => {}
                () = self.over.cancelled() => {}
            }
        })
    }

    fn is_open(&self) -> bool {
        let has_ended =
            self.process.as_ref().is_some_and(|process| process.end_in_words().is_some());
        !(self.over.is_cancelled() || has_ended || self.peer.is_transport_closed())
    }

    fn sandbox(&self) -> &str {
        self.process.as_ref().map_or("", ServerProcess::sandbox)
    }

    fn end(&self, at_once: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.over.cancel();
            if let Some(mut service) = self.service.lock().await.take()
                && let Err(error) = service.close_with_timeout(LEAVING).await
            {
                tracing::warn!(%error, "mcp: the connection to a server ended in a panic; report the error");
            }
            let Some(process) = &self.process else { return };
            if !at_once {
                // Its input is closed, which tells it to end.
                process.wait(LEAVING).await;
            }
            process.end(at_once).await;
        })
    }
}
