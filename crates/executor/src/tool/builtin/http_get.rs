//! `http_get`: reads an address that the operator allowed.
//!
//! The tool is called by the executor itself and not in the sandbox of commands, so it has rules of its own:
//! only hosts and ports of the operator's list, redirects included, and no name that leads to a private
//! address. The list is compared before a name is looked up, and the addresses are compared when a connection
//! is made, so that a name that changes in between leads nowhere else.

use crate::tool::builtin::support::{OUTPUT_LIMIT, count, read, spec};
use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Annotations, RunSecrets, Tool, ToolContext, ToolOutcome, ToolSpec};
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    TRANSFER_ENCODING, UPGRADE,
};
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use surety_common::config::AllowedAddresses;
use surety_common::domain::json::Value;
use surety_common::tls::http_client;
use surety_sandbox::is_public;

/// The most redirects of one call, as browsers and curl bound them, lower because each is another request.
const REDIRECTS: usize = 5;

/// Headers that say where a request goes and how it is sent.
const OF_THE_CONNECTION: [HeaderName; 5] =
    [HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING, UPGRADE];

/// Reads an address.
#[derive(Debug)]
pub struct HttpGet {
    spec: ToolSpec,
    allowed: AllowedAddresses,
    /// None where no address is allowed: to make one reads all authorities of the machine.
    client: Option<Client>,
}

#[derive(Debug, Deserialize)]
struct Args {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

impl HttpGet {
    /// The tool for the addresses in `allowed`, `host:port` separated by commas; none are allowed without it.
    ///
    /// # Errors
    /// The TLS provider cannot be used.
    pub fn new(allowed: Option<&str>) -> Result<Self, reqwest::Error> {
        let allowed = AllowedAddresses::read(allowed);
        let client = if allowed.is_empty() { None } else { Some(client()?) };
        let spec = spec(
            "http_get",
            "Reads an http or https address that the operator of the executor allows, and returns the body. \
             Follows redirects to allowed addresses. A status of 400 or above is a failure.",
            Annotations { open_world: true, ..Annotations::READS },
            json!({
                "type": "object",
                "properties": {
                    "url": {"type": "string", "minLength": 1, "description": "The whole address, with its scheme."},
                    "headers": {
                        "type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 20,
                        "description": "Request headers. A value that is secret:NAME, or ends with it as in Bearer secret:NAME, has a secret that the run may use. A redirect to another host gets none."
                    }
                },
                "required": ["url"],
                "additionalProperties": false
            }),
        );
        Ok(Self { spec, allowed, client })
    }

    async fn get(&self, ctx: &ToolContext, args: &Value) -> Result<ToolOutcome, ToolError> {
        let Args { url, headers } = read(args)?;
        let headers = headers_of(&headers, &ctx.secrets)?;
        let mut url = Url::parse(&url).map_err(|error| {
            ToolError::new(ErrorCode::ArgumentsInvalid, format!("url: {error}"))
        })?;
        let origin = url.origin();
        for _ in 0..=REDIRECTS {
            let client = self.client_for(&url)?;
            let is_same = url.origin() == origin;
            let headers = if is_same { headers.clone() } else { HeaderMap::new() };
            let answer = client.get(url.clone()).headers(headers).send();
            let answer = answer.await.map_err(|error| unanswered(&url, &error))?;
            if !answer.status().is_redirection() {
                return finish(ctx, answer).await;
            }
            let target = answer.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            let target = target.and_then(|target| url.join(target).ok());
            url = target.ok_or_else(|| {
                let message =
                    format!("{} answered a redirect without a readable target", shown(&url));
                ToolError::new(ErrorCode::AddressFailed, message)
            })?;
        }
        let message = format!("more than {REDIRECTS} redirects; ask for {} itself", shown(&url));
        Err(ToolError::new(ErrorCode::AddressFailed, message))
    }

    fn client_for(&self, url: &Url) -> Result<&Client, ToolError> {
        let refused = |why: &str| {
            let message = format!("{} {why}", shown(url));
            Err(ToolError::new(ErrorCode::AddressNotAllowed, message))
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refused("is no http or https address");
        }
        let place = url.host_str().zip(url.port_or_known_default());
        let Some((host, port)) = place else {
            return refused("names no host");
        };
        let place = AllowedAddresses::named(host, port);
        let client = self.client.as_ref().filter(|_| self.allowed.contains(&place));
        client.map_or_else(
            || {
                refused(&format!(
                    "is not allowed; the executor's operator allows hosts by --executor-http-allow={place}"
                ))
            },
            Ok,
        )
    }
}

fn client() -> Result<Client, reqwest::Error> {
    http_client().dns_resolver(Arc::new(PublicNames)).no_proxy().build()
}

impl Tool for HttpGet {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, ctx: &'a ToolContext, args: &'a Value) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let ended = tokio::select! {
                biased;
                () = ctx.cancel.cancelled() => ctx.check().map(|()| None),
                () = tokio::time::sleep_until(ctx.deadline) => ctx.check().map(|()| None),
                ended = self.get(ctx, args) => ended.map(Some),
            };
            match ended {
                Ok(Some(outcome)) => outcome,
                Ok(None) => ToolError::called_off().into(),
                Err(error) => error.into(),
            }
        })
    }
}

/// The headers of a call, each value as one that is not shown.
fn headers_of(
    given: &BTreeMap<String, String>,
    secrets: &RunSecrets,
) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let refused = |why: &str| {
            let message = format!("headers: {name:?} {why}");
            ToolError::new(ErrorCode::ArgumentsInvalid, message)
        };
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| refused("is no name of a header; use letters, digits and `-`"))?;
        if OF_THE_CONNECTION.contains(&header) {
            return Err(refused("is set by the connection itself; leave it out"));
        }
        let value = secrets.resolve(value)?.unwrap_or_else(|| value.clone());
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| refused("has a value with control characters or other than ASCII"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

async fn finish(ctx: &ToolContext, mut answer: Response) -> Result<ToolOutcome, ToolError> {
    let (url, status) = (answer.url().clone(), answer.status());
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("no content type").to_owned();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| unanswered(&url, &error))? {
        ctx.check()?;
        body.extend_from_slice(&chunk);
        if body.len() > OUTPUT_LIMIT {
            let message = format!("{} answered more than {OUTPUT_LIMIT} bytes", shown(&url));
            return Err(ToolError::new(ErrorCode::TooLarge, message));
        }
    }
    let said = format!("{}: {status}, {}, {kind}", shown(&url), count(body.len() as u64, "byte"));
    if status.is_success() {
        return Ok(ToolOutcome::done(said, body, Vec::new()));
    }
    Ok(ToolOutcome::failed(ToolError::new(ErrorCode::AddressFailed, said), body, Vec::new()))
}

/// An address without its query and its user, which may hold secrets.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

fn unanswered(url: &Url, error: &reqwest::Error) -> ToolError {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if cause.is::<PrivateName>() {
        return ToolError::new(ErrorCode::AddressNotAllowed, format!("{}: {cause}", shown(url)));
    }
    ToolError::new(ErrorCode::AddressFailed, format!("{} did not answer: {cause}", shown(url)))
}

/// A name all of whose addresses are private.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to a private address; its operator may allow the address itself")]
struct PrivateName;

/// Looks up names, and keeps public addresses only.
#[derive(Debug)]
struct PublicNames;

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let is_empty = found.is_empty();
            let public: Vec<_> = found.into_iter().filter(|place| is_public(place.ip())).collect();
            if public.is_empty() && !is_empty {
                return Err(PrivateName.into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}
