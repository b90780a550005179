//! Whether an endpoint answers, takes the key and knows the model, without a reply of the model.

use crate::client::Client;
use crate::error::{ChatError, Phase};
use crate::profile::Api;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// How long the list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of it.
const MAX_LIST: usize = 8 * 1024 * 1024;
/// The models that an error names.
const SHOWN: usize = 10;

#[derive(Deserialize)]
struct Listed {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    owned_by: Option<String>,
}

impl Client {
    /// # Errors
    /// What a request to the model would end with.
    pub(crate) async fn ask_for_model(&self) -> Result<(), ChatError> {
        let limit = LIST_TIMEOUT.min(self.profile.total_timeout);
        let found = match timeout(limit, self.listed()).await {
            Ok(found) => found,
            Err(_) => Err(self.late(Phase::FirstByte, limit).error),
        };
        if found.is_ok() {
            self.endpoint().breaker().succeeded();
        }
        found
    }

    async fn listed(&self) -> Result<(), ChatError> {
        let request = self.http.get(self.models_url.clone()).headers(self.headers.clone());
        let mut response = request.send().await.map_err(|error| self.transport(&error).error)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| self.transport(&error).error)?
        {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_LIST {
                break;
            }
        }
        match (status.as_u16(), self.profile.api) {
            (200, Api::OpenAi) => self.is_listed(&body),
            (200, Api::Anthropic) => Ok(()),
            // Not every server lists its models; it answers, and a request will tell.
            (404 | 405 | 501, Api::OpenAi) => Ok(()),
            (405 | 501, Api::Anthropic) => Ok(()),
            (404, Api::Anthropic) if !is_anthropic_error(&body) => Ok(()),
            (status, _) => Err(self.refusal(status, &body, (None, None)).error),
        }
    }

    fn is_listed(&self, body: &[u8]) -> Result<(), ChatError> {
        let model = &self.profile.model;
        let Ok(Listed { data }) = serde_json::from_slice::<Listed>(body) else { return Ok(()) };
        let latest = format!("{model}:latest");
        // llama.cpp serves its one model under every name, and a gateway may list patterns.
        let is_open =
            |it: &Model| it.owned_by.as_deref() == Some("llamacpp") || it.id.contains('*');
        let is_this = |it: &Model| it.id == *model || it.id == latest;
        if data.is_empty() || data.iter().any(|it| is_this(it) || is_open(it)) {
            return Ok(());
        }
        let mut names: Vec<&str> = data.iter().map(|it| it.id.as_str()).take(SHOWN).collect();
        if data.len() > SHOWN {
            names.push("...");
        }
        Err(ChatError::ModelUnknown {
            endpoint: self.endpoint().name.clone(),
            profile: self.profile.name.clone(),
            model: model.clone(),
            said: self.clean(&format!("it has {}", names.join(", "))),
        })
    }
}

fn is_anthropic_error(body: &[u8]) -> bool {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    body.pointer("/error/type").and_then(serde_json::Value::as_str) == Some("not_found_error")
}
