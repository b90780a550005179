//! The planner: intake, runs, plans, replans, waits.
//!
//! ```text
//!   CreateRun --> intake --> run + plan (rows) --> an executor claims it
//!   SubmitPlan ----^            |
//!   GetRun, WatchRun, ...  <----+---- runs
//!   POST /webhooks/... --> hook --> tasks
//!   plan: reads and validates plans, as pure functions
//!   shards: selects the database of a run or a namespace
//! ```

mod absent_hosts;
mod call;
mod depths;
mod hook;
pub mod intake;
mod mail;
mod merge;
mod model;
pub mod plan;
mod planner;
mod retention;
mod runs;
mod scan;
mod service;
mod shards;
pub mod task;
mod tokens;
mod upkeep;
mod webhook;

pub use planner::Planner;
pub use service::{read_own_limits, read_policy};
pub use webhook::WebhookError;

use metrics_exporter_prometheus::PrometheusHandle;
use planner::TaskSetup;
use shards::Shards;
use sqlx::PgPool;
use std::sync::Arc;
use surety_common::clock::PRIMARY_SHARD;
use surety_common::config::{
    CommonConfig, ConfigError, ModelDriverConfig, NamespaceDatabase, PlannerConfig, Webhook,
};
use surety_common::domain::signature::Service as Signer;
use surety_common::keys;
use surety_common::store::{self, Identities, PoolSize, Retention, StoreError};
use surety_common::wire::client::Transport;
use surety_common::wire::server::{self, Authentication, Server, ServerInfo, Settings, announce};
use surety_common::wire::token::FileTokens;
use surety_common::wire::v1::SandboxLevel;
use surety_common::wire::v1::admin_service_server::AdminServiceServer;
use surety_common::wire::v1::planner_service_server::PlannerServiceServer;
use surety_common::wire::v1::run_service_server::RunServiceServer;
use surety_common::wire::v1::toolchain_service_server::ToolchainServiceServer;
use surety_forge::{ForgeError, Forges};
use tokens::Tokens;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use upkeep::Upkeep;
use webhook::Webhooks;

/// The configuration of a planner.
pub struct Setup {
    /// The common settings.
    pub common: CommonConfig,
    /// The planner's settings.
    pub planner: PlannerConfig,
    /// The models that plan for runs with the driver `model`.
    pub models: ModelDriverConfig,
    /// The Postgres that stores all state; without one the planner runs in stateless mode.
    pub database_url: Option<String>,
    /// The databases of namespaces that have a separate one; stateless mode uses none.
    pub databases: Vec<NamespaceDatabase>,
    /// The addresses that are told of events.
    pub webhooks: Vec<Webhook>,
    /// The tokens that are known from the start.
    pub tokens: FileTokens,
    /// The certificates of the port.
    pub transport: Transport,
    /// The process's metrics, served at `/metrics`; none disables that path.
    pub metrics: Option<PrometheusHandle>,
}

/// Why a planner ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A permanent error of the database.
    #[error("the database is not usable")]
    Store(#[from] StoreError),
    /// A webhook of the configuration cannot be used.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// A model's profile cannot be used.
    #[error(transparent)]
    Models(#[from] surety_model::ProfileError),
    /// The rules for tasks cannot be used.
    #[error(transparent)]
    Tasks(#[from] task::TaskRulesError),
    /// A prompt, a key file, or a file of the configuration, cannot be used.
    #[error(transparent)]
    Prompt(#[from] ConfigError),
    /// A forge of the configuration cannot be used.
    #[error(transparent)]
    Forges(#[from] ForgeError),
    /// The port failed.
    #[error("the listening socket failed")]
    Server(#[from] server::ServeError),
}

/// Checks what a planner reads of its settings at its start, without a connection.
///
/// # Errors
/// What cannot be used.
pub fn check(
    (common, planner, models): (&CommonConfig, &PlannerConfig, &ModelDriverConfig),
    transport: &Transport,
) -> Result<(), ServeError> {
    Webhooks::new(&planner.webhooks()?, transport)?;
    model::Prompts::load(models.model_prompts_dir.as_deref())?;
    surety_model::Endpoints::from_config(&models.models)?;
    task::TaskRules::load(planner.toolchain()?)?;
    keys::check(planner.planner_key_file.as_deref())?;
    keys::trust(common.trusted_keys_file.as_deref())?;
    Forges::open(&common.forges()?)?;
    Ok(())
}

/// Serves until `shutdown` is cancelled. At start it waits until the primary database is available;
/// it connects to those of namespaces while it serves. Without a primary database it runs in
/// stateless mode: it reads and validates plans, and has no runs.
///
/// # Errors
/// [`ServeError`]
#[expect(
    clippy::too_many_lines,
    reason = "the parts of a process in the order in which they start"
)]
pub async fn serve(
    setup: Setup,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let Some(database_url) = &setup.database_url else {
        announce("planner", &listener);
        return Ok(without_database(setup).serve(listener, shutdown.cancelled_owned()).await?);
    };
    let webhooks = Webhooks::new(&setup.webhooks, &setup.transport)?;
    let prompts = model::Prompts::load(setup.models.model_prompts_dir.as_deref())?;
    let endpoints = surety_model::Endpoints::from_config(&setup.models.models)?;
    let rules = Arc::new(task::TaskRules::load(setup.planner.toolchain()?)?);
    let keys = planner::Keys {
        signing: keys::signing(Signer::Planner, setup.planner.planner_key_file.as_deref())?,
        trust: keys::trust(setup.common.trusted_keys_file.as_deref())?,
    };
    let forges = Forges::open(&setup.common.forges()?)?;
    // Everything of the configuration was read by now, and an error of it named.
    announce("planner", &listener);
    let size = PoolSize::of(&setup.common);
    let beginning = store::begin(database_url, size, &setup.tokens.known);
    let Some(pool) = shutdown.run_until_cancelled(beginning).await.transpose()? else {
        return Ok(());
    };
    let identities = Identities::of(pool.clone());
    let escalations: Arc<dyn task::EscalationPort> = match forges.is_empty() {
        true => Arc::new(task::NoForge),
        false => Arc::new(task::ForgePort::new(forges, pool.clone())),
    };
    let upkeep = Upkeep {
        retention: Retention::of(&setup.planner.retention),
        host_label: setup.common.host_label(),
        depths: Arc::default(),
        webhooks,
        tasks: TaskSetup { rules, escalations },
        keys,
    };
    let tokens = Tokens { primary: pool.clone(), identities: identities.clone() };
    let name = "the primary database".to_owned();
    let primary = upkeep.start(pool.clone(), PRIMARY_SHARD, name, shutdown.clone()).await;
    let shards = Arc::new(Shards::of(Arc::clone(&primary), database_url, &setup.databases, size));
    let mut loops = JoinSet::new();
    loops.spawn(upkeep.clone().go_on(primary));
    for shard in shards.others() {
        loops.spawn(shard.keep(upkeep.clone(), tokens.clone(), shutdown.clone()));
    }
    let has_model = endpoints.is_some();
    let hooks = hook::Hooks::new(Arc::clone(&shards), &setup.planner.hooks);
    hook::start(&hooks, &mut loops, &shutdown);
    let handlers = service::Service::new(Arc::clone(&shards), has_model, Arc::clone(&hooks));
    if let Some(endpoints) = endpoints.clone() {
        tokio::spawn(endpoints.check_at_start("planner", shutdown.clone()));
    }
    let planning = endpoints.map(|endpoints| {
        let plans = model::PlanLoop {
            shards: Arc::clone(&shards),
            endpoints,
            prompts,
            turns: setup.models.turns(),
            model_wait: setup.models.model_wait(),
            grace: setup.common.drain_timeout() / 2,
        };
        tokio::spawn(plans.run(shutdown.clone()))
    });
    let authentication = Authentication::Store(Arc::new(identities));
    let served = Server::new(Settings::of(&setup.common, authentication, setup.transport.tls))
        .with_service(RunServiceServer::new(handlers.clone()))
        .with_service(PlannerServiceServer::new(service::Plans::of(handlers.clone())))
        .with_service(AdminServiceServer::new(handlers.clone()))
        .with_service(ToolchainServiceServer::new(handlers))
        .with_info(info(Some(pool.clone()), has_model))
        .with_http(server::operations(setup.metrics, Some(pool)).merge(hook::router(hooks)))
        .serve(listener, shutdown.clone().cancelled_owned())
        .await;
    // Plans under way also end when the port has failed.
    shutdown.cancel();
    if let Some(planning) = planning
        && let Err(error) = planning.await
    {
        tracing::error!(%error, "planner: the loop of models panicked; report the error");
    }
    loops.shutdown().await;
    shards.close().await;
    Ok(served?)
}

fn without_database(setup: Setup) -> Server {
    tracing::warn!(
        "planner: no DATABASE_URL is set; running in stateless mode, which serves only ParsePlan, \
         ValidatePlan and ApplyPatch"
    );
    let authentication = Authentication::stateless(&setup.tokens.known);
    Server::new(Settings::of(&setup.common, authentication, setup.transport.tls))
        .without_database::<RunServiceServer<service::Service>>()
        .with_service(PlannerServiceServer::new(service::Plans::stateless()))
        .without_database::<AdminServiceServer<service::Service>>()
        .without_database::<ToolchainServiceServer<service::Service>>()
        .with_info(info(None, false))
        .with_http(server::operations(setup.metrics, None))
}

/// What the planner says of itself; it starts no commands.
fn info(pool: Option<PgPool>, has_model: bool) -> ServerInfo {
    let (version, sandbox) = (env!("CARGO_PKG_VERSION"), SandboxLevel::None);
    let sandbox_missing = Vec::new();
    ServerInfo { service: "planner", version, sandbox, sandbox_missing, pool, has_model }
}
