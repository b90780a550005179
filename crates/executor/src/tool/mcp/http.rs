//! Streamable HTTP: the client of all servers that run elsewhere, and what can go wrong with a request.

use super::error::CallFailure;
use http::{HeaderMap, HeaderName, HeaderValue};
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

/// The client. It follows no redirect, because headers have secrets.
///
/// # Errors
/// TLS cannot be used.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    http_client().no_proxy().connect_timeout(CONNECTING).build()
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
    let Some(found) = known(error) else { return CallFailure::Lost(words(error)) };
    let said = words(found);
    if let StreamableHttpError::Client(error) = found
        && error.is_connect()
    {
        return CallFailure::NotSent(format!("it cannot be reached: {said}"));
    }
    let is_unauthorized = ["HTTP 401", "HTTP 403"].iter().any(|status| said.contains(status));
    if let StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) = found
    {
        return CallFailure::NotSent(UNAUTHORIZED.to_owned());
    }
    if is_unauthorized && let StreamableHttpError::UnexpectedServerResponse(_) = found {
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

/// The error of the transport among the causes of an error.
fn known<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e StreamableHttpError<reqwest::Error>> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// An error with its causes, in one line. Addresses stand in it without their query.
pub(super) fn words(error: &(dyn Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        source = cause.source();
    }
    let without_queries: Vec<_> = said.split(' ').map(without_query).collect();
    super::text::line(&without_queries.join(" "))
}

/// A word without the query of an address, which may hold a token.
fn without_query(word: &str) -> &str {
    if word.contains("://") { word.split('?').next().unwrap_or_default() } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_query() {
        let error =
            std::io::Error::other("no answer of (http://far.example/mcp?key=c4nary) in time");
        assert_eq!(words(&error), "no answer of (http://far.example/mcp in time");
    }
}
