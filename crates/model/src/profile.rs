//! Profiles: which model answers where, and for what it is used.

use crate::tokens::Tokenizer;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use surety_common::config::Secret;
use thiserror::Error;

/// The profile of the variables without a file, and of each use without a choice.
pub(crate) const DEFAULT: &str = "default";

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

impl ModelUse {
    /// Its key in `[use]`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Step => "step",
            Self::Retry => "retry",
        }
    }
}

/// How an endpoint is asked to hold a model to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaMode {
    /// By the first of the ways below that it takes, which is remembered.
    Auto,
    /// By `response_format`.
    Format,
    /// By one function that the reply has to call.
    Function,
    /// Not at all.
    Never,
}

/// The field that bounds a reply in OpenAI's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_tokens`, which all servers but OpenAI's own know.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's models that think insist on.
    MaxCompletionTokens,
}

impl MaxTokensField {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// What tokens cost, in billionths of the currency for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// A token of the prompt.
    pub input_nanos: u64,
    /// One that was read from the endpoint's cache.
    pub cached_input_nanos: u64,
    /// One that was written to it.
    pub cache_write_nanos: u64,
    /// A token of the reply.
    pub output_nanos: u64,
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
    /// More headers. Their values are not shown either.
    pub headers: BTreeMap<String, Secret>,
    /// More headers whose values are secrets, which are taken out of everything that the endpoint says.
    pub secret_headers: BTreeMap<String, Secret>,
    /// The files that the key and these headers were read from.
    pub secret_files: Vec<PathBuf>,
    /// More fields of each request.
    pub extra: Map<String, Value>,
    /// Certificate authorities beside those of the system, in PEM.
    pub ca_file: Option<PathBuf>,
    /// How many tokens prompt and reply may have together; none where that is unknown.
    pub context_tokens: Option<u32>,
    /// The most tokens of a reply.
    pub max_output_tokens: u32,
    /// The field that says so.
    pub max_tokens_field: MaxTokensField,
    /// The temperature; none for the endpoint's.
    pub temperature: Option<f64>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// How the model is held to a schema.
    pub schema: SchemaMode,
    /// What counts its tokens.
    pub tokenizer: Tokenizer,
    /// What its tokens cost; none where that is unknown.
    pub price: Option<Price>,
    /// Opening the connection.
    pub connect_timeout: Duration,
    /// Until the first byte of the answer's body.
    pub first_byte_timeout: Duration,
    /// Between two parts of it.
    pub idle_timeout: Duration,
    /// The whole reply, all tries together.
    pub total_timeout: Duration,
    /// How often a request is sent again after a failure of the endpoint.
    pub retries: u32,
    /// The first pause before that; it doubles.
    pub retry_pause: Duration,
    /// Requests at a time.
    pub concurrency: u32,
    /// Failures in a row after which the endpoint is not asked.
    pub breaker_failures: u32,
    /// For how long.
    pub breaker_open: Duration,
}

impl Profile {
    /// A profile with the defaults.
    #[must_use]
    pub fn at(name: &str, url: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            api: Api::OpenAi,
            url: url.trim_end_matches('/').to_owned(),
            model: model.to_owned(),
            key: None,
            headers: BTreeMap::new(),
            secret_headers: BTreeMap::new(),
            secret_files: Vec::new(),
            extra: Map::new(),
            ca_file: None,
            context_tokens: None,
            max_output_tokens: 8192,
            max_tokens_field: MaxTokensField::MaxTokens,
            temperature: None,
            stream: true,
            schema: SchemaMode::Auto,
            tokenizer: Tokenizer::of_model(model),
            price: None,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(120),
            idle_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(600),
            retries: 3,
            retry_pause: Duration::from_millis(500),
            concurrency: 8,
            breaker_failures: 5,
            breaker_open: Duration::from_secs(15),
        }
    }

    /// The name of its endpoint: the address without its scheme.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest)
    }

    /// How many tokens a prompt may have beside the longest reply; none where the context is unknown.
    #[must_use]
    pub fn prompt_room(&self) -> Option<u64> {
        let context = self.context_tokens?;
        Some(u64::from(context.saturating_sub(self.max_output_tokens)))
    }
}

/// All profiles, and what they are used for.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiles {
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) uses: BTreeMap<ModelUse, String>,
}

impl Profiles {
    /// These profiles, each for the uses that name it. A use for which none is chosen has the only profile or the one
    /// with the name `default`; a retry has that of steps.
    ///
    /// # Errors
    /// A use has no profile, or names an unknown one.
    pub fn of(
        profiles: impl IntoIterator<Item = Profile>,
        chosen: impl IntoIterator<Item = (ModelUse, String)>,
    ) -> Result<Self, ProfileError> {
        let profiles: BTreeMap<_, _> =
            profiles.into_iter().map(|profile| (profile.name.clone(), profile)).collect();
        let mut uses: BTreeMap<_, _> = chosen.into_iter().collect();
        let first = profiles.keys().next().filter(|_| profiles.len() == 1);
        let usual = first.or_else(|| profiles.get_key_value(DEFAULT).map(|(name, _)| name));
        for model_use in [ModelUse::Plan, ModelUse::Step, ModelUse::Retry] {
            if uses.contains_key(&model_use) {
                continue;
            }
            let of_steps = uses.get(&ModelUse::Step).filter(|_| model_use == ModelUse::Retry);
            let name = of_steps.or(usual).cloned().ok_or_else(|| ProfileError::UseUnset {
                model_use: model_use.as_str(),
                known: profiles.keys().cloned().collect(),
            })?;
            uses.insert(model_use, name);
        }
        let this = Self { profiles, uses };
        for name in this.uses.values() {
            this.get(name)?;
        }
        Ok(this)
    }

    /// The profile of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.profiles.get(name).ok_or_else(|| self.unknown(name))
    }

    /// The name of the profile for a use.
    #[must_use]
    pub fn name_for(&self, model_use: ModelUse) -> &str {
        self.uses.get(&model_use).map_or("default", String::as_str)
    }

    pub(crate) fn unknown(&self, name: &str) -> ProfileError {
        ProfileError::Unknown {
            name: name.to_owned(),
            known: self.profiles.keys().cloned().collect(),
        }
    }
}

/// A configuration of models that cannot be used. No message repeats a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error(
        "the file {path} with the model profiles cannot be read: {reason}. Point --model-profiles-file \
         (SURETY_MODEL_PROFILES_FILE) at the right file"
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// It is no document of profiles. The line is not shown, for it may hold a header's value.
    #[error(
        "line {line} of {path} (--model-profiles-file, SURETY_MODEL_PROFILES_FILE) does not read: {why}"
    )]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A profile that does not exist is asked for.
    #[error(
        "there is no model profile {name:?}. There is: {}. Name one of them, or add [model.{name}] to the file of \
         --model-profiles-file (SURETY_MODEL_PROFILES_FILE)",
        known.join(", ")
    )]
    Unknown {
        /// The name.
        name: String,
        /// The profiles.
        known: Vec<String>,
    },
    /// Several profiles and no word on which does what.
    #[error("no model profile is named for `{model_use}`. Write `{model_use} = \"NAME\"` under [use]; the profiles are: {}", known.join(", "))]
    UseUnset {
        /// The use.
        model_use: &'static str,
        /// The profiles.
        known: Vec<String>,
    },
    /// A price is that of no profile's model, so nothing would be charged by it.
    #[error(
        "[price.{model:?}] names a model that no profile has. The profiles' models are: {}. Correct the name, or remove \
         the price",
        known.join(", ")
    )]
    PriceUnused {
        /// The model.
        model: String,
        /// The models of the profiles.
        known: Vec<String>,
    },
    /// A field cannot be used.
    #[error("`{field}` of the model profile {profile:?} {why}")]
    Field {
        /// The profile.
        profile: String,
        /// The field.
        field: &'static str,
        /// What is wrong and what to do.
        why: String,
    },
    /// A file that a profile names cannot be read.
    #[error(
        "`{field}` of the model profile {profile:?} names {path}, which cannot be read: {reason}. Create the file, or correct the path"
    )]
    File {
        /// The profile.
        profile: String,
        /// The field.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// Every user of the machine can read the secret.
    #[error(
        "`{field}` of the model profile {profile:?} names {path}, which every user of this machine can read (mode {mode:03o}). Run: chmod 600 {path}"
    )]
    Exposed {
        /// The profile.
        profile: String,
        /// The field.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl ProfileError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "model_profile_unknown",
            Self::Unreadable { .. }
            | Self::Syntax { .. }
            | Self::UseUnset { .. }
            | Self::PriceUnused { .. }
            | Self::Field { .. }
            | Self::File { .. }
            | Self::Exposed { .. } => "model_configuration_invalid",
        }
    }
}
