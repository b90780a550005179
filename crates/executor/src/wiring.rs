//! Makes the parts of an executor from its configuration, and connects them.

use crate::machine::git_host;
use crate::{ServeError, Setup, context, gate, model, participant, step, tool, worker};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use surety_common::config::{
    ConfigError, ExecutorConfig, ModelDriverConfig, PROMPTS, Prompt, check_prompts,
};
use surety_common::domain::journal::Actor;
use surety_common::domain::signature::Service as Signer;
use surety_common::domain::workspace::Reserved;
use surety_common::keys;
use surety_common::store::{
    Committer, Listener, Observer, Signing, Topic, TrustSource, Waker, Wakeups,
};
use surety_common::telemetry;
use surety_common::wire::client::{self, ClientError};
use surety_forge::Forges;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) fn tools(executor: &ExecutorConfig) -> Result<Arc<tool::Registry>, tool::RegistryError> {
    let ExecutorConfig {
        executor_http_allow,
        executor_command_timeout_s,
        executor_tool_aliases,
        ..
    } = executor;
    let settings = tool::BuiltinSettings {
        http_allowed: executor_http_allow.as_deref(),
        command_timeout: Duration::from_secs(*executor_command_timeout_s),
        aliases: executor_tool_aliases.as_deref(),
    };
    tool::Registry::with_builtin(&settings).map(Arc::new)
}

/// Reads the secrets of tools and of MCP servers. They and the keys of models are kept out of the outputs of tools, and out
/// of this process's log: a tool of this process reads a file of a workspace that holds a key, such as `.env`.
pub(crate) fn secrets(
    executor: &ExecutorConfig,
    endpoints: Option<&surety_model::Endpoints>,
) -> Result<(tool::Secrets, tool::McpHost), ServeError> {
    let listed = executor.executor_secrets.clone().unwrap_or_default();
    let servers = executor.mcp_servers()?;
    let headers = tool::McpHost::headers(&servers)?;
    let mut hidden = tool::McpHost::header_secrets(&headers);
    hidden.extend(endpoints.into_iter().flat_map(surety_model::Endpoints::secrets));
    let secrets = tool::Secrets::load_with(&listed.0, &hidden)?;
    telemetry::redact_logs(Arc::clone(secrets.redactor()));
    let servers = tool::McpHost::prepare(servers, headers, &secrets)?;
    Ok((secrets, servers))
}

/// The parts of the process that are told of every change that it stores.
pub(crate) type Observers = (participant::News, worker::KnownRuns);

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

/// The keys of an executor.
pub(crate) struct Keys {
    /// The key that signs.
    pub(crate) signing: Signing,
    /// The keys that are trusted; none where no file of them is set.
    pub(crate) trust: Option<Arc<dyn TrustSource>>,
}

/// Opens the executor's key, and the file of trusted keys.
///
/// # Errors
/// One of them cannot be used.
pub(crate) fn keys(setup: &Setup) -> Result<Keys, ServeError> {
    let own = setup.executor.executor_key_file.as_deref();
    let trusted = setup.common.trusted_keys_file.as_deref();
    Ok(Keys { signing: keys::signing(Signer::Executor, own)?, trust: keys::trust(trusted)? })
}

/// What an engine works with.
pub(crate) struct Means {
    pub(crate) tools: Arc<tool::Registry>,
    pub(crate) servers: tool::McpHost,
    pub(crate) sandbox: tool::Sandbox,
    /// The folders that no run may work in.
    pub(crate) reserved: Reserved,
    pub(crate) secrets: tool::Secrets,
    pub(crate) gate: gate::Gate,
    pub(crate) keys: Keys,
    pub(crate) forges: Forges,
    /// The tools of tasks.
    pub(crate) task_tools: Arc<tool::Registry>,
}

pub(crate) fn engine(
    setup: &Setup,
    pool: PgPool,
    means: Means,
    (observers, shutdown): (Observers, &CancellationToken),
) -> Arc<step::Engine> {
    let Means { tools, servers, sandbox, reserved, secrets, gate, keys, forges, task_tools } =
        means;
    let waker = Waker::start(pool.clone());
    let wakeups = Wakeups::start(pool.clone(), Listener::Worker);
    let observer = observer(waker.clone(), wakeups.clone(), observers);
    let id = Uuid::now_v7();
    let toolbox = toolbox(tools, &pool, &setup.executor).with_servers(servers);
    let toolbox = toolbox.with_special(step::TOOLCHAIN, task_tools);
    Arc::new(step::Engine {
        id,
        actor: Actor(format!("executor/{}", id.simple()).into()),
        committer: Committer::start(pool.clone(), waker.clone(), observer, keys.signing),
        trust: keys.trust,
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
        reserved,
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

/// Checks what an executor reads of its settings at its start, without a connection.
///
/// # Errors
/// What cannot be used.
pub fn check(executor: &ExecutorConfig, models: &ModelDriverConfig) -> Result<(), ServeError> {
    executor.check()?;
    tools(executor)?;
    let endpoints = surety_model::Endpoints::from_config(&models.models)?;
    secrets(executor, endpoints.as_ref())?;
    prompt(models)?;
    keys::check(executor.executor_key_file.as_deref())?;
    Ok(())
}

/// The rules that drivers are shown.
pub(crate) fn prompt(models: &ModelDriverConfig) -> Result<Prompt, ConfigError> {
    let folder = models.model_prompts_dir.as_deref();
    folder.map(|folder| check_prompts(folder, &PROMPTS)).transpose()?;
    context::STEP_PROMPT.load(folder)
}

/// The loop of the models that decide.
pub(crate) fn model_loop(
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
pub(crate) fn participants(
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
    let terms = participant::Terms {
        lease: config.driver_lease(),
        turn_wait: config.turn_wait(),
        reporters: config.reporters(),
    };
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
pub(crate) fn workers(
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

pub(crate) fn gate_channel(setup: &Setup) -> Result<client::ServiceChannel, ClientError> {
    let own = setup.tokens.own.as_ref();
    client::channel_over(&setup.executor.gate_url, own, &setup.transport)
}
