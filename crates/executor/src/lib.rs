//! The executor: steps, turns, tool calls, receipts.
//!
//! ```text
//!   claim --> step: driver --> decision --> three validations --> tool --> receipt
//!               |                                ^
//!               |                         fuse: limits that end or pause the work
//!               +--> verify --> acceptgate
//! ```

mod blocking;
pub mod context;
pub mod decision;
pub mod driver;
pub mod fuse;
pub mod gate;
mod git_reader;
mod machine;
mod model;
mod participant;
mod pauses;
pub mod revision;
pub mod round;
pub mod scratch;
mod service;
mod setup;
mod shelf;
pub mod snapshot;
pub mod stateless;
pub mod step;
pub mod tool;
mod wiring;
mod worker;
pub mod workspace_git;

pub use setup::{ServeError, Setup};
pub use wiring::check;

use machine::{confine, git_host, sweep, warn_of_open_files};
use sqlx::PgPool;
use std::path::Path;
use std::sync::Arc;
use surety_common::clock;
use surety_common::config::ExecutorConfig;
use surety_common::keys;
use surety_common::store::{self, Identities, PlanTool, PoolSize};
use surety_common::wire::server::{self, Authentication, Server, ServerInfo, Settings, announce};
use surety_common::wire::v1::SandboxLevel;
use surety_common::wire::v1::executor_service_server::ExecutorServiceServer;
use surety_common::wire::v1::tool_service_server::ToolServiceServer;
use surety_forge::Forges;
use surety_sandbox::InForce;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wiring::{
    Means, engine, gate_channel, model_loop, participants, prompt, secrets, tools, workers,
};

/// Serves and works until `shutdown` is cancelled, then drains: running turns end, and every lease
/// is released. At start it waits until the database is available. Without one it runs in stateless
/// mode: it reads decisions, and executes nothing.
///
/// # Errors
/// [`ServeError`]
pub async fn serve(
    setup: Setup,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let tools = tools(&setup.executor)?;
    let Some(database_url) = &setup.database_url else {
        let server = without_database(setup, tools);
        announce("executor", &listener);
        return Ok(server.serve(listener, shutdown.cancelled_owned()).await?);
    };
    let endpoints = surety_model::Endpoints::from_config(&setup.models.models)?;
    let (secrets, servers) = secrets(&setup.executor, endpoints.as_ref())?;
    let forges = Forges::open(&setup.common.forges()?)?;
    let task_tools = Arc::new(tools.with_task_tools(!forges.is_empty())?);
    let prompt = prompt(&setup.models)?;
    if let Some(endpoints) = endpoints.clone() {
        tokio::spawn(endpoints.check_at_start("executor", shutdown.clone()));
    }
    // Made before the sandbox hides it.
    let keys = wiring::keys(&setup)?;
    let key_files = endpoints.iter().flat_map(surety_model::Endpoints::secret_files);
    let (sandbox, reserved) = confine(&setup, key_files.map(Path::to_owned).collect()).await?;
    let in_force = sandbox.machine().in_force().clone();
    sweep(&sandbox, git_host(&setup.executor).clones).await;
    warn_of_open_files(setup.executor.executor_slots);
    let gate = gate::Gate::new(gate_channel(&setup)?);
    // Everything of the configuration was read by now, and an error of it named.
    announce("executor", &listener);
    let beginning = store::begin(database_url, PoolSize::of(&setup.common), &setup.tokens.known);
    let Some(pool) = shutdown.run_until_cancelled(beginning).await.transpose()? else {
        return Ok(());
    };
    show_tools(&pool, &tools, &servers.names()).await;
    tokio::spawn(keys::keep_registered(keys.signing.clone(), pool.clone(), shutdown.clone()));
    let means =
        Means { tools, servers, sandbox, reserved, secrets, gate, keys, forges, task_tools };
    let (news, known) = (participant::News::default(), worker::KnownRuns::default());
    let observers = (news.clone(), known.clone());
    let engine = engine(&setup, pool.clone(), means, (observers, &shutdown));
    let slots = usize::try_from(setup.executor.executor_slots).unwrap_or(usize::MAX);
    let claimer = Arc::new(step::Claimer::new(Arc::clone(&engine), slots));
    let participants = participants(&claimer, news.clone(), &setup.executor, prompt);
    let has_model = endpoints.is_some();
    let deciding = endpoints.map(|endpoints| {
        let models = model_loop(&participants, endpoints, &setup);
        tokio::spawn(models.run(engine.drain.clone()))
    });
    let workers = workers(&claimer, (news, known), &setup.executor);
    let tools = Arc::clone(&engine.tools);
    let working = tokio::spawn(work(claimer, setup.executor));
    let handlers = service::Service::new(tools, participants, workers);
    let authentication = Authentication::Store(Arc::new(Identities::of(pool.clone())));
    let served = Server::new(Settings::of(&setup.common, authentication, setup.transport.tls))
        .with_service(ExecutorServiceServer::new(handlers.clone()))
        .with_service(ToolServiceServer::new(handlers))
        .with_info(info(Some(pool.clone()), &in_force, has_model))
        .with_http(server::operations(setup.metrics, Some(pool.clone())))
        .serve(listener, shutdown.clone().cancelled_owned())
        .await;
    // The leases are also released when the port has failed.
    shutdown.cancel();
    let deciding = deciding.into_iter().map(|deciding| ("the loop of models", deciding));
    let loops = deciding.chain([("the engine", working)]).collect();
    close(loops, &pool).await;
    Ok(served?)
}

/// Waits until the loops have drained, and closes the connections to the database.
async fn close(loops: Vec<(&'static str, JoinHandle<()>)>, pool: &PgPool) {
    for (name, working) in loops {
        if let Err(error) = working.await {
            tracing::error!(%error, name, "executor: a loop panicked; report the error");
        }
    }
    store::close(pool).await;
}

/// Stores the tools of this executor, for models that plan. Those of its MCP servers follow once they are listed.
async fn show_tools(pool: &PgPool, tools: &tool::Registry, servers: &[&str]) {
    let tools: Vec<PlanTool> = tools
        .specs()
        .map(|spec| PlanTool {
            tool: spec.name.clone(),
            description: spec.description.clone(),
            schema: spec.input_schema.to_string(),
            from_outside: false,
        })
        .collect();
    let shown = async {
        store::show_tools(pool, &tools, clock::now()).await?;
        store::forget_other_servers(pool, servers).await
    };
    if let Err(error) = shown.await {
        tracing::warn!(%error, "executor: the tools could not be stored, so models may plan without them; restart the executor");
    }
}

fn without_database(setup: Setup, tools: Arc<tool::Registry>) -> Server {
    tracing::warn!(
        "executor: no DATABASE_URL is set; running in stateless mode, which serves only \
         ParseDecision and ListTools"
    );
    let handlers = service::Service::stateless(Arc::new(tool::Toolbox::builtin(tools)));
    let authentication = Authentication::stateless(&setup.tokens.known);
    Server::new(Settings::of(&setup.common, authentication, setup.transport.tls))
        .with_service(ExecutorServiceServer::new(handlers.clone()))
        .with_service(ToolServiceServer::new(handlers))
        .with_info(info(None, &InForce::None, false))
        .with_http(server::operations(setup.metrics, None))
}

/// What the executor says of itself.
fn info(pool: Option<PgPool>, in_force: &InForce, has_model: bool) -> ServerInfo {
    let sandbox = match in_force {
        InForce::Full => SandboxLevel::Full,
        InForce::Partial(_) => SandboxLevel::Partial,
        InForce::None => SandboxLevel::None,
    };
    let sandbox_missing = in_force.missing().iter().map(ToString::to_string).collect();
    let version = env!("CARGO_PKG_VERSION");
    ServerInfo { service: "executor", version, sandbox, sandbox_missing, pool, has_model }
}

/// Claims runs and works on them until the engine has drained.
async fn work(claimer: Arc<step::Claimer>, config: ExecutorConfig) {
    let engine = claimer.engine();
    let mut heartbeat = step::Heartbeat::new(
        Arc::clone(engine),
        Arc::clone(&claimer),
        config.heartbeat_interval(),
        config.heartbeat_age_limit(),
        i32::try_from(config.executor_slots).unwrap_or(i32::MAX),
    );
    // A plan may name tools of MCP servers, so no run is claimed before each was asked once for them.
    tool::mcp::follow(engine.tools.servers(), &engine.sandbox, &engine.tools, &engine.drain).await;
    // Registered before the first claim, because other executors take over the leases of an
    // unregistered one.
    heartbeat.first().await;
    let drained = CancellationToken::new();
    let beating = tokio::spawn({
        let drained = drained.clone();
        async move { heartbeat.run(drained).await }
    });
    let following = tokio::spawn(step::follow(Arc::clone(engine), drained.clone()));
    if !claimer.run().await {
        // No more heartbeats can be sent; other executors detect that by the heartbeat's age.
        beating.abort();
        following.abort();
        return;
    }
    // Other executors claim the released runs at once, and not at their next poll.
    engine.waker.flush().await;
    drained.cancel();
    for ended in [beating.await, following.await] {
        if let Err(error) = ended {
            tracing::error!(%error, "executor: a background task panicked; report the error");
        }
    }
}
