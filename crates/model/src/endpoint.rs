//! What the profiles of one endpoint share: its breaker, its slots, and what it offers.

use crate::breaker::Breaker;
use crate::profile::Profile;
use crate::wire::Level;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use surety_common::telemetry;
use tokio::sync::Semaphore;

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

/// What the profiles of one endpoint share.
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) slots: Semaphore,
    capacity: u32,
    breaker: Mutex<Breaker>,
    /// How each model is held to a schema, once that is known.
    levels: Mutex<HashMap<String, Known>>,
    /// Not before this time each model is asked, where the endpoint said so.
    held_back: Mutex<HashMap<String, tokio::time::Instant>>,
}

/// A way to hold a model to a schema that succeeded.
#[derive(Debug, Clone, Copy)]
struct Known {
    level: Level,
    /// When it was found.
    since: Instant,
}

/// A way is found anew after this time: the endpoint may take a better one by now.
const KNOWN_FOR: Duration = Duration::from_hours(1);

impl Endpoint {
    /// The limits are the smallest of its profiles.
    pub(crate) fn new(profiles: &[&Profile]) -> Self {
        let least = |limit: fn(&Profile) -> u32| profiles.iter().map(|it| limit(it)).min();
        let capacity = least(|profile| profile.concurrency).unwrap_or(1);
        let threshold = least(|profile| profile.breaker_failures).unwrap_or(1);
        let open = profiles.iter().map(|profile| profile.breaker_open).min().unwrap_or_default();
        let name = profiles.first().map(|profile| profile.endpoint().to_owned());
        Self {
            name: name.unwrap_or_default(),
            slots: Semaphore::new(usize::try_from(capacity).unwrap_or(1)),
            capacity,
            breaker: Mutex::new(Breaker::new(threshold, open)),
            levels: Mutex::new(HashMap::new()),
            held_back: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows in the metrics whether requests are kept back.
    pub(crate) fn show_breaker(&self) {
        let is_open = self.breaker().open_for(Instant::now()).is_some();
        telemetry::set_model_breaker(&self.name, is_open);
    }

    pub(crate) fn level(&self, model: &str) -> Option<Level> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.get(model).filter(|known| known.since.elapsed() < KNOWN_FOR).map(|known| known.level)
    }

    pub(crate) fn remember(&self, model: &str, level: Level) {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.insert(model.to_owned(), Known { level, since: Instant::now() });
    }

    /// Keeps the requests for a model back until a time, or longer where that was asked for before.
    pub(crate) fn hold_back(&self, model: &str, until: tokio::time::Instant) {
        let mut held = self.held_back.lock().unwrap_or_else(PoisonError::into_inner);
        let at = held.entry(model.to_owned()).or_insert(until);
        *at = until.max(*at);
    }

    /// Until when the requests for a model are kept back; none where they are not.
    pub(crate) fn held_back(&self, model: &str) -> Option<tokio::time::Instant> {
        let held = self.held_back.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(model).copied().filter(|until| *until > tokio::time::Instant::now())
    }

    pub(crate) fn health(&self) -> Health {
        let free = u32::try_from(self.slots.available_permits()).unwrap_or(self.capacity);
        let breaker = self.breaker();
        Health {
            endpoint: self.name.clone(),
            failures: breaker.failures(),
            open_for: breaker.open_for(Instant::now()),
            in_use: self.capacity.saturating_sub(free),
            capacity: self.capacity,
        }
    }
}
