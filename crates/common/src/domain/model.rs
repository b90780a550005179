//! What the service's own models leave in the rows of a run.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The identity of the service's own models. No token can have a name with this first character.
pub const MODEL_NAME: &str = "~model";

/// Which model made a reply, from which prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelReply {
    /// The name of the endpoint's profile.
    pub endpoint: String,
    /// The model, as the endpoint names it.
    pub model: String,
    /// The prompt with its version, such as `step/v1`.
    pub prompt: String,
    /// The SHA-256 of the prompt's text in hexadecimal.
    pub prompt_digest: String,
    /// Whether the endpoint ended the reply at its token limit: it is never read as a whole one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A wait whose answer a model of the service supplies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelWait {
    /// Set while the endpoint does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub away: Option<AwayEndpoint>,
}

/// An endpoint that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwayEndpoint {
    /// The name of the endpoint's profile.
    pub endpoint: String,
    /// What happened: the last failure that says something new.
    pub why: String,
    /// The time of the first failed call.
    pub since: DateTime<Utc>,
    /// The end of the wait: the run then ends.
    pub until: DateTime<Utc>,
    /// Not before this time the endpoint is called again for this wait.
    pub retry_at: DateTime<Utc>,
}

impl AwayEndpoint {
    /// What ends the wait, for people.
    #[must_use]
    pub fn unblocks(&self) -> String {
        let Self { endpoint, why, until, .. } = self;
        let until = until.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        format!(
            "the model endpoint {endpoint} answers again; it did not ({why}); the run ends with \
             model_unavailable at {until}"
        )
    }
}
