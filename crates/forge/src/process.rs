//! What all clients of a process share: connections, kept answers, known rate limits.

use crate::cache::Cache;
use crate::observer::CallObserver;
use chrono::{DateTime, Utc};
use reqwest::Url;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_common::tls::http_client;

/// How long calls may take, and how often reads are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Opening a connection.
    pub connect: Duration,
    /// One attempt, from the connection to the last byte of the answer.
    pub attempt: Duration,
    /// The attempts of a read, from 1.
    pub attempts: u32,
    /// The pause before the second attempt; later ones double, each with a random part.
    pub pause: Duration,
    /// The longest wait for a rate limit inside a call; a longer one fails with `rate_limited`.
    pub patience: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            attempt: Duration::from_secs(30),
            attempts: 3,
            pause: Duration::from_millis(300),
            patience: Duration::from_secs(5),
        }
    }
}

/// What all clients of a process share.
pub(crate) struct Shared {
    /// Through the proxy of the environment, where there is one.
    outside: reqwest::Client,
    /// For addresses of this machine.
    loopback: reqwest::Client,
    pub(crate) cache: Cache,
    /// Until when an account is not asked, by its key.
    limits: Mutex<HashMap<String, DateTime<Utc>>>,
    pub(crate) observer: Arc<dyn CallObserver>,
    pub(crate) times: Times,
}

/// A client that goes nowhere else: the credential must not follow a redirect.
fn builder(times: &Times) -> reqwest::ClientBuilder {
    http_client()
        .connect_timeout(times.connect)
        .user_agent(concat!("surety/", env!("CARGO_PKG_VERSION")))
}

impl Shared {
    pub(crate) fn new(
        observer: Arc<dyn CallObserver>,
        times: Times,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            outside: builder(&times).build()?,
            loopback: builder(&times).no_proxy().build()?,
            cache: Cache::default(),
            limits: Mutex::default(),
            observer,
            times,
        })
    }

    pub(crate) fn http(&self, url: &Url) -> &reqwest::Client {
        // An address was checked when its client was opened: http leads to this machine only.
        if url.scheme() == "http" { &self.loopback } else { &self.outside }
    }

    /// Until when an account is not asked.
    pub(crate) fn limited_until(&self, key: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.retain(|_, until| *until > now);
        limits.get(key).copied()
    }

    pub(crate) fn limit(&self, key: &str, until: DateTime<Utc>) {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.insert(key.to_owned(), until);
    }
}
