//! The endpoints of all profiles. Profiles with the same address, key and headers share one.

use crate::ask::advice;
use crate::chat::ChatModel;
use crate::client::{Client, SECRET, secrets};
use crate::endpoint::Endpoint;
use crate::error::{Blame, ChatError};
use crate::profile::{Api, ModelUse, Profile, ProfileError, Profiles};
use crate::tokens::count_messages;
use futures::future::join_all;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::config::{ModelConfig, Secret};
use surety_common::domain::messages::{Message, Role};
use tokio_util::sync::CancellationToken;

/// The models of a process.
#[derive(Clone)]
pub struct Endpoints {
    models: BTreeMap<String, Arc<Client>>,
    profiles: Arc<Profiles>,
}

/// What tells two endpoints apart.
type Identity<'a> = (&'a str, Api, Option<&'a str>, Vec<(&'a str, &'a str)>);

fn identity(profile: &Profile) -> Identity<'_> {
    let headers = profile.headers.iter().chain(&profile.secret_headers);
    let headers = headers.map(|(name, value)| (name.as_str(), value.expose())).collect();
    (&profile.url, profile.api, profile.key.as_ref().map(Secret::expose), headers)
}

impl Endpoints {
    /// The models of a configuration; none where it names no model.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn from_config(config: &ModelConfig) -> Result<Option<Self>, ProfileError> {
        Profiles::from_config(config)?.map(Self::open).transpose()
    }

    /// The models of profiles. No connection is made.
    ///
    /// # Errors
    /// A profile's certificate authorities cannot be read.
    pub fn open(profiles: Profiles) -> Result<Self, ProfileError> {
        let mut shared: BTreeMap<Identity<'_>, Vec<&Profile>> = BTreeMap::new();
        for profile in profiles.profiles.values() {
            shared.entry(identity(profile)).or_default().push(profile);
        }
        let mut models = BTreeMap::new();
        for group in shared.values() {
            let endpoint = Arc::new(Endpoint::new(group));
            for profile in group {
                let client = Client::open((*profile).clone(), Arc::clone(&endpoint))?;
                models.insert(profile.name.clone(), Arc::new(client));
            }
        }
        Ok(Self { models, profiles: Arc::new(profiles) })
    }

    /// The model of a profile.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn model(&self, profile: &str) -> Result<Arc<dyn ChatModel>, ProfileError> {
        match self.models.get(profile) {
            Some(client) => Ok(Arc::<Client>::clone(client)),
            None => Err(self.profiles.unknown(profile)),
        }
    }

    /// The model for a use.
    ///
    /// # Errors
    /// The configuration names no profile for it.
    pub fn for_use(&self, model_use: ModelUse) -> Result<Arc<dyn ChatModel>, ProfileError> {
        self.model(self.profiles.name_for(model_use))
    }

    /// The files that keys were read from, for a process that hides them from the commands that it runs.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        let profiles = self.profiles.profiles.values();
        profiles.flat_map(|profile| &profile.secret_files).map(PathBuf::as_path)
    }

    /// The keys and the secret headers of all profiles with the name that stands for them, for a process that keeps them
    /// out of what its tools put out and out of its log.
    pub fn secrets(&self) -> impl Iterator<Item = (String, Secret)> {
        let secrets = self.profiles.profiles.values().flat_map(secrets);
        secrets.map(|secret| (SECRET.to_owned(), Secret::new(secret)))
    }

    /// The profiles in use whose context has no room for the text with which every prompt begins, each with what to do.
    #[must_use]
    pub fn without_room(&self, begin: &str) -> BTreeMap<String, String> {
        let begin = [Message::new(Role::System, begin)];
        let named = self.profiles.uses.values();
        let profiles = named.filter_map(|name| self.profiles.profiles.get(name));
        let short = profiles.filter_map(|profile| {
            let (needed, room) =
                (count_messages(profile.tokenizer, &begin), profile.prompt_room()?);
            let said = || {
                format!(
                    "the rules and the tools alone have {needed} tokens, counted as {}, and the prompt has room for \
                     {room} (context_tokens less max_output_tokens). {}",
                    profile.tokenizer.as_str(),
                    advice(&profile.name)
                )
            };
            (needed > room).then(|| (profile.name.clone(), said()))
        });
        short.collect()
    }

    /// Asks each endpoint once, and logs what is wrong with it and what to do. For the start of a process, which goes
    /// on in any case: an endpoint may come later.
    pub async fn check_at_start(self, service: &'static str, cancel: CancellationToken) {
        for (profile, error) in self.check(&cancel).await {
            if error.blame() != Blame::Caller {
                let code = error.code();
                tracing::warn!(profile, code, %error, "{service}: runs that need this model profile wait");
            }
        }
    }

    /// Asks each endpoint whether it answers, takes the key and knows the model: what is wrong, by profile.
    pub async fn check(&self, cancel: &CancellationToken) -> BTreeMap<String, ChatError> {
        let probes = self.models.iter().map(|(name, client)| async move {
            client.probe(cancel).await.err().map(|error| (name.clone(), error))
        });
        join_all(probes).await.into_iter().flatten().collect()
    }
}
