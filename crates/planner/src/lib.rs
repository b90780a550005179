//! The planner: intake, runs, plans, replans, waits.
//!
//! ```text
//!   CreateRun --> intake --> run + plan (rows) --> an executor takes it up
//!   SubmitPlan ----^            |
//!   GetRun, WatchRun, ...  <----+---- runs
//!   plan: what text means and whether it is a plan, purely
//!   cells: in which of several databases all this is done
//! ```

mod cells;
mod depths;
pub mod intake;
mod merge;
pub mod plan;
mod retention;
mod runs;
mod service;
mod sweep;

use cells::Cells;
use chrono::{DateTime, Utc};
use depths::Depths;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use std::sync::{Arc, Mutex};
use surety_common::clock::{self, HOME};
use surety_common::config::{CommonConfig, NamespaceDatabase, PlannerConfig};
use surety_common::domain::journal::Actor;
use surety_common::store::{
    self, Committer, Creator, Journals, Listener, PoolSize, Retention, StoreError, Waker, Wakeups,
};
use surety_common::telemetry;
use surety_common::wire::server::{self, Server, Settings};
use surety_common::wire::token::Token;
use surety_common::wire::v1::planner_service_server::PlannerServiceServer;
use surety_common::wire::v1::run_service_server::RunServiceServer;
use surety_common::wire::v1::toolchain_service_server::ToolchainServiceServer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What a planner needs to run.
pub struct Setup {
    /// The settings all services share.
    pub common: CommonConfig,
    /// The planner's own settings.
    pub planner: PlannerConfig,
    /// The Postgres that holds all state; without one the planner is a referee.
    pub database_url: Option<String>,
    /// The databases of namespaces that have one of their own; a referee uses none.
    pub databases: Vec<NamespaceDatabase>,
    /// What callers must show; none lets everybody in.
    pub token: Option<Token>,
    /// The process's figures, served at `/metrics`; none serves no such path.
    pub metrics: Option<PrometheusHandle>,
}

/// Why a planner ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The rows cannot be used, for a reason that waiting does not mend.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// The port can no longer be served.
    #[error("the port can no longer be served")]
    Server(#[from] server::ServeError),
}

/// The planner of one database: what its handlers share.
pub struct Planner {
    /// The database's place among those of the process.
    place: usize,
    /// The database in words.
    whose: String,
    pool: PgPool,
    committer: Committer,
    creator: Creator,
    journals: Journals,
    waker: Waker,
    wakeups: Wakeups,
    shutdown: CancellationToken,
}

impl Planner {
    fn start(pool: PgPool, place: usize, whose: String, shutdown: CancellationToken) -> Self {
        let waker = Waker::start(pool.clone());
        let observer = Arc::new(telemetry::observe);
        Self {
            place,
            whose,
            committer: Committer::start(pool.clone(), waker.clone(), observer),
            creator: Creator::start(pool.clone(), waker.clone()),
            journals: Journals::start(pool.clone()),
            waker,
            wakeups: Wakeups::start(pool.clone(), Listener::Follower),
            pool,
            shutdown,
        }
    }

    fn actor(&self) -> Actor {
        Actor("planner".into())
    }

    /// The time. The planner's one clock.
    fn now(&self) -> DateTime<Utc> {
        clock::now_at(self.place)
    }
}

/// What is looked after in each database, beside the calls.
#[derive(Clone)]
struct Upkeep {
    retention: Retention,
    /// The figures of all databases.
    depths: Arc<Mutex<Depths>>,
}

impl Upkeep {
    /// The planner of a database that was just reached.
    async fn start(
        &self,
        pool: PgPool,
        place: usize,
        whose: String,
        shutdown: CancellationToken,
    ) -> Arc<Planner> {
        // Before the first run is made, so that it finds its partition.
        retention::prepare(&pool, clock::now_at(place), self.retention).await;
        Arc::new(Planner::start(pool, place, whose, shutdown))
    }

    /// Goes on until the process stops.
    async fn go_on(self, planner: Arc<Planner>) {
        let forgetting = retention::run(Arc::clone(&planner), self.retention);
        tokio::join!(forgetting, sweep::run(planner, self.depths));
    }
}

/// Serves until `shutdown` is cancelled. While the home database is away at start it waits for it; it
/// waits for those of namespaces while it serves. Without a home database it is a referee: it reads
/// and judges plans, and has no runs.
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
    let upkeep = Upkeep { retention: Retention::of(&setup.planner), depths: Arc::default() };
    let name = "the home database".to_owned();
    let home = upkeep.start(pool.clone(), HOME, name, shutdown.clone()).await;
    let cells = Arc::new(Cells::of(Arc::clone(&home), database_url, &setup.databases, size));
    let mut loops = JoinSet::new();
    loops.spawn(upkeep.clone().go_on(home));
    for cell in cells.others() {
        loops.spawn(cell.keep(upkeep.clone(), shutdown.clone()));
    }
    let handlers = service::Service::new(Arc::clone(&cells));
    let served = Server::new(Settings::of(&setup.common, setup.token))
        .with_service(RunServiceServer::new(handlers.clone()))
        .with_service(PlannerServiceServer::new(service::Plans::of(handlers.clone())))
        .with_service(ToolchainServiceServer::new(handlers))
        .with_http(server::operations(setup.metrics, Some(pool)))
        .serve(listener, shutdown.cancelled_owned())
        .await;
    loops.shutdown().await;
    cells.close().await;
    Ok(served?)
}

fn without_database(setup: Setup) -> Server {
    tracing::warn!(
        "no DATABASE_URL: a referee for plans, without runs; only ParsePlan, ValidatePlan and \
         ApplyPatch are answered until it is set"
    );
    Server::new(Settings::of(&setup.common, setup.token))
        .without_database::<RunServiceServer<service::Service>>()
        .with_service(PlannerServiceServer::new(service::Plans::referee()))
        .without_database::<ToolchainServiceServer<service::Service>>()
        .with_http(server::operations(setup.metrics, None))
}
