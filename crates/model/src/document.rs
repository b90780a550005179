//! Reads profiles: the TOML file, the settings of the profile `default`, and the files that they name.

use crate::prices::{Prices, set_prices};
use crate::profile::{
    Api, DEFAULT, MaxTokensField, ModelUse, Profile, ProfileError, Profiles, SchemaMode,
};
use crate::tokens::Tokenizer;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surety_common::config::{ModelConfig, Secret, open_to_all};

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
/// What the name of a header with a secret contains.
const SECRET_HEADERS: [&str; 6] = ["auth", "key", "token", "secret", "cookie", "password"];
/// The host whose models insist on `max_completion_tokens`.
const OPENAI_HOST: &str = "api.openai.com";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "use")]
    uses: Uses,
    #[serde(default)]
    model: BTreeMap<String, Entry>,
    #[serde(default)]
    price: BTreeMap<String, Prices>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Uses {
    plan: Option<String>,
    step: Option<String>,
    retry: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    api: Option<ApiName>,
    url: Option<String>,
    model: Option<String>,
    key_file: Option<PathBuf>,
    key_env: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    header_files: BTreeMap<String, PathBuf>,
    #[serde(default)]
    extra: Map<String, Value>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    allow_plaintext: bool,
    context_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
    max_tokens_field: Option<FieldName>,
    temperature: Option<f64>,
    stream: Option<bool>,
    schema: Option<SchemaName>,
    tokenizer: Option<TokenizerName>,
    connect_timeout_ms: Option<u64>,
    first_byte_timeout_ms: Option<u64>,
    idle_timeout_ms: Option<u64>,
    total_timeout_ms: Option<u64>,
    retries: Option<u32>,
    retry_pause_ms: Option<u64>,
    concurrency: Option<u32>,
    breaker_failures: Option<u32>,
    breaker_open_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ApiName {
    Openai,
    Anthropic,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FieldName {
    MaxTokens,
    MaxCompletionTokens,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SchemaName {
    Auto,
    JsonSchema,
    Function,
    None,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum TokenizerName {
    #[serde(rename = "cl100k_base")]
    Cl100k,
    #[serde(rename = "o200k_base")]
    O200k,
    #[serde(rename = "bytes")]
    Bytes,
}

impl Profiles {
    /// The profiles of a configuration; none where it names no model.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn from_config(config: &ModelConfig) -> Result<Option<Self>, ProfileError> {
        let mut document = match &config.model_profiles_file {
            Some(path) => {
                let unreadable = |error: std::io::Error| ProfileError::Unreadable {
                    path: path.clone(),
                    reason: error.to_string(),
                };
                document(&fs::read_to_string(path).map_err(unreadable)?, path)?
            }
            None => Document::default(),
        };
        overlay(config, &mut document);
        if document.model.is_empty() && config.model_profiles_file.is_none() {
            return Ok(None);
        }
        profiles(document).map(Some)
    }

    /// The profiles of the text of a file; `path` stands in errors.
    ///
    /// # Errors
    /// The text cannot be used.
    pub fn read(text: &str, path: &Path) -> Result<Self, ProfileError> {
        profiles(document(text, path)?)
    }
}

fn document(text: &str, path: &Path) -> Result<Document, ProfileError> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        ProfileError::Syntax {
            path: path.to_owned(),
            line: before.matches('\n').count() + 1,
            why: error.message().to_owned(),
        }
    })
}

/// The settings make or change the profile `default`.
fn overlay(config: &ModelConfig, document: &mut Document) {
    let ModelConfig { model_profiles_file: _, model_url, model_name, model_api, model_key_file } =
        config;
    if model_url.is_none() && model_name.is_none() && model_key_file.is_none() {
        return;
    }
    let is_new = !document.model.contains_key(DEFAULT);
    let entry = document.model.entry(DEFAULT.to_owned()).or_default();
    if model_url.is_some() {
        entry.url.clone_from(model_url);
    }
    if model_name.is_some() {
        entry.model.clone_from(model_name);
    }
    if model_key_file.is_some() {
        entry.key_file.clone_from(model_key_file);
        entry.key_env = None;
    }
    match model_api.as_str() {
        "anthropic" => entry.api = Some(ApiName::Anthropic),
        _ if is_new => entry.api = Some(ApiName::Openai),
        _ => {}
    }
}

fn profiles(document: Document) -> Result<Profiles, ProfileError> {
    let mut all = BTreeMap::new();
    for (name, entry) in document.model {
        let profile = profile(&name, entry)?;
        all.insert(name, profile);
    }
    set_prices(&mut all, &document.price)?;
    let Uses { plan, step, retry } = document.uses;
    let chosen = [(ModelUse::Plan, plan), (ModelUse::Step, step), (ModelUse::Retry, retry)];
    Profiles::of(all.into_values(), chosen.into_iter().filter_map(|(one, name)| Some((one, name?))))
}

/// Reads one profile.
struct Reading<'a> {
    name: &'a str,
}

fn profile(name: &str, mut entry: Entry) -> Result<Profile, ProfileError> {
    let reading = Reading { name };
    let (url, host) = reading.url(entry.url.take())?;
    let Some(model) = entry.model.take().filter(|model| !model.trim().is_empty()) else {
        let why = "is missing. Set it to the endpoint's name for the model (SURETY_MODEL_NAME for the profile default)";
        return Err(reading.wrong("model", why));
    };
    let mut profile = Profile::at(name, &url, &model);
    profile.api = match entry.api {
        Some(ApiName::Openai) | None => Api::OpenAi,
        Some(ApiName::Anthropic) => Api::Anthropic,
    };
    profile.key = reading.key(&entry)?;
    profile.headers = reading.headers(&entry)?;
    profile.secret_headers = reading.secret_headers(&entry)?;
    profile.secret_files =
        entry.key_file.iter().chain(entry.header_files.values()).cloned().collect();
    let is_secret = profile.key.is_some() || !profile.secret_headers.is_empty();
    let is_plain = url.starts_with("http://") && !is_loopback(&host);
    if is_secret && is_plain && !entry.allow_plaintext {
        let why = format!(
            "sends the key to {host} without TLS. Use https, or set allow_plaintext = true where another layer \
             encrypts the connection"
        );
        return Err(reading.wrong("url", why));
    }
    profile.max_tokens_field = match entry.max_tokens_field {
        Some(FieldName::MaxTokens) => MaxTokensField::MaxTokens,
        Some(FieldName::MaxCompletionTokens) => MaxTokensField::MaxCompletionTokens,
        None if host == OPENAI_HOST => MaxTokensField::MaxCompletionTokens,
        None => MaxTokensField::MaxTokens,
    };
    reading.choices(&entry, &mut profile)?;
    reading.bounds(&entry, &mut profile)?;
    profile.extra = entry.extra;
    profile.ca_file = entry.ca_file;
    Ok(profile)
}

impl Reading<'_> {
    fn wrong(&self, field: &'static str, why: impl Into<String>) -> ProfileError {
        ProfileError::Field { profile: self.name.to_owned(), field, why: why.into() }
    }

    /// The address, and its host.
    fn url(&self, url: Option<String>) -> Result<(String, String), ProfileError> {
        let Some(url) = url else {
            let why = "is missing. Set it to the endpoint's base address, such as http://127.0.0.1:8000/v1 \
                       (SURETY_MODEL_URL for the profile default)";
            return Err(self.wrong("url", why));
        };
        let is_web = ["http://", "https://"].iter().any(|scheme| url.starts_with(scheme));
        if !is_web {
            return Err(self.wrong(
                "url",
                "has no scheme. Begin it with https:// or http://, such as http://127.0.0.1:8000/v1",
            ));
        }
        let parsed = Url::parse(&url)
            .map_err(|error| self.wrong("url", format!("does not read: {error}. Correct it")))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(self.wrong(
                "url",
                "holds a password. Write it into a file, and name that with key_file",
            ));
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(self.wrong(
                "url",
                "has a query or a fragment. Leave them out: the path of the call is added to it",
            ));
        }
        let Some(host) = parsed.host_str() else {
            return Err(self.wrong("url", "names no host. Correct it"));
        };
        let path = parsed.path().trim_end_matches('/');
        if ["/chat/completions", "/messages"].iter().any(|call| path.ends_with(call)) {
            return Err(self.wrong(
                "url",
                "holds the path of the call. Leave /chat/completions or /messages out",
            ));
        }
        Ok((url.trim_end_matches('/').to_owned(), host.to_owned()))
    }

    fn key(&self, entry: &Entry) -> Result<Option<Secret>, ProfileError> {
        match (&entry.key_file, &entry.key_env) {
            (Some(_), Some(_)) => {
                Err(self.wrong("key_env", "is set beside key_file. Keep one of them"))
            }
            (Some(path), None) => self.secret_file("key_file", path).map(Some),
            (None, Some(variable)) => match std::env::var(variable) {
                Ok(key) if !key.trim().is_empty() => self.checked("key_env", key.trim()).map(Some),
                Ok(_) | Err(_) => {
                    let why = format!(
                        "names the variable {variable}, which is not set. Set it, or use key_file"
                    );
                    Err(self.wrong("key_env", why))
                }
            },
            (None, None) => Ok(None),
        }
    }

    fn secret_file(&self, field: &'static str, path: &Path) -> Result<Secret, ProfileError> {
        let profile = self.name.to_owned();
        let unreadable = |error: std::io::Error| ProfileError::File {
            profile: profile.clone(),
            field,
            path: path.to_owned(),
            reason: error.to_string(),
        };
        if let Some(mode) = open_to_all(&fs::metadata(path).map_err(unreadable)?) {
            let path = path.to_owned();
            return Err(ProfileError::Exposed { profile, field, path, mode });
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        if text.trim().is_empty() {
            let why = format!("names {}, which is empty. Write the key into it", path.display());
            return Err(self.wrong(field, why));
        }
        self.checked(field, text.trim())
    }

    /// A value that can stand in a header.
    fn checked(&self, field: &'static str, value: &str) -> Result<Secret, ProfileError> {
        if HeaderValue::from_str(value).is_err() {
            let why = "leads to a value that cannot stand in a header. It must be one line of printable characters";
            return Err(self.wrong(field, why));
        }
        Ok(Secret::new(value))
    }

    fn headers(&self, entry: &Entry) -> Result<BTreeMap<String, Secret>, ProfileError> {
        let mut headers = BTreeMap::new();
        for (name, value) in &entry.headers {
            let name = self.header_name(name)?;
            if SECRET_HEADERS.iter().any(|word| name.contains(word)) {
                let why = format!(
                    "holds {name}, a secret. Write it into a file, and name that under header_files"
                );
                return Err(self.wrong("headers", why));
            }
            headers.insert(name, self.checked("headers", value)?);
        }
        Ok(headers)
    }

    fn secret_headers(&self, entry: &Entry) -> Result<BTreeMap<String, Secret>, ProfileError> {
        let mut headers = BTreeMap::new();
        for (name, path) in &entry.header_files {
            headers.insert(self.header_name(name)?, self.secret_file("header_files", path)?);
        }
        Ok(headers)
    }

    fn header_name(&self, name: &str) -> Result<String, ProfileError> {
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => Ok(name.as_str().to_owned()),
            Err(_) => Err(self.wrong(
                "headers",
                format!("has {name:?}, which is no name of a header. Correct it"),
            )),
        }
    }

    fn choices(&self, entry: &Entry, profile: &mut Profile) -> Result<(), ProfileError> {
        profile.schema = match entry.schema {
            Some(SchemaName::Auto) | None => SchemaMode::Auto,
            Some(SchemaName::JsonSchema) => SchemaMode::Format,
            Some(SchemaName::Function) => SchemaMode::Function,
            Some(SchemaName::None) => SchemaMode::Never,
        };
        if let Some(tokenizer) = entry.tokenizer {
            profile.tokenizer = match tokenizer {
                TokenizerName::Cl100k => Tokenizer::Cl100k,
                TokenizerName::O200k => Tokenizer::O200k,
                TokenizerName::Bytes => Tokenizer::Bytes,
            };
        }
        profile.stream = entry.stream.unwrap_or(profile.stream);
        profile.temperature = entry.temperature;
        if entry.temperature.is_some_and(|it| !(0.0..=2.0).contains(&it)) {
            return Err(
                self.wrong("temperature", "is not from 0 to 2. Correct it, or leave it out")
            );
        }
        Ok(())
    }

    fn bounds(&self, entry: &Entry, profile: &mut Profile) -> Result<(), ProfileError> {
        let millis = |field, value: Option<u64>, at: &mut Duration| -> Result<(), ProfileError> {
            let Some(value) = value else { return Ok(()) };
            *at = Duration::from_millis(self.within(field, value, 1, DAY_MS)?);
            Ok(())
        };
        millis("connect_timeout_ms", entry.connect_timeout_ms, &mut profile.connect_timeout)?;
        millis(
            "first_byte_timeout_ms",
            entry.first_byte_timeout_ms,
            &mut profile.first_byte_timeout,
        )?;
        millis("idle_timeout_ms", entry.idle_timeout_ms, &mut profile.idle_timeout)?;
        millis("total_timeout_ms", entry.total_timeout_ms, &mut profile.total_timeout)?;
        millis("retry_pause_ms", entry.retry_pause_ms, &mut profile.retry_pause)?;
        millis("breaker_open_ms", entry.breaker_open_ms, &mut profile.breaker_open)?;
        let count = |field, value: Option<u32>, least, at: &mut u32| -> Result<(), ProfileError> {
            let Some(value) = value else { return Ok(()) };
            self.within(field, u64::from(value), least, 10_000)?;
            *at = value;
            Ok(())
        };
        count("retries", entry.retries, 0, &mut profile.retries)?;
        count("concurrency", entry.concurrency, 1, &mut profile.concurrency)?;
        count("breaker_failures", entry.breaker_failures, 1, &mut profile.breaker_failures)?;
        if let Some(tokens) = entry.max_output_tokens {
            self.within("max_output_tokens", u64::from(tokens), 1, u64::from(u32::MAX))?;
            profile.max_output_tokens = tokens;
        }
        profile.context_tokens = entry.context_tokens;
        if entry.context_tokens.is_some_and(|context| context <= profile.max_output_tokens) {
            let why = format!(
                "leaves no room for a prompt beside max_output_tokens ({}). Raise it, or lower that",
                profile.max_output_tokens
            );
            return Err(self.wrong("context_tokens", why));
        }
        Ok(())
    }

    fn within(
        &self,
        field: &'static str,
        value: u64,
        least: u64,
        most: u64,
    ) -> Result<u64, ProfileError> {
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(self
            .wrong(field, format!("is {value}. Set it from {least} to {most}, or leave it out")))
    }
}

/// Whether a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
