//! Streamable HTTP: the client of all servers that run elsewhere, and what can go wrong with a request.

use super::error::CallFailure;
use super::text::line;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use std::error::Error;
use std::time::Duration;
use surety_common::tls::http_client;

/// The time limit of a connection.
const CONNECTING: Duration = Duration::from_secs(10);
/// The status of a server that has too many requests.
const TOO_MANY: u16 = 429;
/// What is said of a server that wants other headers.
const UNAUTHORIZED: &str =
    "it refuses the request without other credentials; look at headers_from_files";
/// What is said of a connection that ended.
const BROKE: &str = "the connection to it broke";
/// What is said of an answer that is none.
const NO_MESSAGE: &str =
    "its answer is no message of the protocol; check that url is the address of an MCP server";

/// The client. It follows no redirect, because headers have secrets: a redirect is an error that names its target.
///
/// # Errors
/// TLS cannot be used.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    let refused = Policy::custom(|attempt| {
        let mut target = attempt.url().clone();
        target.set_query(None);
        target.set_fragment(None);
        let redirect = Redirect { status: attempt.status().as_u16(), target: target.to_string() };
        attempt.error(redirect)
    });
    http_client().redirect(refused).no_proxy().connect_timeout(CONNECTING).build()
}

/// An answer that leads to another address.
#[derive(Debug, thiserror::Error)]
#[error(
    "it redirects to {} (HTTP {status}), which is not followed, because headers may hold secrets; set url to the address \
     that answers",
    line(target)
)]
struct Redirect {
    status: u16,
    target: String,
}

/// The transport to a server.
pub(super) fn transport(
    client: &reqwest::Client,
    url: &str,
    headers: &HeaderMap,
    limit: usize,
) -> StreamableHttpClientTransport<reqwest::Client> {
    let headers = headers
        .iter()
        .map(|(name, value): (&HeaderName, &HeaderValue)| (name.clone(), value.clone()));
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers.collect())
        .max_sse_event_size(limit)
        .max_json_response_size(limit);
    StreamableHttpClientTransport::with_client(client.clone(), config)
}

/// What a failed request means for its call.
pub(super) fn failure(error: &(dyn Error + 'static)) -> CallFailure {
    let Some(found) = cause::<StreamableHttpError<reqwest::Error>>(error) else {
        return CallFailure::Lost(BROKE.to_owned());
    };
    // The transport's error does not name the one of the request as its cause.
    if let StreamableHttpError::Client(error) = found
        && let Some(redirect) = cause::<Redirect>(error)
    {
        return CallFailure::Unreadable(redirect.to_string());
    }
    let said = words(found);
    if let StreamableHttpError::Client(error) = found
        && error.is_connect()
    {
        return CallFailure::NotSent(format!("it cannot be reached: {said}"));
    }
    if let StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) = found
    {
        return CallFailure::NotSent(UNAUTHORIZED.to_owned());
    }
    if let StreamableHttpError::UnexpectedServerResponse(answer) = found
        && ["HTTP 401", "HTTP 403"].iter().any(|status| answer.starts_with(status))
    {
        return CallFailure::NotSent(UNAUTHORIZED.to_owned());
    }
    if let StreamableHttpError::HttpStatus(answered) = found
        && answered.status == TOO_MANY
    {
        return CallFailure::NotSent(
            "it has too many requests (HTTP 429); call it later".to_owned(),
        );
    }
    if let StreamableHttpError::ResponseBodyTooLarge { .. } = found {
        return CallFailure::TooLarge(said);
    }
    if let StreamableHttpError::UnexpectedServerResponse(_)
    | StreamableHttpError::UnexpectedContentType(_)
    | StreamableHttpError::Deserialize(_) = found
    {
        return CallFailure::Unreadable(said);
    }
    CallFailure::Lost(said)
}

/// The error of a type among an error and its causes.
fn cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// What went wrong with a request, in one line without the words of the library.
fn words(error: &StreamableHttpError<reqwest::Error>) -> String {
    if let StreamableHttpError::Client(error) = error {
        return of_request(error);
    }
    if let StreamableHttpError::UnexpectedServerResponse(answer) = error {
        return match answer.strip_prefix("HTTP ") {
            Some(answer) => {
                format!("it answered HTTP {}", line(answer.trim().trim_end_matches(':')))
            }
            None => NO_MESSAGE.to_owned(),
        };
    }
    if let StreamableHttpError::UnexpectedContentType(kind) = error {
        let kind = kind.as_ref().map_or_else(
            || "no content type".to_owned(),
            |kind| format!("the content type {}", line(kind)),
        );
        return format!(
            "it answered with {kind}, where JSON or an event stream belongs; check that url is the address of an MCP server"
        );
    }
    if let StreamableHttpError::HttpStatus(answered) = error {
        return format!("it answered HTTP {}", answered.status);
    }
    if let StreamableHttpError::ResponseBodyTooLarge { max_size } = error {
        return format!("its answer has more than {max_size} bytes");
    }
    if let StreamableHttpError::Deserialize(_) = error {
        return NO_MESSAGE.to_owned();
    }
    if let StreamableHttpError::ReservedHeaderConflict(name) = error {
        return format!(
            "headers_from_files names {}, which the protocol sets itself; remove it",
            line(name)
        );
    }
    if let StreamableHttpError::SessionExpired = error {
        return "its session expired (HTTP 404)".to_owned();
    }
    if let StreamableHttpError::ReinitializationFailed(refused) = error {
        return format!("it refused a new session: {}", line(&refused.message));
    }
    if let StreamableHttpError::SessionRecoveryTimeout
    | StreamableHttpError::ControlRequestTimeout = error
    {
        return "it did not answer in time".to_owned();
    }
    BROKE.to_owned()
}

/// What went wrong with a request below the protocol. The innermost cause names what failed, and no address.
fn of_request(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if error.is_connect() { line(&cause.to_string()) } else { BROKE.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::client::{Handshake, NotConnected, RmcpClient};
    use super::super::stdio::Verdict;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// What is said of a server that answers every request like this.
    async fn said(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp?key=c4nary", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                drop(stream.read(&mut request).await);
                drop(stream.write_all(answer.as_bytes()).await);
            }
        });
        let failure = connected(&url).await;
        serving.abort();
        failure
    }

    async fn connected(url: &str) -> String {
        let transport = transport(&client().unwrap(), url, &HeaderMap::new(), 1 << 20);
        let handshake = Handshake::Initialize;
        match RmcpClient::connect(transport, handshake, (None, Verdict::default())).await {
            Err(NotConnected::Failed(
                CallFailure::NotSent(why)
                | CallFailure::Refused(why)
                | CallFailure::TooLarge(why)
                | CallFailure::Unreadable(why)
                | CallFailure::Lost(why),
            )) => why,
            Err(NotConnected::Failed(failure)) => format!("{failure:?}"),
            Err(NotConnected::OtherHandshake) => "other handshake".to_owned(),
            Ok(_) => "connected".to_owned(),
        }
    }

    #[tokio::test]
    async fn what_a_server_answers_instead_is_said_in_plain_words() {
        for (answer, expected) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi",
                "it answered with the content type text/html, where JSON or an event stream belongs; check that url is the \
                 address of an MCP server",
            ),
            (
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://far.example/mcp?key=c4nary\r\ncontent-length: 2\r\n\
                 connection: close\r\n\r\n{}",
                "it redirects to http://far.example/mcp (HTTP 307), which is not followed, because headers may hold secrets; \
                 set url to the address that answers",
            ),
            (
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                "it answered HTTP 404 Not Found",
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{\"id\": {}",
                NO_MESSAGE,
            ),
            ("", BROKE),
        ] {
            assert_eq!(said(answer).await, expected, "{answer}");
        }
        let refused = connected("http://127.0.0.1:1/mcp?key=c4nary").await;
        assert!(refused.starts_with("it cannot be reached: Connection refused"), "{refused}");
    }
}
