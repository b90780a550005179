//! Profiles: which model answers where, and for what it is used.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use surety_common::config::{ModelConfig, Secret};
use thiserror::Error;

/// The form of an endpoint's requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Api {
    /// `POST {url}/chat/completions`, as OpenAI, vLLM, llama.cpp, Ollama and LiteLLM have it.
    OpenAi,
    /// `POST {url}/messages`, as Anthropic has it.
    Anthropic,
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelUse {
    /// Plans and patches.
    Plan,
    /// The turns of steps.
    Step,
    /// The second try of a step or a plan that failed.
    Retry,
}

/// One model behind one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name, such as `fast`.
    pub name: String,
    /// The form of requests.
    pub api: Api,
    /// The base address, without a slash at its end; `/chat/completions` or `/messages` follows.
    pub url: String,
    /// The model.
    pub model: String,
    /// The key; none where the endpoint takes none.
    pub key: Option<Secret>,
    /// More headers. Their values are secrets as well.
    pub headers: BTreeMap<String, Secret>,
    /// How many tokens prompt and reply may have together; none where that is unknown.
    pub context_tokens: Option<u32>,
    /// The most tokens of a reply.
    pub max_output_tokens: u32,
    /// The temperature; none for the endpoint's.
    pub temperature: Option<f64>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// Opening the connection.
    pub connect_timeout: Duration,
    /// Until the first byte of the answer.
    pub first_byte_timeout: Duration,
    /// Between two parts of the answer.
    pub idle_timeout: Duration,
    /// The whole reply, all tries together.
    pub total_timeout: Duration,
    /// How often a request is sent again after a failure of the endpoint.
    pub retries: u32,
    /// Requests at a time.
    pub concurrency: u32,
}

/// All profiles, and what they are used for.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiles {
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) uses: BTreeMap<ModelUse, String>,
}

/// A configuration of models that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// A profile that does not exist is asked for.
    #[error("there is no model profile {name:?}. The profiles are: {}. Name one of them, or add [model.{name}]", known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// The profiles.
        known: Vec<String>,
    },
    /// The key file cannot be read.
    #[error(
        "the key_file {path} of the model profile {profile:?} cannot be read: {reason}. Write the key into it, or correct the path"
    )]
    KeyFile {
        /// The profile.
        profile: String,
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

impl Profiles {
    /// The profiles of a configuration; none where it names no model.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn from_config(config: &ModelConfig) -> Result<Option<Self>, ProfileError> {
        let _config = config;
        Ok(None)
    }

    /// The name of the profile for a use.
    pub(crate) fn profile_for(&self, model_use: ModelUse) -> &str {
        self.uses.get(&model_use).map_or("default", String::as_str)
    }

    /// The profile of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles.get(name).ok_or_else(|| ProfileError::Unknown {
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
        })
    }
}
