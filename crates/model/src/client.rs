//! The HTTP client of one profile.

use crate::document::is_loopback;
use crate::endpoint::Endpoint;
use crate::profile::{Api, Profile, ProfileError};
use crate::wire::anthropic;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Url};
use std::sync::Arc;
use surety_common::config::Secret;
use surety_common::domain::redact::{Redactor, SHORTEST_SECRET};
use surety_common::tls::http_client;

/// Where a key stands in Anthropic's form.
const API_KEY: &str = "x-api-key";
const API_VERSION: &str = "anthropic-version";
/// What stands for a key in a text that repeats it.
pub(crate) const SECRET: &str = "model-key";

/// What of a profile is a secret: its key, each header from a file, and the last word of it, such as a token behind
/// `Bearer`.
pub(crate) fn secrets(profile: &Profile) -> impl Iterator<Item = &str> {
    let headers = profile.secret_headers.values().map(Secret::expose);
    let words = headers.clone().filter_map(|value| value.rsplit(' ').next());
    let words = words.filter(|word| word.len() >= SHORTEST_SECRET);
    profile.key.iter().map(Secret::expose).chain(headers).chain(words)
}

/// Asks the model of one profile.
pub(crate) struct Client {
    pub(crate) profile: Profile,
    pub(crate) http: reqwest::Client,
    pub(crate) call_url: Url,
    pub(crate) models_url: Url,
    pub(crate) headers: HeaderMap,
    /// Takes the keys out of what the endpoint says.
    pub(crate) redactor: Arc<Redactor>,
    endpoint: Arc<Endpoint>,
}

impl Client {
    /// # Errors
    /// The certificate authorities cannot be read, or the address does not read.
    pub(crate) fn open(profile: Profile, endpoint: Arc<Endpoint>) -> Result<Self, ProfileError> {
        let wrong = |field: &'static str, why: String| ProfileError::Field {
            profile: profile.name.clone(),
            field,
            why,
        };
        let address = |path: &str| -> Result<Url, ProfileError> {
            let url = format!("{}{path}", profile.url);
            Url::parse(&url)
                .map_err(|error| wrong("url", format!("does not read: {error}. Correct it")))
        };
        let (call_url, models_url) = match profile.api {
            Api::OpenAi => (address("/chat/completions")?, address("/models")?),
            Api::Anthropic => {
                (address("/messages")?, address(&format!("/models/{}", profile.model))?)
            }
        };
        let headers = headers(&profile).ok_or_else(|| {
            wrong("headers", "cannot stand in a request. Correct them".to_owned())
        })?;
        let redactor = Redactor::new(secrets(&profile).map(|secret| (SECRET, secret)));
        Ok(Self {
            http: http(&profile, &call_url)?,
            call_url,
            models_url,
            headers,
            redactor: Arc::new(redactor),
            endpoint,
            profile,
        })
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

/// A client that goes nowhere else: the key must not follow a redirect.
fn http(profile: &Profile, url: &Url) -> Result<reqwest::Client, ProfileError> {
    let mut builder = http_client()
        .connect_timeout(profile.connect_timeout)
        .user_agent(concat!("surety/", env!("CARGO_PKG_VERSION")));
    if url.host_str().is_some_and(is_loopback) {
        builder = builder.no_proxy();
    }
    if let Some(path) = &profile.ca_file {
        let unreadable = |reason: String| ProfileError::File {
            profile: profile.name.clone(),
            field: "ca_file",
            path: path.clone(),
            reason,
        };
        let pem = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let authorities = Certificate::from_pem_bundle(&pem);
        builder =
            builder.tls_certs_merge(authorities.map_err(|error| unreadable(error.to_string()))?);
    }
    builder.build().map_err(|error| ProfileError::Field {
        profile: profile.name.clone(),
        field: "ca_file",
        why: format!("makes no HTTP client: {error}. Correct the certificates"),
    })
}

/// The headers of each request, secrets marked as such.
fn headers(profile: &Profile) -> Option<HeaderMap> {
    let secret = |text: &str| {
        let mut value = HeaderValue::from_str(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = if profile.stream { "text/event-stream" } else { "application/json" };
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    match (profile.api, &profile.key) {
        (Api::OpenAi, Some(key)) => {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {}", key.expose()))?);
        }
        (Api::Anthropic, Some(key)) => {
            headers.insert(HeaderName::from_static(API_KEY), secret(key.expose())?);
        }
        (Api::OpenAi | Api::Anthropic, None) => {}
    }
    if profile.api == Api::Anthropic {
        let version = HeaderValue::from_static(anthropic::VERSION);
        headers.insert(HeaderName::from_static(API_VERSION), version);
    }
    for (name, value) in profile.headers.iter().chain(&profile.secret_headers) {
        headers.insert(HeaderName::from_bytes(name.as_bytes()).ok()?, secret(value.expose())?);
    }
    Some(headers)
}
