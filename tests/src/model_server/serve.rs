//! The sockets of the model server.

use super::reply::{Finish, Reply, tokens};
use super::strict::{self, Refusal};
use super::{Asked, Form, Recorded, Shared, anthropic, locked, openai};
use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path as UrlPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::Listener;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use surety_common::tls::{Tls, TlsFiles};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The largest body that is read.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// The characters of a part of a streamed text.
const PIECE: usize = 7;

/// Reads a certificate and its key.
pub(super) fn tls((cert, key): &(PathBuf, PathBuf)) -> Result<TlsAcceptor> {
    let files =
        TlsFiles { cert: Some(cert.clone()), key: Some(key.clone()), ..TlsFiles::default() };
    let config = Tls::load(files)?.server().context("a certificate")?;
    Ok(TlsAcceptor::from(config))
}

pub(super) fn spawn(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
) -> JoinHandle<()> {
    let router = Router::new()
        .route("/v1/chat/completions", post(|state, request| answer(state, Form::OpenAi, request)))
        .route("/v1/messages", post(|state, request| answer(state, Form::Anthropic, request)))
        .route("/v1/models", get(models))
        .route("/v1/models/{id}", get(model))
        .with_state(shared);
    tokio::spawn(async move {
        match tls {
            Some(acceptor) => drop(axum::serve(TlsListener { listener, acceptor }, router).await),
            None => drop(axum::serve(listener, router).await),
        }
    })
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Marks a record as closed early unless it is told that the answer was whole.
struct Watched {
    shared: Arc<Shared>,
    place: usize,
    is_whole: bool,
}

impl Watched {
    fn new(shared: Arc<Shared>, record: Recorded) -> Self {
        let mut place = 0;
        shared.log.send_modify(|log| {
            place = log.len();
            log.push(record);
        });
        let mut at_work = locked(&shared.at_work);
        at_work.0 += 1;
        at_work.1 = at_work.1.max(at_work.0);
        drop(at_work);
        Self { shared, place, is_whole: false }
    }

    fn change(&self, change: impl FnOnce(&mut Recorded)) {
        self.shared.log.send_modify(|log| {
            if let Some(record) = log.get_mut(self.place) {
                change(record);
            }
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut at_work = locked(&self.shared.at_work);
        at_work.0 = at_work.0.saturating_sub(1);
        drop(at_work);
        if !self.is_whole {
            self.change(|record| record.closed_early = true);
        }
    }
}

/// Reads and records a request.
async fn record(shared: &Arc<Shared>, request: Request) -> (Watched, HeaderMap, Value) {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, MAX_BODY).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let recorded = Recorded {
        line: format!("{} {}", parts.method, parts.uri.path()),
        version: format!("{:?}", parts.version),
        headers: headers.collect(),
        body: body.clone(),
        status: None,
        closed_early: false,
    };
    (Watched::new(Arc::clone(shared), recorded), parts.headers, body)
}

async fn answer(State(shared): State<Arc<Shared>>, form: Form, request: Request) -> Response {
    let (watched, headers, body) = record(&shared, request).await;
    let settings = shared.settings();
    let read = allow(form, &headers, settings.key.as_deref())
        .and_then(|()| strict::read(form, &body, &settings));
    let mut asked = match read {
        Ok(asked) => asked,
        Err(refusal) => return whole(watched, &refused(form, &refusal), refusal.status),
    };
    let reply = shared.reply(&mut asked);
    let reply = limited(&asked, reply);
    if !reply.before_head.is_zero() {
        tokio::time::sleep(reply.before_head).await;
    }
    let body = match (&reply.raw, reply.status) {
        (Some(raw), _) => vec![raw.clone()],
        (None, 200) if asked.stream => events(&asked, &reply),
        (None, 200) => vec![match form {
            Form::OpenAi => openai::whole(&asked, &reply).to_string(),
            Form::Anthropic => anthropic::whole(&asked, &reply).to_string(),
        }],
        (None, status) => {
            let message = reply.text.clone();
            vec![refused(form, &Refusal { status, code: "scripted", message }).to_string()]
        }
    };
    send(watched, &asked, reply, body)
}

/// A reply that is longer than the request's token limit is cut by it.
fn limited(asked: &Asked, mut reply: Reply) -> Reply {
    let limit = asked.max_tokens.unwrap_or(u64::MAX);
    if reply.status == 200 && tokens(&reply.text) > limit {
        let mut end = usize::try_from(limit.saturating_mul(4)).unwrap_or(usize::MAX);
        while !reply.text.is_char_boundary(end) {
            end -= 1;
        }
        reply.text.truncate(end);
        reply.finish = Finish::Length;
    }
    reply
}

fn allow(form: Form, headers: &HeaderMap, key: Option<&str>) -> Result<(), Refusal> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if header("content-type") != Some("application/json") {
        return strict::refuse(415, "invalid_request_error", "the body is not application/json");
    }
    if form == Form::Anthropic && header("anthropic-version").is_none() {
        return strict::refuse(
            400,
            "invalid_request_error",
            "anthropic-version: header is required",
        );
    }
    may(form, headers, key)
}

fn may(form: Form, headers: &HeaderMap, key: Option<&str>) -> Result<(), Refusal> {
    let Some(key) = key else { return Ok(()) };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let shown = match form {
        Form::OpenAi => header("authorization").and_then(|it| it.strip_prefix("Bearer ")),
        Form::Anthropic => header("x-api-key"),
    };
    if shown == Some(key) {
        return Ok(());
    }
    // As some servers do: the wrong key stands in the message.
    let shown = shown.unwrap_or_default();
    strict::refuse(401, "invalid_api_key", format!("Incorrect API key provided: {shown}."))
}

fn refused(form: Form, refusal: &Refusal) -> Value {
    match form {
        Form::OpenAi => openai::error(refusal.code, &refusal.message),
        Form::Anthropic => {
            let kind = match refusal.status {
                401 => "authentication_error",
                404 => "not_found_error",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                status if status >= 500 => "api_error",
                _ => "invalid_request_error",
            };
            anthropic::error(kind, &refusal.message)
        }
    }
}

fn events(asked: &Asked, reply: &Reply) -> Vec<String> {
    let pieces = |text: &str| -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
    };
    match asked.form {
        Form::OpenAi => openai::events(asked, reply, pieces),
        Form::Anthropic => anthropic::events(asked, reply, pieces),
    }
}

async fn models(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    listed(&shared, request, None).await
}

async fn model(
    State(shared): State<Arc<Shared>>,
    UrlPath(id): UrlPath<String>,
    request: Request,
) -> Response {
    listed(&shared, request, Some(id)).await
}

async fn listed(shared: &Arc<Shared>, request: Request, id: Option<String>) -> Response {
    let (watched, headers, _) = record(shared, request).await;
    let settings = shared.settings();
    let is_anthropic = headers.contains_key("anthropic-version");
    let form = if is_anthropic { Form::Anthropic } else { Form::OpenAi };
    if let Err(refusal) = may(form, &headers, settings.key.as_deref()) {
        return whole(watched, &refused(form, &refusal), refusal.status);
    }
    let object =
        |id: &String| json!({"id": id, "object": "model", "type": "model", "owned_by": "test"});
    match id {
        _ if !settings.lists_models => whole(watched, &json!({"detail": "Not Found"}), 404),
        None => {
            let all: Vec<Value> = settings.models.iter().map(object).collect();
            whole(watched, &json!({"object": "list", "data": all}), 200)
        }
        Some(id) if settings.models.contains(&id) => whole(watched, &object(&id), 200),
        Some(id) => {
            let message = format!("model: {id}");
            let refusal = Refusal { status: 404, code: "model_not_found", message };
            whole(watched, &refused(form, &refusal), 404)
        }
    }
}

fn whole(mut watched: Watched, body: &Value, status: u16) -> Response {
    watched.change(|record| record.status = Some(status));
    watched.is_whole = true;
    respond(status, "application/json", &[], Body::from(body.to_string()))
}

fn respond(status: u16, kind: &str, headers: &[(String, String)], body: Body) -> Response {
    let mut builder = Response::builder()
        .status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if headers.iter().all(|(name, _)| name != "content-type") {
        builder = builder.header("content-type", kind);
    }
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(body).unwrap_or_default()
}

/// Sends the parts of a body with the pace and the failures of the reply.
fn send(watched: Watched, asked: &Asked, reply: Reply, parts: Vec<String>) -> Response {
    watched.change(|record| record.status = Some(reply.status));
    let is_stream = asked.stream && reply.status == 200;
    let kind = if is_stream { "text/event-stream" } else { "application/json" };
    let headers = reply.headers.clone();
    let is_quick = reply.before_body.is_zero()
        && reply.between.is_zero()
        && reply.cut_after.is_none()
        && reply.stall_after.is_none();
    if is_quick {
        let mut watched = watched;
        watched.is_whole = true;
        return respond(reply.status, kind, &headers, Body::from(parts.concat()));
    }
    let status = reply.status;
    let body = Paced { watched, reply, parts: parts.into_iter(), sent: 0, began: false };
    let stream = stream::unfold(body, Paced::next).boxed();
    respond(status, kind, &headers, Body::from_stream(stream))
}

struct Paced {
    watched: Watched,
    reply: Reply,
    parts: std::vec::IntoIter<String>,
    sent: usize,
    began: bool,
}

impl Paced {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let pause = if self.began { self.reply.between } else { self.reply.before_body };
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        self.began = true;
        let limit = self.reply.cut_after.or(self.reply.stall_after).unwrap_or(usize::MAX);
        if self.sent >= limit {
            if self.reply.stall_after.is_some() {
                std::future::pending::<()>().await;
            }
            self.watched.is_whole = true;
            return Some((Err(io::Error::other("scripted cut")), self));
        }
        let Some(part) = self.parts.next() else {
            self.watched.is_whole = true;
            return None;
        };
        let bytes = part.as_bytes();
        let bytes = bytes.get(..bytes.len().min(limit - self.sent)).unwrap_or_default().to_vec();
        self.sent += bytes.len();
        Some((Ok(Bytes::from(bytes)), self))
    }
}
