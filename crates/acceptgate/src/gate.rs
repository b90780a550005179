//! A gate with its database.

use crate::check::http_probe::Probes;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::clock;
use surety_common::domain::journal::Actor;
use surety_common::store::{Committer, EvidenceBundles, Waker};
use surety_common::telemetry;

/// The gate: the state that its handlers share.
pub struct Gate {
    pub(crate) pool: PgPool,
    pub(crate) committer: Committer,
    pub(crate) bundles: EvidenceBundles,
    pub(crate) probes: Arc<Probes>,
}

impl Gate {
    pub(crate) fn start(pool: PgPool, probes: Arc<Probes>) -> Self {
        let waker = Waker::start(pool.clone());
        Self {
            bundles: EvidenceBundles::start(pool.clone()),
            committer: Committer::start(pool.clone(), waker, Arc::new(telemetry::observe)),
            pool,
            probes,
        }
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor("acceptgate".into())
    }

    /// The current time, the gate's only clock.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        clock::now()
    }
}
