//! The acceptgate decides from recorded evidence alone whether a plan's goal is reached.
//!
//! ```text
//!   EvaluateRun --> judgement: rows (plan, receipts) --> verdict --> DONE | RECOVERING | FAILED
//!   Evaluate -----> stateless: evidence in the request -> verdict     (no state)
//! ```

mod anchor;
pub mod check;
pub mod evidence;
mod gate;
mod judgement;
mod question;
pub mod remedy;
mod service;
pub mod stateless;
pub mod verdict;

pub use gate::Gate;

use anchor::Anchoring;
use check::http_probe::Probes;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::config::{CommonConfig, ConfigError, GateConfig};
use surety_common::domain::signature::Service as Signer;
use surety_common::keys;
use surety_common::store::{self, Identities, PoolSize, StoreError, TrustSource};
use surety_common::wire::client::Transport;
use surety_common::wire::server::{self, Authentication, Server, ServerInfo, Settings, announce};
use surety_common::wire::token::FileTokens;
use surety_common::wire::v1::SandboxLevel;
use surety_common::wire::v1::accept_gate_service_server::AcceptGateServiceServer;
use surety_common::wire::v1::internal_service_server::InternalServiceServer;
use surety_forge::{ForgeError, Forges};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The configuration of a gate.
pub struct Setup {
    /// The common settings.
    pub common: CommonConfig,
    /// The gate's settings.
    pub gate: GateConfig,
    /// The Postgres that stores all state; without one the gate runs in stateless mode.
    pub database_url: Option<String>,
    /// The tokens that are known from the start.
    pub tokens: FileTokens,
    /// The certificates of the port.
    pub transport: Transport,
    /// The process's metrics, served at `/metrics`; none disables that path.
    pub metrics: Option<PrometheusHandle>,
}

/// Why a gate ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A permanent error of the database.
    #[error("the database is not usable")]
    Store(#[from] StoreError),
    /// The HTTP client for probes and anchors could not be created.
    #[error("the HTTP client for http_probe checks and anchors could not be created")]
    Probes(#[from] reqwest::Error),
    /// A key file, or the file with the forges, cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A forge of the configuration cannot be used.
    #[error(transparent)]
    Forges(#[from] ForgeError),
    /// The port failed.
    #[error("the listening socket failed")]
    Server(#[from] server::ServeError),
}

/// Checks what a gate reads of its settings at its start, without a connection.
///
/// # Errors
/// What cannot be used.
pub fn check(common: &CommonConfig, gate: &GateConfig) -> Result<(), ServeError> {
    Probes::new(gate.probe.gate_probe_allow.as_deref())?;
    Forges::open(&common.forges()?)?;
    keys::trust(common.trusted_keys_file.as_deref())?;
    gate.anchor_authority()?;
    keys::check(gate.gate_key_file.as_deref())?;
    Ok(())
}

/// Serves until `shutdown` is cancelled. At start it waits until the database is available. Without
/// one it runs in stateless mode: it evaluates the evidence in requests, and has no runs.
///
/// # Errors
/// [`ServeError`]
pub async fn serve(
    setup: Setup,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let probes = Arc::new(Probes::new(setup.gate.probe.gate_probe_allow.as_deref())?);
    let forges = Forges::open(&setup.common.forges()?)?;
    let trust = keys::trust(setup.common.trusted_keys_file.as_deref())?;
    let Some(database_url) = &setup.database_url else {
        announce("acceptgate", &listener);
        let server = without_database(setup, probes, trust);
        return Ok(server.serve(listener, shutdown.cancelled_owned()).await?);
    };
    let authority = setup.gate.anchor_authority()?;
    let signing = keys::signing(Signer::Gate, setup.gate.gate_key_file.as_deref())?;
    announce("acceptgate", &listener);
    let beginning = store::begin(database_url, PoolSize::of(&setup.common), &setup.tokens.known);
    let Some(pool) = shutdown.run_until_cancelled(beginning).await.transpose()? else {
        return Ok(());
    };
    let authentication = Authentication::Store(Arc::new(Identities::of(pool.clone())));
    tokio::spawn(keys::keep_registered(signing.clone(), pool.clone(), shutdown.clone()));
    if let Some(authority) = authority {
        let anchoring = Anchoring::new(authority, pool.clone())?;
        tokio::spawn(anchoring.run(shutdown.clone()));
    }
    let gate = Gate::start(pool.clone(), probes, forges, gate::Keys { signing, trust });
    let handlers = service::Service::new(Arc::new(gate));
    let served = Server::new(Settings::of(&setup.common, authentication, setup.transport.tls))
        .with_service(AcceptGateServiceServer::new(handlers.clone()))
        .with_service(InternalServiceServer::new(handlers))
        .with_info(info(Some(pool.clone())))
        .with_http(server::operations(setup.metrics, Some(pool.clone())))
        .serve(listener, shutdown.cancelled_owned())
        .await;
    store::close(&pool).await;
    Ok(served?)
}

fn without_database(
    setup: Setup,
    probes: Arc<Probes>,
    trust: Option<Arc<dyn TrustSource>>,
) -> Server {
    tracing::warn!(
        "acceptgate: no DATABASE_URL is set; running in stateless mode, which serves only Evaluate, \
         and VerifyReceipts for receipts in the request"
    );
    let authentication = Authentication::stateless(&setup.tokens.known);
    Server::new(Settings::of(&setup.common, authentication, setup.transport.tls))
        .without_database::<InternalServiceServer<service::Service>>()
        .with_service(AcceptGateServiceServer::new(service::Service::stateless(probes, trust)))
        .with_info(info(None))
        .with_http(server::operations(setup.metrics, None))
}

/// What the gate says of itself; it starts no commands.
fn info(pool: Option<PgPool>) -> ServerInfo {
    let (version, sandbox) = (env!("CARGO_PKG_VERSION"), SandboxLevel::None);
    let sandbox_missing = Vec::new();
    ServerInfo { service: "acceptgate", version, sandbox, sandbox_missing, pool, has_model: false }
}
