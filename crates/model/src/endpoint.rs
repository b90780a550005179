//! What the profiles of one endpoint share: its breaker, its slots, and what it offers.

use crate::breaker::Breaker;
use crate::error::ChatError;
use crate::length::Length;
use crate::profile::Profile;
use crate::wire::Level;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use surety_common::telemetry;
use tokio::sync::Semaphore;
use tokio::time::Instant as Clock;

/// What the profiles of one endpoint share.
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) slots: Semaphore,
    breaker: Mutex<Breaker>,
    /// How each model is held to a schema, once that is known.
    levels: Mutex<HashMap<String, Known>>,
    /// How long requests may be, for the models that refused one as too long.
    lengths: Mutex<HashMap<String, (Length, Instant)>>,
    /// How many tokens a reply may have, for the models that refused to give so many as were asked for.
    outputs: Mutex<HashMap<String, (u32, Instant)>>,
    /// The models that are not asked before a time, where the endpoint said so.
    holds: Mutex<HashMap<String, Hold>>,
}

/// Why a model is not asked, and until when.
#[derive(Debug, Clone)]
struct Hold {
    until: Clock,
    /// What the endpoint answered.
    error: ChatError,
    /// Whether the list of models may show that the endpoint is back sooner.
    may_end: bool,
    /// When the list was asked for.
    probed_at: Option<Clock>,
    /// Whether the list ended it.
    is_over: bool,
}

/// A way to hold a model to a schema that succeeded.
#[derive(Debug, Clone, Copy)]
struct Known {
    level: Level,
    /// When it was found.
    since: Instant,
}

/// How often the list of models is asked for while requests are kept back.
const PROBE_EVERY: Duration = Duration::from_secs(30);
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
            breaker: Mutex::new(Breaker::new(threshold, open)),
            levels: Mutex::new(HashMap::new()),
            lengths: Mutex::new(HashMap::new()),
            outputs: Mutex::new(HashMap::new()),
            holds: Mutex::new(HashMap::new()),
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

    /// How long requests for a model may be; none where none was too long. It is found anew after a while: the endpoint
    /// may have another model by then.
    pub(crate) fn length(&self, model: &str) -> Option<Length> {
        let lengths = self.lengths();
        let (length, since) = lengths.get(model).copied()?;
        (since.elapsed() < KNOWN_FOR).then_some(length)
    }

    /// A request of this length was too long.
    pub(crate) fn was_too_long(&self, model: &str, refused: u64) {
        let before = self.length(model);
        let mut lengths = self.lengths();
        let since = lengths.get(model).filter(|_| before.is_some()).map(|(_, since)| *since);
        let refused = before.map_or(refused, |length| refused.min(length.refused));
        let taken = before.map(|length| length.taken).filter(|taken| *taken < refused);
        let length = Length { refused, taken: taken.unwrap_or_default() };
        lengths.insert(model.to_owned(), (length, since.unwrap_or_else(Instant::now)));
    }

    /// A request of this length was taken.
    pub(crate) fn was_taken(&self, model: &str, taken: u64) {
        let mut lengths = self.lengths();
        let Some((length, _)) = lengths.get_mut(model) else { return };
        if taken < length.refused {
            length.taken = length.taken.max(taken);
        } else {
            // Another text, whose tokens are counted otherwise, or another model.
            lengths.remove(model);
        }
    }

    /// The most tokens of a reply of a model, where it gives fewer than a profile asks for. It is found anew after a while.
    pub(crate) fn most_output(&self, model: &str) -> Option<u32> {
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, since) = outputs.get(model).copied()?;
        (since.elapsed() < KNOWN_FOR).then_some(most)
    }

    pub(crate) fn bound_output(&self, model: &str, most: u32) {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.insert(model.to_owned(), (most, Instant::now()));
    }

    fn lengths(&self) -> MutexGuard<'_, HashMap<String, (Length, Instant)>> {
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the requests for a model back until a time, or longer where that was asked for before. An endpoint that
    /// failed may be back sooner, unless the list of models said so once and it was not.
    pub(crate) fn hold_back(&self, model: &str, until: Clock, error: &ChatError) {
        let mut holds = self.holds();
        let before = holds.remove(model);
        let has_failed = matches!(error, ChatError::Overloaded { .. });
        let now = Clock::now();
        // That of a rate limit stays, and so does that of an endpoint that was not back.
        let forbids = |hold: &Hold| hold.is_over || hold.until > now && !hold.may_end;
        let may_end = has_failed && !before.as_ref().is_some_and(forbids);
        let until = before.as_ref().map_or(until, |hold| until.max(hold.until));
        let probed_at = before.and_then(|hold| hold.probed_at);
        let hold = Hold { until, error: error.clone(), may_end, probed_at, is_over: false };
        holds.insert(model.to_owned(), hold);
    }

    /// How long the requests for a model are kept back, and what the endpoint answered; none where they are not.
    pub(crate) fn held_back(&self, model: &str) -> Option<(Clock, ChatError)> {
        let holds = self.holds();
        let hold = holds.get(model).filter(|hold| hold.until > Clock::now())?;
        Some((hold.until, hold.error.clone()))
    }

    /// Whether the list of models is to be asked for now, because it may show that the endpoint is back.
    pub(crate) fn is_probe_due(&self, model: &str) -> bool {
        let (mut holds, now) = (self.holds(), Clock::now());
        let Some(hold) = holds.get_mut(model).filter(|hold| hold.may_end) else { return false };
        let is_due = hold.probed_at.is_none_or(|at| now.duration_since(at) >= PROBE_EVERY);
        if is_due {
            hold.probed_at = Some(now);
        }
        is_due
    }

    /// The endpoint is back sooner than it said.
    pub(crate) fn end_hold(&self, model: &str) {
        if let Some(hold) = self.holds().get_mut(model) {
            (hold.until, hold.is_over) = (Clock::now(), true);
        }
    }

    /// The endpoint answered: what it says later counts anew.
    pub(crate) fn answered(&self, model: &str) {
        let mut holds = self.holds();
        if holds.get(model).is_some_and(|hold| hold.is_over) {
            holds.remove(model);
        }
    }

    fn holds(&self) -> MutexGuard<'_, HashMap<String, Hold>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
