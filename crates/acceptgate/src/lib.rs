//! The acceptgate: decides, from recorded evidence alone, whether a plan's goal is reached.
//!
//! ```text
//!   EvaluateRun --> judgement: rows (plan, receipts) --> verdict --> DONE | RECOVERING | FAILED
//!   Evaluate -----> stateless: what the caller brings -> verdict     (no state)
//! ```

pub mod check;
mod judgement;
mod service;
pub mod stateless;
pub mod verdict;

use check::http_probe::Probes;
use chrono::{DateTime, Utc};
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::clock;
use surety_common::config::{CommonConfig, GateConfig};
use surety_common::domain::journal::Actor;
use surety_common::store::{self, Committer, EvidenceBundles, PoolSize, StoreError, Waker};
use surety_common::telemetry;
use surety_common::wire::server::{self, Server, Settings};
use surety_common::wire::token::Token;
use surety_common::wire::v1::accept_gate_service_server::AcceptGateServiceServer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What a gate needs to run.
pub struct Setup {
    /// The settings all services share.
    pub common: CommonConfig,
    /// The gate's own settings.
    pub gate: GateConfig,
    /// The Postgres that holds all state; without one the gate runs in stateless mode.
    pub database_url: Option<String>,
    /// What callers must show; none lets everybody in.
    pub token: Option<Token>,
    /// The process's figures, served at `/metrics`; none serves no such path.
    pub metrics: Option<PrometheusHandle>,
}

/// Why a gate ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The rows cannot be used, for a reason that waiting does not mend.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// No HTTP client for probes can be made.
    #[error("the client for http_probe checks cannot be made")]
    Probes(#[from] reqwest::Error),
    /// The port can no longer be served.
    #[error("the port can no longer be served")]
    Server(#[from] server::ServeError),
}

/// The gate: what its handlers share.
pub struct Gate {
    pool: PgPool,
    committer: Committer,
    bundles: EvidenceBundles,
    probes: Arc<Probes>,
}

impl Gate {
    fn start(pool: PgPool, probes: Arc<Probes>) -> Self {
        let waker = Waker::start(pool.clone());
        Self {
            bundles: EvidenceBundles::start(pool.clone()),
            committer: Committer::start(pool.clone(), waker, Arc::new(telemetry::observe)),
            pool,
            probes,
        }
    }

    fn actor(&self) -> Actor {
        Actor("acceptgate".into())
    }

    /// The time. The gate's one clock.
    fn now(&self) -> DateTime<Utc> {
        clock::now()
    }
}

/// Serves until `shutdown` is cancelled. While the database is away at start it waits for it.
/// Without one it runs in stateless mode: it evaluates what callers send and has no runs.
///
/// # Errors
/// [`ServeError`]
pub async fn serve(
    setup: Setup,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let probes = Arc::new(Probes::new(setup.gate.probe.gate_probe_allow.as_deref())?);
    let Some(database_url) = &setup.database_url else {
        let server = without_database(setup, probes);
        return Ok(server.serve(listener, shutdown.cancelled_owned()).await?);
    };
    let connecting = store::connect_with_patience(database_url, PoolSize::of(&setup.common));
    let pool = tokio::select! {
        pool = connecting => pool?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let gate = Arc::new(Gate::start(pool.clone(), probes));
    let served = Server::new(Settings::of(&setup.common, setup.token))
        .with_service(AcceptGateServiceServer::new(service::Service::new(gate)))
        .with_http(server::operations(setup.metrics, Some(pool.clone())))
        .serve(listener, shutdown.cancelled_owned())
        .await;
    pool.close().await;
    Ok(served?)
}

fn without_database(setup: Setup, probes: Arc<Probes>) -> Server {
    tracing::warn!(
        "no DATABASE_URL: a stateless over what callers bring, without runs; only Evaluate and \
         VerifyReceipts of what is sent along are answered until it is set"
    );
    Server::new(Settings::of(&setup.common, setup.token))
        .with_service(AcceptGateServiceServer::new(service::Service::stateless(probes)))
        .with_http(server::operations(setup.metrics, None))
}
