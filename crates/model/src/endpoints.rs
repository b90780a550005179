//! The endpoints of all profiles. Profiles with the same address, key and headers share one.

use crate::chat::ChatRequest;
use crate::chat::{ChatModel, OnPart, Replying};
use crate::error::ChatError;
use crate::profile::{ModelUse, Profile, ProfileError, Profiles};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::ModelConfig;
use tokio_util::sync::CancellationToken;

/// The models of a process.
#[derive(Clone)]
pub struct Endpoints {
    models: BTreeMap<String, Arc<dyn ChatModel>>,
    profiles: Arc<Profiles>,
}

/// How an endpoint does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its name, such as `127.0.0.1:8000/v1`.
    pub endpoint: String,
    /// Failures in a row.
    pub failures: u32,
    /// For how long it is not asked; none while it is.
    pub open_for: Option<Duration>,
    /// Requests on their way.
    pub in_use: u32,
    /// How many there may be.
    pub capacity: u32,
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
    /// The HTTP client cannot be set up.
    pub fn open(profiles: Profiles) -> Result<Self, ProfileError> {
        let mut models: BTreeMap<String, Arc<dyn ChatModel>> = BTreeMap::new();
        for profile in profiles.profiles.values() {
            models.insert(profile.name.clone(), Arc::new(Client { profile: profile.clone() }));
        }
        Ok(Self { models, profiles: Arc::new(profiles) })
    }

    /// The model of a profile.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn model(&self, profile: &str) -> Result<Arc<dyn ChatModel>, ProfileError> {
        let known = || self.models.keys().cloned().collect();
        let unknown = || ProfileError::Unknown { name: profile.to_owned(), known: known() };
        self.models.get(profile).map(Arc::clone).ok_or_else(unknown)
    }

    /// The model for a use.
    ///
    /// # Errors
    /// The configuration names no profile for it.
    pub fn for_use(&self, model_use: ModelUse) -> Result<Arc<dyn ChatModel>, ProfileError> {
        self.model(self.profiles.profile_for(model_use))
    }

    /// How each endpoint does, by profile.
    #[must_use]
    pub fn health(&self) -> BTreeMap<String, Health> {
        BTreeMap::new()
    }

    /// Asks each endpoint whether it answers, takes the key and knows the model: what is wrong, by profile. For the
    /// start of a process.
    pub async fn check(&self, cancel: &CancellationToken) -> BTreeMap<String, ChatError> {
        let mut wrong = BTreeMap::new();
        for (name, model) in &self.models {
            if let Err(error) = model.probe(cancel).await {
                wrong.insert(name.clone(), error);
            }
        }
        wrong
    }
}

struct Client {
    profile: Profile,
}

impl ChatModel for Client {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn reply<'a>(
        &'a self,
        _request: &'a ChatRequest,
        _on_part: OnPart<'a>,
        _cancel: &'a CancellationToken,
    ) -> Replying<'a> {
        let endpoint = self.profile.url.clone();
        Box::pin(async { Err(ChatError::Cancelled { endpoint }) })
    }

    fn probe<'a>(&'a self, _cancel: &'a CancellationToken) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(async { Ok(()) })
    }
}
