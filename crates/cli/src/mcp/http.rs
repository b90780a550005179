//! The transport over HTTP: `POST /mcp`, by default on this machine only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::task_manager::TaskManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use surety_common::config::{McpSessionsConfig, Secret};
use surety_common::domain::json::sha256_hex;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::server::{Role, Server, Sessions};
use crate::failure::{Code, Failure};

/// Where the protocol is served.
const PATH: &str = "/mcp";
/// The largest request in bytes.
const MOST_BYTES: usize = 4 << 20;
/// How the client names its session.
const SESSION: &str = "mcp-session-id";
/// When a client that found no free session asks again, in seconds.
const AGAIN: &str = "60";
/// What stands before a token.
const BEARER: &str = "Bearer ";

/// A bound address.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<Secret>,
    most_sessions: usize,
    idle: Duration,
}

/// Binds an address. Every address but this machine's own asks for a token.
///
/// # Errors
/// `setting_invalid` without a token; `port_unusable`.
pub async fn listen(
    address: SocketAddr,
    token: Option<Secret>,
    sessions: &McpSessionsConfig,
) -> Result<Listening, Failure> {
    if token.is_none() && !address.ip().is_loopback() {
        let message =
            format!("{address} can be reached from other machines, and no token is asked for");
        let advice = "Name a file with one with --listen-token-file, or listen on 127.0.0.1.";
        return Err(Failure::new(Code::SettingInvalid, message, advice).at("--listen"));
    }
    let unusable = |error: std::io::Error| {
        let message = format!("{address} cannot be listened on: {error}");
        Failure::new(Code::PortUnusable, message, "Name another one with --listen.")
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    let idle = Duration::from_secs(sessions.mcp_session_idle_s);
    let most_sessions = usize::try_from(sessions.mcp_sessions).unwrap_or(usize::MAX);
    Ok(Listening { listener, address, token, most_sessions, idle })
}

impl Listening {
    /// The address that agents are configured with.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves agents until the role ends.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(self, role: Role) -> Result<(), Failure> {
        let ended = role.ended().clone();
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(self.idle);
        let sessions = Arc::new(sessions);
        let mut config = StreamableHttpServerConfig::default()
            .enforce_origin_validation()
            .with_max_request_body_bytes(MOST_BYTES)
            .with_cancellation_token(ended.clone());
        if !self.address.ip().is_loopback() {
            // The token guards it: a page of a browser does not have it.
            config = config.disable_allowed_hosts();
        }
        let (of_connection, tasks, open) = (role.clone(), TaskManager::new(), Sessions::default());
        let opened = open.clone();
        let service = StreamableHttpService::new(
            move || Ok(Server::over_http(of_connection.clone(), tasks.clone(), opened.clone())),
            Arc::clone(&sessions),
            config,
        );
        let doors = Doors { sessions, most: self.most_sessions, opening: Mutex::new(()) };
        let expected = self.token.map(|token| digest(token.expose()));
        let router = Router::new()
            .route_service(PATH, service)
            .layer(from_fn_with_state(Arc::new(doors), bounded))
            .layer(from_fn_with_state(Arc::new(expected), authorized));
        let until = ended.clone();
        let served = axum::serve(self.listener, router)
            .with_graceful_shutdown(async move { until.cancelled().await })
            .await;
        ended.cancel();
        open.end().await;
        role.disconnected().await;
        served.map_err(|error| {
            Failure::new(Code::ServiceEnded, format!("the listener failed: {error}"), "")
        })
    }
}

/// Digests are compared, so that the time says nothing about the token.
fn digest(token: &str) -> String {
    sha256_hex(token.as_bytes())
}

async fn authorized(
    State(expected): State<Arc<Option<String>>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(expected) = expected.as_ref() else { return next.run(request).await };
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = shown.and_then(|value| value.strip_prefix(BEARER)).map(str::trim);
    if token.is_some_and(|token| digest(token) == *expected) {
        return next.run(request).await;
    }
    let headers = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, headers, "the request has no valid bearer token\n").into_response()
}

/// The sessions, and how many there may be.
struct Doors {
    sessions: Arc<LocalSessionManager>,
    most: usize,
    /// Sessions are opened one after the other, so that they are counted exactly.
    opening: Mutex<()>,
}

/// Refuses a session beyond the most. Requests of sessions, and those that need none, go on.
async fn bounded(State(doors): State<Arc<Doors>>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || request.headers().contains_key(SESSION) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MOST_BYTES).await else {
        let text = format!("the request has more than {MOST_BYTES} bytes, or ended early\n");
        return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
    };
    // What does not read here may open a session all the same.
    let opens = serde_json::from_slice::<Opens>(&body).map_or(true, |it| it.method == "initialize");
    let request = Request::from_parts(head, body.into());
    if !opens {
        return next.run(request).await;
    }
    let _opening = doors.opening.lock().await;
    if doors.sessions.sessions.read().await.len() < doors.most {
        return next.run(request).await;
    }
    let text = format!(
        "{} sessions are open, which is the most (--mcp-sessions, SURETY_MCP_SESSIONS); end one with DELETE, or wait \
         until one has expired\n",
        doors.most
    );
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, AGAIN)], text).into_response()
}

/// The part of a message that says whether it opens a session.
#[derive(Deserialize)]
struct Opens {
    method: String,
}
