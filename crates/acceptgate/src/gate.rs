//! A gate with its database.

use crate::check::http_probe::Probes;
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::clock;
use surety_common::domain::journal::Actor;
use surety_common::store::{Committer, EvidenceBundles, Signing, TrustSource, Waker};
use surety_common::telemetry;
use surety_forge::Forges;

/// The gate: the state that its handlers share.
pub struct Gate {
    pub(crate) pool: PgPool,
    pub(crate) committer: Committer,
    pub(crate) bundles: EvidenceBundles,
    pub(crate) probes: Arc<Probes>,
    /// The keys whose signatures count; none where no file names them.
    pub(crate) trust: Option<Arc<dyn TrustSource>>,
    /// The forges that are asked about tasks.
    pub(crate) forges: Forges,
}

/// What a gate signs with, and what it trusts.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    /// Signs verdicts.
    pub(crate) signing: Signing,
    /// The keys whose signatures count.
    pub(crate) trust: Option<Arc<dyn TrustSource>>,
}

impl Gate {
    pub(crate) fn start(pool: PgPool, probes: Arc<Probes>, forges: Forges, keys: Keys) -> Self {
        let waker = Waker::start(pool.clone());
        let Keys { signing, trust } = keys;
        let bundles = EvidenceBundles::start(pool.clone()).checked_against(trust.clone());
        let observer = Arc::new(telemetry::observe);
        Self {
            bundles,
            committer: Committer::start(pool.clone(), waker, observer, signing),
            trust,
            pool,
            probes,
            forges,
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
