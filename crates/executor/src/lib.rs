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
mod model;
mod participant;
mod pauses;
pub mod revision;
pub mod round;
pub mod scratch;
mod service;
mod shelf;
pub mod snapshot;
pub mod stateless;
pub mod step;
pub mod tool;
mod worker;
pub mod workspace_git;

use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use surety_common::clock;
use surety_common::config::{
    CommonConfig, ConfigError, ExecutorConfig, ModelDriverConfig, PROMPTS, Prompt, check_prompts,
};
use surety_common::domain::journal::Actor;
use surety_common::domain::signature::Service as Signer;
use surety_common::domain::workspace::Reserved;
use surety_common::keys;
use surety_common::store::{
    self, Committer, Identities, Listener, Observer, PlanTool, PoolSize, Signing, StoreError,
    Topic, Waker, Wakeups,
};
use surety_common::telemetry;
use surety_common::wire::client::{self, ClientError, Transport};
use surety_common::wire::server::{self, Authentication, Server, ServerInfo, Settings, announce};
use surety_common::wire::token::FileTokens;
use surety_common::wire::v1::SandboxLevel;
use surety_common::wire::v1::executor_service_server::ExecutorServiceServer;
use surety_common::wire::v1::tool_service_server::ToolServiceServer;
use surety_forge::Forges;
use surety_sandbox::InForce;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The time limit to close the database connections.
const CLOSING: Duration = Duration::from_secs(1);

/// The open files of each running command: two pipes, its helper and the socket to it, and its run's folder.
const FILES_OF_A_COMMAND: u64 = 5;
/// The open files for connections, logs, and files that tools read.
const FILES_BESIDE: u64 = 64;

/// The configuration of an executor.
pub struct Setup {
    /// The common settings.
    pub common: CommonConfig,
    /// The executor's settings.
    pub executor: ExecutorConfig,
    /// The models that decide for runs with the driver `model`.
    pub models: ModelDriverConfig,
    /// The Postgres that stores all state; without one the executor runs in stateless mode.
    pub database_url: Option<String>,
    /// The drivers that this executor serves.
    pub drivers: driver::Drivers,
    /// The tokens that are known from the start, and the one that this executor shows to the gate.
    pub tokens: FileTokens,
    /// The certificates of the port, and how the gate is reached.
    pub transport: Transport,
    /// Files and folders of this process that no command may access, besides the data folder.
    pub hidden: Vec<PathBuf>,
    /// The process's metrics, served at `/metrics`; none disables that path.
    pub metrics: Option<PrometheusHandle>,
}

/// Why an executor ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A permanent error of the database.
    #[error("the database is not usable")]
    Store(#[from] StoreError),
    /// A model's profile cannot be used.
    #[error(transparent)]
    Models(#[from] surety_model::ProfileError),
    /// The port failed.
    #[error("the listening socket failed")]
    Server(#[from] server::ServeError),
    /// The gate's address, the token or the certificates cannot be used.
    #[error("{}: the gate at --gate-url (SURETY_GATE_URL) cannot be called", .0.code())]
    Gate(#[from] ClientError),
    /// Commands cannot be confined as the operator requires.
    #[error(transparent)]
    Sandbox(#[from] tool::SandboxError),
    /// The file with the MCP servers, or a prompt, cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A forge of the configuration cannot be used.
    #[error(transparent)]
    Forges(#[from] surety_forge::ForgeError),
    /// An MCP server of the configuration cannot be prepared.
    #[error(transparent)]
    Mcp(#[from] tool::McpError),
    /// A secret that the operator lists has no usable value.
    #[error(transparent)]
    Secrets(#[from] tool::SecretsError),
    /// The schema of a built-in tool is invalid: a defect of this build.
    #[error("a built-in tool is invalid")]
    Tools(#[from] tool::RegistryError),
}

fn tools(setup: &Setup) -> Result<Arc<tool::Registry>, tool::RegistryError> {
    let ExecutorConfig {
        executor_http_allow,
        executor_command_timeout_s,
        executor_tool_aliases,
        ..
    } = &setup.executor;
    let settings = tool::BuiltinSettings {
        http_allowed: executor_http_allow.as_deref(),
        command_timeout: Duration::from_secs(*executor_command_timeout_s),
        aliases: executor_tool_aliases.as_deref(),
    };
    tool::Registry::with_builtin(&settings).map(Arc::new)
}

/// Reads the secrets of tools and of MCP servers, and keeps them out of this process's log.
fn secrets(setup: &Setup) -> Result<(tool::Secrets, tool::McpHost), ServeError> {
    let listed = setup.executor.executor_secrets.clone().unwrap_or_default();
    let servers = setup.executor.mcp_servers()?;
    let headers = tool::McpHost::headers(&servers)?;
    let hidden = tool::McpHost::header_secrets(&headers);
    let secrets = tool::Secrets::load_with(&listed.0, &hidden)?;
    telemetry::redact_logs(Arc::clone(secrets.redactor()));
    let servers = tool::McpHost::prepare(servers, headers, &secrets)?;
    Ok((secrets, servers))
}

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
    let tools = tools(&setup)?;
    let Some(database_url) = &setup.database_url else {
        let server = without_database(setup, tools);
        announce("executor", &listener);
        return Ok(server.serve(listener, shutdown.cancelled_owned()).await?);
    };
    let (secrets, servers) = secrets(&setup)?;
    let forges = Forges::open(&setup.common.forges()?)?;
    let task_tools = Arc::new(tools.with_task_tools(!forges.is_empty())?);
    let prompt = prompt(&setup.models)?;
    let endpoints = surety_model::Endpoints::from_config(&setup.models.models)?;
    if let Some(endpoints) = endpoints.clone() {
        tokio::spawn(endpoints.check_at_start("executor", shutdown.clone()));
    }
    let key_files = endpoints.iter().flat_map(surety_model::Endpoints::secret_files);
    let sandbox = confine(&setup, key_files.map(Path::to_owned).collect()).await?;
    let in_force = sandbox.machine().in_force().clone();
    sweep(&sandbox, git_host(&setup.executor).clones).await;
    warn_of_open_files(setup.executor.executor_slots);
    let gate = gate::Gate::new(gate_channel(&setup)?);
    let signing = keys::signing(Signer::Executor, setup.executor.executor_key_file.as_deref())?;
    // Everything of the configuration was read by now, and an error of it named.
    announce("executor", &listener);
    let connecting = store::connect_with_patience(database_url, PoolSize::of(&setup.common));
    let pool = tokio::select! {
        pool = connecting => pool?,
        () = shutdown.cancelled() => return Ok(()),
    };
    store::import_patiently(&pool, &setup.tokens.known).await?;
    show_tools(&pool, &tools).await;
    tokio::spawn(keys::keep_registered(signing.clone(), pool.clone(), shutdown.clone()));
    let means = Means { tools, servers, sandbox, secrets, gate, signing, forges, task_tools };
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
    if timeout(CLOSING, pool.close()).await.is_err() {
        tracing::warn!("executor: the database connections could not be closed in time");
    }
}

/// The parts of the process that are told of every change that it stores.
type Observers = (participant::News, worker::KnownRuns);

/// Passes every stored change on: to the telemetry, to followers of the run, to participants that wait for
/// the end of a turn or for a step, and to what gives calls to workers.
fn observer(waker: Waker, wakeups: Wakeups, (news, known): Observers) -> Observer {
    Arc::new(move |write, span| {
        telemetry::observe(write, span);
        news.stored(write);
        known.stored(write);
        let run_id = write.execution.run_id;
        waker.wake(Topic::Run(run_id));
        if write.waits.moves_waits() {
            wakeups.wake_here(Topic::Waits(run_id));
            waker.wake_now(Topic::Waits(run_id));
        }
    })
}

/// Stores the tools of this executor, for models that plan.
async fn show_tools(pool: &PgPool, tools: &tool::Registry) {
    let tools: Vec<PlanTool> = tools
        .specs()
        .map(|spec| PlanTool {
            tool: spec.name.clone(),
            description: spec.description.clone(),
            schema: spec.input_schema.to_string(),
            of_worker: false,
        })
        .collect();
    if let Err(error) = store::show_tools(pool, &tools, clock::now()).await {
        tracing::warn!(%error, "executor: the tools could not be stored, so models may plan without them; restart the executor");
    }
}

/// What an engine works with.
struct Means {
    tools: Arc<tool::Registry>,
    servers: tool::McpHost,
    sandbox: tool::Sandbox,
    secrets: tool::Secrets,
    gate: gate::Gate,
    signing: Signing,
    forges: Forges,
    /// The tools of tasks.
    task_tools: Arc<tool::Registry>,
}

fn engine(
    setup: &Setup,
    pool: PgPool,
    means: Means,
    (observers, shutdown): (Observers, &CancellationToken),
) -> Arc<step::Engine> {
    let Means { tools, servers, sandbox, secrets, gate, signing, forges, task_tools } = means;
    let waker = Waker::start(pool.clone());
    let wakeups = Wakeups::start(pool.clone(), Listener::Worker);
    let observer = observer(waker.clone(), wakeups.clone(), observers);
    let id = Uuid::now_v7();
    let toolbox = toolbox(tools, &pool, &setup.executor).with_servers(servers);
    let toolbox = toolbox.with_special(step::TOOLCHAIN, task_tools);
    Arc::new(step::Engine {
        id,
        actor: Actor(format!("executor/{}", id.simple()).into()),
        committer: Committer::start(pool.clone(), waker.clone(), observer, signing),
        waker,
        wakeups,
        tools: Arc::new(toolbox),
        forges: step::TaskForges::new(forges, setup.executor.executor_secrets.as_ref()),
        pool,
        drivers: setup.drivers.clone(),
        environment: Arc::new(tool::Environment::of_process()),
        sandbox,
        secrets,
        workspaces: setup.executor.executor_data_dir.join("workspaces"),
        git: git_host(&setup.executor),
        reserved: reserved(&setup.executor.executor_data_dir),
        host_label: setup.common.host_label(),
        gate,
        drain: shutdown.clone(),
        registry: step::RunRegistry::default(),
        recent_runs: step::RecentRuns::default(),
        lease_validity: step::LeaseValidity::new(
            setup.executor.heartbeat_interval(),
            setup.executor.heartbeat_age_limit(),
        ),
        cut: CancellationToken::new(),
        drain_timeout: setup.common.drain_timeout(),
        max_deaths: setup.executor.executor_max_deaths,
    })
}

/// Checks the prompt of steps.
///
/// # Errors
/// It cannot be used.
pub fn check_prompt(models: &ModelDriverConfig) -> Result<(), ConfigError> {
    prompt(models).map(drop)
}

/// The rules that drivers are shown.
fn prompt(models: &ModelDriverConfig) -> Result<Prompt, ConfigError> {
    let folder = models.model_prompts_dir.as_deref();
    folder.map(|folder| check_prompts(folder, &PROMPTS)).transpose()?;
    context::STEP_PROMPT.load(folder)
}

/// The loop of the models that decide.
fn model_loop(
    participants: &participant::Participants,
    endpoints: surety_model::Endpoints,
    setup: &Setup,
) -> model::ModelLoop {
    model::ModelLoop {
        participants: participants.clone(),
        endpoints,
        turns: setup.models.turns(),
        model_wait: setup.models.model_wait(),
        grace: setup.common.drain_timeout() / 2,
    }
}

/// The agents that decide for runs with a remote driver.
fn participants(
    claimer: &Arc<step::Claimer>,
    news: participant::News,
    config: &ExecutorConfig,
    prompt: Prompt,
) -> participant::Participants {
    let engine = claimer.engine();
    let workshop = participant::Workshop {
        tools: Arc::clone(&engine.tools),
        workspaces: engine.workspaces.clone(),
        prompt,
    };
    let terms = participant::Terms { lease: config.driver_lease(), reporters: config.reporters() };
    participant::Participants::start(Arc::clone(claimer), news, (workshop, terms), &engine.drain)
}

fn toolbox(builtin: Arc<tool::Registry>, pool: &PgPool, config: &ExecutorConfig) -> tool::Toolbox {
    let times = tool::ToolboxTimes {
        listed: config.worker_tool_ttl(),
        call_timeout: config.worker_call_timeout(),
    };
    tool::Toolbox::with_workers(builtin, pool.clone(), times)
}

/// The workers that serve tools.
fn workers(
    claimer: &Arc<step::Claimer>,
    (news, known): Observers,
    config: &ExecutorConfig,
) -> worker::Workers {
    let step::Engine { id, pool, committer, waker, wakeups, tools, workspaces, drain, .. } =
        &**claimer.engine();
    worker::Workers::start(worker::WorkerSetup {
        executor_id: *id,
        pool: pool.clone(),
        claimer: Arc::clone(claimer),
        replies: step::Replies::new(pool.clone(), committer.clone(), wakeups.clone()),
        news,
        known,
        wakes: (waker.clone(), wakeups.clone()),
        toolbox: Arc::clone(tools),
        workspaces: workspaces.clone(),
        terms: worker::WorkerTerms {
            lease: config.worker_lease(),
            listed: config.worker_tool_ttl(),
        },
        drain: drain.clone(),
    })
}

fn gate_channel(setup: &Setup) -> Result<client::ServiceChannel, ClientError> {
    let own = setup.tokens.own.as_ref();
    client::channel_over(&setup.executor.gate_url, own, &setup.transport)
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

/// Probes the sandbox of this machine, and logs the level. Commands see none of the `key_files` of models.
async fn confine(setup: &Setup, key_files: Vec<PathBuf>) -> Result<tool::Sandbox, ServeError> {
    let config = setup.executor.sandbox.clone();
    let data_dir = setup.executor.executor_data_dir.clone();
    let mut hidden = key_files;
    hidden.extend(setup.hidden.clone());
    hidden.extend(setup.common.token_file.clone());
    hidden.extend(setup.executor.executor_key_file.clone());
    let listed = setup.executor.executor_secrets.iter().flat_map(|secrets| &secrets.0);
    hidden.extend(listed.filter_map(tool::secret_file));
    let servers = setup.executor.mcp_servers()?;
    hidden.extend(servers.iter().flat_map(|server| server.secret_files()).map(Path::to_owned));
    hidden.extend(setup.executor.executor_mcp.clone());
    let forges = setup.common.forges()?;
    hidden.extend(forges.secret_files().map(Path::to_owned));
    hidden.extend(setup.common.forges_file.clone());
    hidden.extend(setup.common.tls.client.tls_key_file.clone());
    let models = &setup.models.models;
    hidden.extend(models.model_profiles_file.clone());
    hidden.extend(setup.database_url.as_deref().and_then(socket_folder));
    let probing =
        tokio::task::spawn_blocking(move || tool::Sandbox::probe(&config, &data_dir, hidden));
    let sandbox = probing.await.map_err(|error| {
        let source = std::io::Error::other(error);
        tool::SandboxError::Scratch { path: setup.executor.executor_data_dir.clone(), source }
    })??;
    let machine = sandbox.machine();
    let reasons = machine.reasons().join(" ");
    if reasons.is_empty() {
        tracing::info!(sandbox = %machine.in_force(), "executor: commands run in the sandbox");
    } else {
        tracing::warn!(
            sandbox = %machine.in_force(),
            reasons,
            "executor: commands run in a weaker sandbox than the strongest; see docs/sandbox.md"
        );
    }
    Ok(sandbox)
}

/// What runs on git repositories are allowed here.
fn git_host(config: &ExecutorConfig) -> workspace_git::GitHost {
    let data_dir = &config.executor_data_dir;
    // Commands have to know the folder by its real path.
    let data_dir = data_dir.canonicalize().unwrap_or_else(|_| data_dir.clone());
    workspace_git::GitHost {
        allowed: config.repositories(),
        disk_mib: config.executor_repository_mib,
        clones: data_dir.join("clones"),
    }
}

/// Removes the views and the clones of processes that were killed on this machine.
async fn sweep(sandbox: &tool::Sandbox, clones: PathBuf) {
    let scratch = sandbox.scratch().to_owned();
    let sweeping = move || {
        let left = round::sweep_views(&scratch) + workspace_git::sweep_clones(&clones);
        left + scratch::sweep(&scratch, tool::mcp::SCRATCH_PREFIX)
    };
    match blocking::blocking(sweeping).await {
        Ok(0) | Err(_) => {}
        Ok(removed) => {
            tracing::info!(removed, "executor: removed the folders that killed processes left");
        }
    }
}

/// The folder of the database's socket, where the address names one.
fn socket_folder(database_url: &str) -> Option<PathBuf> {
    let (place, query) = database_url.split_once('?').unwrap_or((database_url, ""));
    let named = query.split('&').find_map(|part| part.strip_prefix("host="));
    let host = named.or_else(|| {
        let host = place.split_once("://")?.1;
        host.rsplit_once('@').map_or(host, |(_, host)| host).split('/').next()
    })?;
    let host = host.replace("%2F", "/").replace("%2f", "/");
    host.starts_with('/').then(|| PathBuf::from(host))
}

/// Warns when the commands of all slots need more open files than the process may have.
fn warn_of_open_files(slots: u32) {
    let needed = u64::from(slots) * FILES_OF_A_COMMAND + FILES_BESIDE;
    match server::open_files() {
        Ok(allowed) if allowed < needed => tracing::warn!(
            allowed,
            needed,
            "executor: the limit of open files is too low for all slots, so commands will wait; raise it or use fewer slots \
             (SURETY_EXECUTOR_SLOTS)"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "executor: the limit of open files could not be read"),
    }
}

/// The folders that no run may work in: by their real paths, and as they are named.
fn reserved(data_dir: &Path) -> Reserved {
    let both = |path: PathBuf| {
        let real = path.canonicalize().ok();
        std::path::absolute(path).into_iter().chain(real)
    };
    let homes = std::env::home_dir().into_iter().filter(|home| home.parent().is_some());
    Reserved { homes: homes.flat_map(both).collect(), data: both(data_dir.to_owned()).collect() }
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
