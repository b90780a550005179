//! Receives deliveries: everything that can be refused from memory is refused before the database is touched.
//!
//! ```text
//!   path -> hook -> kind of body -> signature header -> size -> body -> signature -> stored -> 202
//! ```

use super::in_flight::InFlight;
use super::known::{Hooks, KnownHook, Lookup};
use super::signature;
use axum::Router;
use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use data_encoding::HEXLOWER;
use futures::StreamExt;
use ring::digest::{Context, SHA256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use surety_common::domain::fault::{Fault, FaultCode, Reason};
use surety_common::domain::toolchain::{BodyKind, Forge, MAX_DELIVERY};
use surety_common::store::{NewDelivery, StoreError};
use surety_common::telemetry::{count_delivery, record_delivery_answer};
use surety_common::wire::server::Peer;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use uuid::Uuid;

/// The longest id of a delivery and name of an event, in bytes.
const MAX_WORD: usize = 200;
/// The longest value of a header that is stored, in bytes.
const MAX_HEADER_VALUE: usize = 1000;
/// The bytes of a refused body that are read, and for how long.
const MAX_DISCARDED: usize = 4 * MAX_DELIVERY;
const DISCARDED_FOR: Duration = Duration::from_secs(1);
/// The beginnings of headers that are stored besides the content type and the user agent.
const STORED_HEADERS: [&str; 4] = ["x-gitea-", "x-forgejo-", "x-github-", "x-gogs-"];
/// Headers with one of these words are not stored.
const SECRET_WORDS: [&str; 3] = ["signature", "token", "secret"];

/// The path where forges deliver events.
pub(crate) fn router(hooks: Arc<Hooks>) -> Router {
    Router::new().route("/webhooks/{forge}/{hook}", post(receive)).with_state(hooks)
}

async fn receive(
    State(hooks): State<Arc<Hooks>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    // A path that is no text names no hook.
    let (forge, hook) = path.map(|Path(names)| names).unwrap_or_default();
    let (began, forge) = (Instant::now(), Forge::from_text(&forge));
    let label = forge.map_or("unknown", Forge::as_str);
    let received = match forge {
        Some(forge) => take(&hooks, &peer, (forge, &hook), &headers, body).await,
        None => Err(unknown_hook()),
    };
    record_delivery_answer(began.elapsed());
    match received {
        Ok(Received { id, is_new }) => {
            count_delivery(label, if is_new { "stored" } else { "repeated" });
            let text = if is_new {
                format!("{{\"state\":\"stored\",\"delivery\":\"{id}\"}}\n")
            } else {
                "{\"state\":\"repeated\"}\n".to_owned()
            };
            (StatusCode::ACCEPTED, [(CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(fault) => {
            count_delivery(label, fault.reason.as_str());
            tracing::debug!(client = %peer.address, hook, code = %fault.reason, "hook: a delivery was refused");
            refused(&fault)
        }
    }
}

struct Received {
    id: Uuid,
    is_new: bool,
}

async fn take(
    hooks: &Hooks,
    peer: &Peer,
    (forge, name): (Forge, &str),
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, Fault> {
    let known = find(hooks, forge, name)?;
    let kind = text(headers, &CONTENT_TYPE).and_then(|text| BodyKind::of(&text));
    if kind.is_none() {
        let message = "the delivery must be application/json, or a form with the field payload";
        return Err(Fault::new(FaultCode::MediaTypeUnsupported, message));
    }
    let signature = signature::read(forge, headers);
    if known.hook.is_unsigned() {
        let client = (peer.is_local_port, peer.address);
        may_be_unsigned(hooks.takes_unsigned, client)?;
    } else if signature.is_none() {
        return Err(unsigned(forge));
    }
    let (body, _bytes) = receive_body(hooks, peer, body).await?;
    let is_good = |signature: Vec<u8>| signature::is_made_by(&known.keys, &body, &signature);
    if !known.hook.is_unsigned() && !signature.is_some_and(is_good) {
        return Err(unsigned(forge));
    }
    keep(hooks, &known, headers, body).await
}

fn find(hooks: &Hooks, forge: Forge, name: &str) -> Result<Arc<KnownHook>, Fault> {
    match hooks.find(name) {
        Lookup::Known(known) if known.hook.forge == forge => Ok(known),
        Lookup::Known(_) | Lookup::Unknown => Err(unknown_hook()),
        Lookup::NotLoaded => {
            let message = "the hooks were not read yet; send the delivery again";
            Err(Fault::new(FaultCode::DatabaseUnavailable, message))
        }
    }
}

fn unknown_hook() -> Fault {
    let message = "no hook of this forge has that name; make it with `surety webhooks put`";
    Fault::new(FaultCode::HookNotFound, message)
}

fn unsigned(forge: Forge) -> Fault {
    let header = forge.signature_headers().first().copied().unwrap_or_default();
    let message =
        format!("{header} has no signature by a secret of this hook; compare the forge's secret");
    Fault::new(FaultCode::SignatureInvalid, message)
}

/// A delivery without a signature is taken by setting only, from this machine, on a port of loopback.
fn may_be_unsigned(
    takes_unsigned: bool,
    (is_local_port, address): (bool, IpAddr),
) -> Result<(), Fault> {
    if takes_unsigned && is_local_port && address.is_loopback() {
        return Ok(());
    }
    let message = "the hook has no secret; give it one with `surety webhooks put --secret NAME`";
    Err(Fault::new(FaultCode::HookUnsigned, message))
}

/// The whole body, with its share of the bytes in memory.
async fn receive_body(
    hooks: &Hooks,
    peer: &Peer,
    body: Body,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Fault> {
    let reading = timeout(peer.bounds().request, read(&hooks.in_flight, body));
    match peer.receiving(reading).await {
        Ok(Err(_)) if peer.is_evicted() => {
            let message = "the connection waited the longest of too many; send the delivery again";
            Err(Fault::new(FaultCode::TooManyConnections, message))
        }
        Ok(read) => read,
        Err(_) => {
            let message = "the body did not arrive whole in time; send it at once";
            Err(Fault::new(FaultCode::RequestTimeout, message))
        }
    }
}

fn too_large() -> Fault {
    let message =
        format!("the delivery has more than {MAX_DELIVERY} bytes; have the forge send less");
    Fault::new(FaultCode::MessageTooLarge, message)
}

/// Reads a body. It takes memory for the bytes that arrived, not for those that were announced.
async fn read(
    in_flight: &Arc<InFlight>,
    body: Body,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Fault> {
    let (mut bytes, mut share) = (Vec::new(), in_flight.begin());
    let is_announced = body.size_hint().lower() > u64::try_from(MAX_DELIVERY).unwrap_or(u64::MAX);
    let mut chunks = body.into_data_stream();
    if is_announced {
        discard(chunks).await;
        return Err(too_large());
    }
    loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk,
            () = share.given_up() => return Err(given_up()),
        };
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|_| {
            Fault::new(FaultCode::BadRequest, "the body ended early; send the delivery again")
        })?;
        if bytes.len() + chunk.len() > MAX_DELIVERY {
            drop((bytes, share));
            discard(chunks).await;
            return Err(too_large());
        }
        share.take(chunk.len()).await?;
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, share.whole()))
}

fn given_up() -> Fault {
    let message = "the body arrived the slowest of too many; send the delivery again, at once";
    Fault::new(FaultCode::Overloaded, message)
}

/// Reads what a client still sends of a body that is refused, for a moment and without keeping it: a client whose
/// bytes are not read may lose the answer.
async fn discard(mut chunks: BodyDataStream) {
    let reading = async {
        let mut bytes = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            bytes += chunk.len();
            if bytes > MAX_DISCARDED {
                return;
            }
        }
    };
    drop(timeout(DISCARDED_FOR, reading).await);
}

/// Stores the delivery.
async fn keep(
    hooks: &Hooks,
    known: &KnownHook,
    headers: &HeaderMap,
    body: Vec<u8>,
) -> Result<Received, Fault> {
    let (planner, log) = hooks.log().await?;
    let forge = known.hook.forge;
    let event = first_word(headers, forge.event_headers()).unwrap_or_default();
    let digest = digest_of(&event, &body);
    let delivery_id = first_word(headers, forge.delivery_headers())
        .unwrap_or_else(|| format!("sha256:{}", HEXLOWER.encode(&digest)));
    let id = Uuid::now_v7();
    let delivery = NewDelivery {
        id,
        hook: known.hook.name.clone(),
        forge,
        delivery_id,
        event,
        headers: shown(headers),
        body,
        digest,
        received_at: planner.now(),
    };
    let is_new = log.store(delivery).await.map_err(|error| not_stored(&error))?;
    if is_new {
        hooks.wake();
    }
    Ok(Received { id, is_new })
}

/// SHA-256 of the event and the body: a repetition under another id has the same.
fn digest_of(event: &str, body: &[u8]) -> Vec<u8> {
    let mut context = Context::new(&SHA256);
    context.update(event.as_bytes());
    context.update(b"\0");
    context.update(body);
    context.finish().as_ref().to_vec()
}

fn not_stored(error: &StoreError) -> Fault {
    tracing::warn!(%error, "hook: a delivery was not stored, and its forge was told so");
    let code = if matches!(error, StoreError::ShuttingDown) {
        FaultCode::ShuttingDown
    } else if error.is_transient() {
        FaultCode::DatabaseUnavailable
    } else {
        FaultCode::Internal
    };
    Fault::new(code, "the delivery is not stored; send it again")
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(|text| text.trim().to_owned())
}

/// The first of these headers that has a word.
fn first_word(headers: &HeaderMap, names: &[&'static str]) -> Option<String> {
    let mut words = names.iter().filter_map(|name| text(headers, &HeaderName::from_static(name)));
    words.find(|word| (1..=MAX_WORD).contains(&word.len()))
}

/// The headers that describe the delivery, as JSON, without signatures and tokens.
fn shown(headers: &HeaderMap) -> String {
    let is_shown = |name: &str| {
        let described = STORED_HEADERS.iter().any(|start| name.starts_with(start));
        let is_secret = SECRET_WORDS.iter().any(|word| name.contains(word));
        name == "content-type" || name == "user-agent" || (described && !is_secret)
    };
    let shown = headers.iter().filter(|(name, _)| is_shown(name.as_str()));
    let pairs = shown.filter_map(|(name, value)| {
        let value = value.to_str().ok().filter(|value| value.len() <= MAX_HEADER_VALUE)?;
        Some((name.to_string(), serde_json::Value::from(value)))
    });
    serde_json::Value::Object(pairs.collect()).to_string()
}

fn refused(fault: &Fault) -> Response {
    let status = match fault.reason {
        Reason::Service(code) => status_of(code),
        Reason::Input(_) => StatusCode::BAD_REQUEST,
    };
    let body = serde_json::json!({"code": fault.reason.as_str(), "message": fault.message});
    let mut response =
        (status, [(CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response();
    let headers = response.headers_mut();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    // The rest of the body is not read.
    if matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE) {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The statuses of refusals; of any other code the forge sends the delivery again.
const STATUSES: [(FaultCode, StatusCode); 8] = [
    (FaultCode::HookNotFound, StatusCode::NOT_FOUND),
    (FaultCode::SignatureInvalid, StatusCode::UNAUTHORIZED),
    (FaultCode::HookUnsigned, StatusCode::FORBIDDEN),
    (FaultCode::MediaTypeUnsupported, StatusCode::UNSUPPORTED_MEDIA_TYPE),
    (FaultCode::MessageTooLarge, StatusCode::PAYLOAD_TOO_LARGE),
    (FaultCode::RequestTimeout, StatusCode::REQUEST_TIMEOUT),
    (FaultCode::BadRequest, StatusCode::BAD_REQUEST),
    (FaultCode::Internal, StatusCode::INTERNAL_SERVER_ERROR),
];

fn status_of(code: FaultCode) -> StatusCode {
    let known = STATUSES.iter().find(|(known, _)| *known == code);
    known.map_or(StatusCode::SERVICE_UNAVAILABLE, |(_, status)| *status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_headers_have_no_signature_and_no_token() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "application/json"),
            ("x-gitea-event", "push"),
            ("x-gitea-signature", "0a"),
            ("x-hub-signature-256", "sha256=0a"),
            ("x-gitlab-token", "t"),
            ("x-github-token", "t"),
            ("authorization", "Bearer t"),
            ("cookie", "c"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        assert_eq!(
            shown(&headers),
            r#"{"content-type":"application/json","x-gitea-event":"push"}"#
        );
    }

    #[test]
    fn a_delivery_without_a_signature_comes_by_setting_from_loopback_to_loopback() {
        for (takes_unsigned, is_local_port, address, is_taken) in [
            (true, true, "127.0.0.1", true),
            (true, true, "::1", true),
            (false, true, "127.0.0.1", false),
            (true, false, "127.0.0.1", false),
            (true, true, "192.0.2.7", false),
            (true, true, "2001:db8::7", false),
            (true, false, "192.0.2.7", false),
        ] {
            let client = (is_local_port, address.parse().expect("an address"));
            let answer = may_be_unsigned(takes_unsigned, client);
            let code = answer.map_err(|fault| fault.reason);
            let wanted = match is_taken {
                true => Ok(()),
                false => Err(Reason::Service(FaultCode::HookUnsigned)),
            };
            assert_eq!(code, wanted, "{takes_unsigned} {client:?}");
        }
    }

    #[tokio::test]
    async fn a_body_takes_memory_for_what_arrived_and_at_most_its_limit() {
        let budget = InFlight::new(MAX_DELIVERY + 10);
        let (bytes, held) = read(&budget, Body::from("12345")).await.expect("a body");
        assert_eq!((bytes.as_slice(), budget.free()), (&b"12345"[..], MAX_DELIVERY + 5));
        let large =
            read(&budget, Body::from(vec![0; MAX_DELIVERY + 1])).await.expect_err("too large");
        assert_eq!(large.reason, Reason::Service(FaultCode::MessageTooLarge));
        let more = read(&budget, Body::from(vec![0; MAX_DELIVERY])).await.map(|(_, held)| held);
        let full = read(&budget, Body::from("123456")).await.expect_err("no memory is left");
        assert_eq!(full.reason, Reason::Service(FaultCode::Overloaded));
        drop((held, more));
        assert_eq!(budget.free(), MAX_DELIVERY + 10);
    }

    /// A body whose first bytes arrive, and nothing more.
    fn stalled(bytes: usize) -> Body {
        let first = futures::stream::iter([Ok::<_, std::io::Error>(vec![0; bytes])]);
        Body::from_stream(first.chain(futures::stream::pending()))
    }

    #[tokio::test]
    async fn a_stalled_body_is_given_up_for_one_that_arrives() {
        let budget = InFlight::new(10);
        let slow = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { read(&budget, stalled(8)).await.map(drop) }
        });
        let waiting = async {
            while budget.free() > 2 {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(30), waiting).await.expect("the first bytes");
        let (bytes, held) = read(&budget, Body::from("123456")).await.expect("a body");
        assert_eq!(bytes, b"123456");
        let slow = slow.await.expect("a task").expect_err("it was given up");
        assert_eq!(slow.reason, Reason::Service(FaultCode::Overloaded));
        // A whole body that is being stored is not given up.
        let full = read(&budget, Body::from("123456")).await.expect_err("no memory is left");
        assert_eq!(full.reason, Reason::Service(FaultCode::Overloaded));
        drop(held);
        assert_eq!(budget.free(), 10);
    }
}
