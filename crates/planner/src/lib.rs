//! The planner: intake, runs, plans, replans, waits.
//!
//! ```text
//!   CreateRun --> intake --> run + plan (rows) --> an executor claims it
//!   SubmitPlan ----^            |
//!   GetRun, WatchRun, ...  <----+---- runs
//!   plan: reads and validates plans, as pure functions
//!   shards: selects the database of a run or a namespace
//! ```

mod depths;
pub mod intake;
mod merge;
pub mod plan;
mod retention;
mod runs;
mod scan;
mod service;
mod shards;

use chrono::{DateTime, Utc};
use depths::Depths;
use metrics_exporter_prometheus::PrometheusHandle;
use shards::Shards;
use sqlx::PgPool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surety_common::clock::{self, PRIMARY_SHARD};
use surety_common::config::{CommonConfig, NamespaceDatabase, PlannerConfig};
use surety_common::domain::journal::Actor;
use surety_common::store::{
    self, Committer, Creator, Identities, Journals, Listener, Policies, PoolSize, Retention,
    StoreError, Waker, Wakeups,
};
use surety_common::telemetry;
use surety_common::wire::server::{self, Authentication, Server, Settings};
use surety_common::wire::token::FileTokens;
use surety_common::wire::v1::admin_service_server::AdminServiceServer;
use surety_common::wire::v1::planner_service_server::PlannerServiceServer;
use surety_common::wire::v1::run_service_server::RunServiceServer;
use surety_common::wire::v1::toolchain_service_server::ToolchainServiceServer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often the tokens of the primary database are copied to those of namespaces, beside the copy that
/// follows each change.
const TOKENS_COPIED_EVERY: Duration = Duration::from_secs(30);

/// The configuration of a planner.
pub struct Setup {
    /// The common settings.
    pub common: CommonConfig,
    /// The planner's settings.
    pub planner: PlannerConfig,
    /// The Postgres that stores all state; without one the planner runs in stateless mode.
    pub database_url: Option<String>,
    /// The databases of namespaces that have a separate one; stateless mode uses none.
    pub databases: Vec<NamespaceDatabase>,
    /// The tokens that are known from the start.
    pub tokens: FileTokens,
    /// The process's metrics, served at `/metrics`; none disables that path.
    pub metrics: Option<PrometheusHandle>,
}

/// Why a planner ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A permanent error of the database.
    #[error("the database is not usable")]
    Store(#[from] StoreError),
    /// The port failed.
    #[error("the listening socket failed")]
    Server(#[from] server::ServeError),
}

/// The planner of one database: the state that its handlers share.
pub struct Planner {
    /// The shard index of the database.
    shard_index: usize,
    /// The database's name in messages.
    whose: String,
    pool: PgPool,
    committer: Committer,
    creator: Creator,
    journals: Journals,
    waker: Waker,
    wakeups: Wakeups,
    policies: Policies,
    shutdown: CancellationToken,
}

impl Planner {
    fn start(pool: PgPool, shard_index: usize, whose: String, shutdown: CancellationToken) -> Self {
        let waker = Waker::start(pool.clone());
        let observer = Arc::new(telemetry::observe);
        Self {
            shard_index,
            whose,
            committer: Committer::start(pool.clone(), waker.clone(), observer),
            creator: Creator::start(pool.clone(), waker.clone()),
            journals: Journals::start(pool.clone()),
            policies: Policies::of(pool.clone()),
            waker,
            wakeups: Wakeups::start(pool.clone(), Listener::Follower),
            pool,
            shutdown,
        }
    }

    /// The planner, moving a run by itself.
    fn actor(&self) -> Actor {
        Actor("planner".into())
    }

    /// The planner, moving a run because an identity asked for it.
    fn actor_for(&self, identity: &str) -> Actor {
        Actor(format!("planner/{identity}").into())
    }

    /// The current time, the planner's only clock.
    fn now(&self) -> DateTime<Utc> {
        clock::now_at(self.shard_index)
    }
}

/// The tokens of the primary database, for the databases of namespaces.
#[derive(Clone)]
struct Tokens {
    primary: PgPool,
    identities: Identities,
}

impl Tokens {
    /// Brings the tokens of these namespaces to their database, and answers callers from there while the
    /// primary one is away.
    async fn reach(&self, pool: &PgPool, namespaces: &[String]) {
        self.identities.add(pool.clone());
        self.copy(pool, namespaces).await;
    }

    /// Copies again and again, for what could not be copied at once.
    async fn go_on(self, pool: PgPool, namespaces: Vec<String>) {
        loop {
            tokio::time::sleep(TOKENS_COPIED_EVERY).await;
            self.copy(&pool, &namespaces).await;
        }
    }

    async fn copy(&self, pool: &PgPool, namespaces: &[String]) {
        if let Err(error) = store::copy_tokens(&self.primary, pool, namespaces).await {
            tracing::warn!(
                %error,
                namespaces = namespaces.join(", "),
                "planner: tokens were not copied to the database of these namespaces; trying again"
            );
        }
    }
}

/// The background tasks of each database.
#[derive(Clone)]
struct Upkeep {
    retention: Retention,
    /// The queue metrics of all databases.
    depths: Arc<Mutex<Depths>>,
}

impl Upkeep {
    /// Starts the planner of a database that is connected.
    async fn start(
        &self,
        pool: PgPool,
        shard_index: usize,
        whose: String,
        shutdown: CancellationToken,
    ) -> Arc<Planner> {
        // Before the first run is created, so that its partition exists.
        retention::prepare(&pool, clock::now_at(shard_index), self.retention).await;
        Arc::new(Planner::start(pool, shard_index, whose, shutdown))
    }

    /// Runs until the process shuts down.
    async fn go_on(self, planner: Arc<Planner>) {
        let forgetting = retention::run(Arc::clone(&planner), self.retention);
        tokio::join!(forgetting, scan::run(planner, self.depths));
    }
}

/// Serves until `shutdown` is cancelled. At start it waits until the primary database is available;
/// it connects to those of namespaces while it serves. Without a primary database it runs in
/// stateless mode: it reads and validates plans, and has no runs.
///
/// # Errors
/// [`ServeError`]
pub async fn serve(
    setup: Setup,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let Some(database_url) = &setup.database_url else {
        return Ok(without_database(setup).serve(listener, shutdown.cancelled_owned()).await?);
    };
    let size = PoolSize::of(&setup.common);
    let connecting = store::connect_with_patience(database_url, size);
    let pool = tokio::select! {
        pool = connecting => pool?,
        () = shutdown.cancelled() => return Ok(()),
    };
    store::import_patiently(&pool, &setup.tokens.known).await?;
    let identities = Identities::of(pool.clone());
    let upkeep = Upkeep { retention: Retention::of(&setup.planner), depths: Arc::default() };
    let tokens = Tokens { primary: pool.clone(), identities: identities.clone() };
    let name = "the primary database".to_owned();
    let primary = upkeep.start(pool.clone(), PRIMARY_SHARD, name, shutdown.clone()).await;
    let shards = Arc::new(Shards::of(Arc::clone(&primary), database_url, &setup.databases, size));
    let mut loops = JoinSet::new();
    loops.spawn(upkeep.clone().go_on(primary));
    for shard in shards.others() {
        loops.spawn(shard.keep(upkeep.clone(), tokens.clone(), shutdown.clone()));
    }
    let handlers = service::Service::new(Arc::clone(&shards));
    let authentication = Authentication::Store(Arc::new(identities));
    let served = Server::new(Settings::of(&setup.common, authentication))
        .with_service(RunServiceServer::new(handlers.clone()))
        .with_service(PlannerServiceServer::new(service::Plans::of(handlers.clone())))
        .with_service(AdminServiceServer::new(handlers.clone()))
        .with_service(ToolchainServiceServer::new(handlers))
        .with_http(server::operations(setup.metrics, Some(pool)))
        .serve(listener, shutdown.cancelled_owned())
        .await;
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
    Server::new(Settings::of(&setup.common, authentication))
        .without_database::<RunServiceServer<service::Service>>()
        .with_service(PlannerServiceServer::new(service::Plans::stateless()))
        .without_database::<AdminServiceServer<service::Service>>()
        .without_database::<ToolchainServiceServer<service::Service>>()
        .with_http(server::operations(setup.metrics, None))
}
