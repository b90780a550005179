//! The settings of each service besides the common ones.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::anchor::{AnchorAuthority, GateAnchorConfig, needs};
use super::error::ConfigError;
use super::mcp::{McpServer, read_mcp_servers};
use super::namespaces::{NamespaceDatabase, read_namespace_databases};
use super::secrets::NamedSecrets;
use super::settings as s;
use super::toolchain::{ToolchainConfig, read_toolchain};
use super::webhooks::{Webhook, read_webhooks};

/// The planner's settings.
#[derive(Debug, Clone, Args)]
pub struct PlannerConfig {
    /// The listen address; port 0 selects a free port.
    #[arg(long = s::PLANNER_LISTEN.flag, env = s::PLANNER_LISTEN.env,
          default_value = s::PLANNER_LISTEN.default, help = s::PLANNER_LISTEN.meaning,
          value_parser = s::PLANNER_LISTEN.reads::<SocketAddr>())]
    pub planner_listen: SocketAddr,

    /// The file that names the databases of namespaces; read it with
    /// [`PlannerConfig::namespace_databases`].
    #[arg(long = s::NAMESPACE_DATABASES_FILE.flag, env = s::NAMESPACE_DATABASES_FILE.env,
          help = s::NAMESPACE_DATABASES_FILE.meaning,
          value_parser = s::NAMESPACE_DATABASES_FILE.reads::<PathBuf>())]
    pub namespace_databases_file: Option<PathBuf>,

    /// The file with the webhooks; read it with [`PlannerConfig::webhooks`].
    #[arg(long = s::WEBHOOKS_FILE.flag, env = s::WEBHOOKS_FILE.env,
          help = s::WEBHOOKS_FILE.meaning,
          value_parser = s::WEBHOOKS_FILE.reads::<PathBuf>())]
    pub webhooks_file: Option<PathBuf>,

    /// The file with the rules for tasks; read it with [`PlannerConfig::toolchain`].
    #[arg(long = s::TOOLCHAIN_FILE.flag, env = s::TOOLCHAIN_FILE.env,
          help = s::TOOLCHAIN_FILE.meaning,
          value_parser = s::TOOLCHAIN_FILE.reads::<PathBuf>())]
    pub toolchain_file: Option<PathBuf>,

    /// How long ended runs are kept.
    #[command(flatten)]
    pub retention: RetentionConfig,

    /// The file with the key that the planner signs with.
    #[arg(long = s::PLANNER_KEY_FILE.flag, env = s::PLANNER_KEY_FILE.env, help = s::PLANNER_KEY_FILE.meaning,
          value_parser = s::PLANNER_KEY_FILE.reads::<PathBuf>())]
    pub planner_key_file: Option<PathBuf>,

    /// Hooks of forges.
    #[command(flatten)]
    pub hooks: HooksConfig,
}

/// How long ended runs are kept.
#[derive(Debug, Clone, Copy, Args)]
pub struct RetentionConfig {
    /// Days that a run is kept after its end, 0..36500; 0 keeps it for ever.
    #[arg(long = s::RETENTION_DAYS.flag, env = s::RETENTION_DAYS.env,
          default_value = s::RETENTION_DAYS.default, help = s::RETENTION_DAYS.meaning,
          value_parser = s::RETENTION_DAYS.reads::<u32>())]
    pub retention_days: u32,
}

/// Hooks of forges.
#[derive(Debug, Clone, Args)]
pub struct HooksConfig {
    /// The secrets that hooks may name.
    #[arg(long = s::HOOK_SECRETS.flag, env = s::HOOK_SECRETS.env, hide_env_values = true,
          help = s::HOOK_SECRETS.meaning, value_parser = s::HOOK_SECRETS.reads::<NamedSecrets>())]
    pub hook_secrets: Option<NamedSecrets>,

    /// Whether hooks without a secret take deliveries, on loopback.
    #[arg(long = s::UNSIGNED_HOOKS.flag, env = s::UNSIGNED_HOOKS.env,
          help = s::UNSIGNED_HOOKS.meaning,
          value_parser = s::UNSIGNED_HOOKS.reads::<bool>())]
    pub unsigned_hooks: bool,

    /// Days that a delivery is kept, 1..36500.
    #[arg(long = s::DELIVERY_RETENTION_DAYS.flag, env = s::DELIVERY_RETENTION_DAYS.env,
          default_value = s::DELIVERY_RETENTION_DAYS.default,
          help = s::DELIVERY_RETENTION_DAYS.meaning,
          value_parser = s::DELIVERY_RETENTION_DAYS.reads::<u32>())]
    pub delivery_retention_days: u32,
}

/// The executor's settings.
#[derive(Debug, Clone, Args)]
pub struct ExecutorConfig {
    /// The listen address; port 0 selects a free port.
    #[arg(long = s::EXECUTOR_LISTEN.flag, env = s::EXECUTOR_LISTEN.env,
          default_value = s::EXECUTOR_LISTEN.default, help = s::EXECUTOR_LISTEN.meaning,
          value_parser = s::EXECUTOR_LISTEN.reads::<SocketAddr>())]
    pub executor_listen: SocketAddr,

    /// The acceptgate's address.
    #[arg(long = s::EXECUTOR_GATE_URL.flag, env = s::EXECUTOR_GATE_URL.env,
          default_value = s::EXECUTOR_GATE_URL.default, help = s::EXECUTOR_GATE_URL.meaning,
          value_parser = s::EXECUTOR_GATE_URL.reads::<String>())]
    pub gate_url: String,

    /// The most concurrent runs, 1..4096.
    #[arg(long = s::EXECUTOR_SLOTS.flag, env = s::EXECUTOR_SLOTS.env,
          default_value = s::EXECUTOR_SLOTS.default, help = s::EXECUTOR_SLOTS.meaning,
          value_parser = s::EXECUTOR_SLOTS.reads::<u32>())]
    pub executor_slots: u32,

    /// Milliseconds between heartbeats, 100..60000; read it with
    /// [`ExecutorConfig::heartbeat_interval`].
    #[arg(long = s::EXECUTOR_HEARTBEAT_INTERVAL_MS.flag,
          env = s::EXECUTOR_HEARTBEAT_INTERVAL_MS.env,
          help = s::EXECUTOR_HEARTBEAT_INTERVAL_MS.meaning,
          value_parser = s::EXECUTOR_HEARTBEAT_INTERVAL_MS.reads::<u64>())]
    pub executor_heartbeat_interval_ms: Option<u64>,

    /// The age of the last heartbeat in milliseconds at which an executor is declared dead,
    /// 2000..600000.
    #[arg(long = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.flag,
          env = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.env,
          default_value = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.default,
          help = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.meaning,
          value_parser = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.reads::<u64>())]
    pub executor_heartbeat_age_limit_ms: u64,

    /// Deaths of executors in the middle of one turn or verification after which its run waits for an operator,
    /// 1..1000000.
    #[arg(long = s::EXECUTOR_MAX_DEATHS.flag, env = s::EXECUTOR_MAX_DEATHS.env,
          default_value = s::EXECUTOR_MAX_DEATHS.default, help = s::EXECUTOR_MAX_DEATHS.meaning,
          value_parser = s::EXECUTOR_MAX_DEATHS.reads::<u32>())]
    pub executor_max_deaths: u32,

    /// The hosts that `http_get` may read.
    #[arg(long = s::EXECUTOR_HTTP_ALLOW.flag, env = s::EXECUTOR_HTTP_ALLOW.env,
          help = s::EXECUTOR_HTTP_ALLOW.meaning,
          value_parser = s::EXECUTOR_HTTP_ALLOW.reads::<String>())]
    pub executor_http_allow: Option<String>,

    /// Seconds that a command may take which asks for no time of its own, 1..3600.
    #[arg(long = s::EXECUTOR_COMMAND_TIMEOUT_S.flag, env = s::EXECUTOR_COMMAND_TIMEOUT_S.env,
          default_value = s::EXECUTOR_COMMAND_TIMEOUT_S.default,
          help = s::EXECUTOR_COMMAND_TIMEOUT_S.meaning,
          value_parser = s::EXECUTOR_COMMAND_TIMEOUT_S.reads::<u64>())]
    pub executor_command_timeout_s: u64,

    /// Other names of tools.
    #[arg(long = s::EXECUTOR_TOOL_ALIASES.flag, env = s::EXECUTOR_TOOL_ALIASES.env,
          help = s::EXECUTOR_TOOL_ALIASES.meaning,
          value_parser = s::EXECUTOR_TOOL_ALIASES.reads::<String>())]
    pub executor_tool_aliases: Option<String>,

    /// The secrets that tools may use.
    #[arg(long = s::EXECUTOR_SECRETS.flag, env = s::EXECUTOR_SECRETS.env, hide_env_values = true,
          help = s::EXECUTOR_SECRETS.meaning,
          value_parser = s::EXECUTOR_SECRETS.reads::<NamedSecrets>())]
    pub executor_secrets: Option<NamedSecrets>,

    /// The file with the MCP servers; read it with [`ExecutorConfig::mcp_servers`].
    #[arg(long = s::EXECUTOR_MCP.flag, env = s::EXECUTOR_MCP.env, help = s::EXECUTOR_MCP.meaning,
          value_parser = s::EXECUTOR_MCP.reads::<PathBuf>())]
    pub executor_mcp: Option<PathBuf>,

    /// The git repositories that runs may work on; read it with [`ExecutorConfig::repositories`].
    #[arg(long = s::EXECUTOR_REPOSITORIES.flag, env = s::EXECUTOR_REPOSITORIES.env,
          help = s::EXECUTOR_REPOSITORIES.meaning,
          value_parser = s::EXECUTOR_REPOSITORIES.reads::<String>())]
    pub executor_repositories: Option<String>,

    /// MiB of disk that git may write for one run at a time, 1..1048576.
    #[arg(long = s::EXECUTOR_REPOSITORY_MIB.flag, env = s::EXECUTOR_REPOSITORY_MIB.env,
          default_value = s::EXECUTOR_REPOSITORY_MIB.default,
          help = s::EXECUTOR_REPOSITORY_MIB.meaning,
          value_parser = s::EXECUTOR_REPOSITORY_MIB.reads::<u64>())]
    pub executor_repository_mib: u64,

    /// Milliseconds for which a remote driver keeps a step without a sign of life, 500..3600000; read it with
    /// [`ExecutorConfig::driver_lease`].
    #[arg(long = s::EXECUTOR_DRIVER_LEASE_MS.flag, env = s::EXECUTOR_DRIVER_LEASE_MS.env,
          default_value = s::EXECUTOR_DRIVER_LEASE_MS.default,
          help = s::EXECUTOR_DRIVER_LEASE_MS.meaning,
          value_parser = s::EXECUTOR_DRIVER_LEASE_MS.reads::<u64>())]
    pub executor_driver_lease_ms: u64,

    /// Milliseconds for which SubmitDecision waits for the outcome of its turn, 100..30000; read it with
    /// [`ExecutorConfig::turn_wait`].
    #[arg(long = s::EXECUTOR_TURN_WAIT_MS.flag, env = s::EXECUTOR_TURN_WAIT_MS.env,
          default_value = s::EXECUTOR_TURN_WAIT_MS.default,
          help = s::EXECUTOR_TURN_WAIT_MS.meaning,
          value_parser = s::EXECUTOR_TURN_WAIT_MS.reads::<u64>())]
    pub executor_turn_wait_ms: u64,

    /// The identities with the role worker that may report receipts; read it with
    /// [`ExecutorConfig::reporters`].
    #[arg(long = s::EXECUTOR_RECORD_RECEIPTS.flag, env = s::EXECUTOR_RECORD_RECEIPTS.env,
          default_value = s::EXECUTOR_RECORD_RECEIPTS.default,
          help = s::EXECUTOR_RECORD_RECEIPTS.meaning,
          value_parser = s::EXECUTOR_RECORD_RECEIPTS.reads::<String>())]
    pub executor_record_receipts: String,

    /// Milliseconds for which the calls of a worker stay its own after its stream ended, 600..3600000; read it with
    /// [`ExecutorConfig::worker_lease`].
    #[arg(long = s::EXECUTOR_WORKER_LEASE_MS.flag, env = s::EXECUTOR_WORKER_LEASE_MS.env,
          default_value = s::EXECUTOR_WORKER_LEASE_MS.default,
          help = s::EXECUTOR_WORKER_LEASE_MS.meaning,
          value_parser = s::EXECUTOR_WORKER_LEASE_MS.reads::<u64>())]
    pub executor_worker_lease_ms: u64,

    /// Seconds that a call of a worker's tool may take where the worker names none, 1..2592000; read it with
    /// [`ExecutorConfig::worker_call_timeout`].
    #[arg(long = s::EXECUTOR_WORKER_CALL_TIMEOUT_S.flag, env = s::EXECUTOR_WORKER_CALL_TIMEOUT_S.env,
          default_value = s::EXECUTOR_WORKER_CALL_TIMEOUT_S.default,
          help = s::EXECUTOR_WORKER_CALL_TIMEOUT_S.meaning,
          value_parser = s::EXECUTOR_WORKER_CALL_TIMEOUT_S.reads::<u64>())]
    pub executor_worker_call_timeout_s: u64,

    /// Seconds for which a worker's tool stays listed after its last worker left, 1..2592000; read it with
    /// [`ExecutorConfig::worker_tool_ttl`].
    #[arg(long = s::EXECUTOR_WORKER_TOOL_TTL_S.flag, env = s::EXECUTOR_WORKER_TOOL_TTL_S.env,
          default_value = s::EXECUTOR_WORKER_TOOL_TTL_S.default,
          help = s::EXECUTOR_WORKER_TOOL_TTL_S.meaning,
          value_parser = s::EXECUTOR_WORKER_TOOL_TTL_S.reads::<u64>())]
    pub executor_worker_tool_ttl_s: u64,

    /// The folder for workspaces that the executor makes, clones, and the views and temporary files of commands.
    #[arg(long = s::EXECUTOR_DATA_DIR.flag, env = s::EXECUTOR_DATA_DIR.env,
          default_value = s::EXECUTOR_DATA_DIR.default, help = s::EXECUTOR_DATA_DIR.meaning,
          value_parser = s::EXECUTOR_DATA_DIR.reads::<PathBuf>())]
    pub executor_data_dir: PathBuf,

    /// The file with the key that the executor signs with.
    #[arg(long = s::EXECUTOR_KEY_FILE.flag, env = s::EXECUTOR_KEY_FILE.env, help = s::EXECUTOR_KEY_FILE.meaning,
          value_parser = s::EXECUTOR_KEY_FILE.reads::<PathBuf>())]
    pub executor_key_file: Option<PathBuf>,

    /// What confines commands.
    #[command(flatten)]
    pub sandbox: SandboxConfig,
}

/// What confines the executor's commands.
#[derive(Debug, Clone, Args)]
pub struct SandboxConfig {
    /// The level: auto, full, partial or none.
    #[arg(long = s::SANDBOX.flag, env = s::SANDBOX.env, default_value = s::SANDBOX.default,
          help = s::SANDBOX.meaning, value_parser = s::SANDBOX.reads::<String>())]
    pub sandbox: String,

    /// Whether a run's policy may ask for none.
    #[arg(long = s::SANDBOX_ALLOW_NONE.flag, env = s::SANDBOX_ALLOW_NONE.env,
          help = s::SANDBOX_ALLOW_NONE.meaning,
          value_parser = s::SANDBOX_ALLOW_NONE.reads::<bool>())]
    pub sandbox_allow_none: bool,

    /// What commands may read besides what is found, absolute paths separated by colons.
    #[arg(long = s::SANDBOX_READ_ONLY.flag, env = s::SANDBOX_READ_ONLY.env,
          help = s::SANDBOX_READ_ONLY.meaning, value_parser = s::SANDBOX_READ_ONLY.reads::<String>())]
    pub sandbox_read_only: Option<String>,

    /// What commands may write besides their workspace, absolute paths separated by colons.
    #[arg(long = s::SANDBOX_WRITABLE.flag, env = s::SANDBOX_WRITABLE.env,
          help = s::SANDBOX_WRITABLE.meaning, value_parser = s::SANDBOX_WRITABLE.reads::<String>())]
    pub sandbox_writable: Option<String>,

    /// Processes and threads of one command, 16..100000.
    #[arg(long = s::SANDBOX_PROCESSES.flag, env = s::SANDBOX_PROCESSES.env,
          help = s::SANDBOX_PROCESSES.meaning, value_parser = s::SANDBOX_PROCESSES.reads::<u64>())]
    pub sandbox_processes: Option<u64>,

    /// MiB of memory of one command, 64..16777216.
    #[arg(long = s::SANDBOX_MEMORY_MIB.flag, env = s::SANDBOX_MEMORY_MIB.env,
          help = s::SANDBOX_MEMORY_MIB.meaning, value_parser = s::SANDBOX_MEMORY_MIB.reads::<u64>())]
    pub sandbox_memory_mib: Option<u64>,

    /// MiB that one command may write to disk, 16..16777216.
    #[arg(long = s::SANDBOX_DISK_MIB.flag, env = s::SANDBOX_DISK_MIB.env,
          default_value = s::SANDBOX_DISK_MIB.default, help = s::SANDBOX_DISK_MIB.meaning,
          value_parser = s::SANDBOX_DISK_MIB.reads::<u64>())]
    pub sandbox_disk_mib: u64,
}

/// The acceptgate's settings.
#[derive(Debug, Clone, Args)]
pub struct GateConfig {
    /// The listen address; port 0 selects a free port.
    #[arg(long = s::GATE_LISTEN.flag, env = s::GATE_LISTEN.env,
          default_value = s::GATE_LISTEN.default, help = s::GATE_LISTEN.meaning,
          value_parser = s::GATE_LISTEN.reads::<SocketAddr>())]
    pub gate_listen: SocketAddr,

    /// The file with the key that the gate signs with.
    #[arg(long = s::GATE_KEY_FILE.flag, env = s::GATE_KEY_FILE.env, help = s::GATE_KEY_FILE.meaning,
          value_parser = s::GATE_KEY_FILE.reads::<PathBuf>())]
    pub gate_key_file: Option<PathBuf>,

    /// What `http_probe` checks may call.
    #[command(flatten)]
    pub probe: GateProbeConfig,

    /// Who anchors verdicts.
    #[command(flatten)]
    pub anchor: GateAnchorConfig,
}

/// What `http_probe` checks may call.
#[derive(Debug, Clone, Args)]
pub struct GateProbeConfig {
    /// The hosts that `http_probe` checks may call, `host:port` separated by commas; none when
    /// absent.
    #[arg(long = s::GATE_PROBE_ALLOW.flag, env = s::GATE_PROBE_ALLOW.env,
          help = s::GATE_PROBE_ALLOW.meaning,
          value_parser = s::GATE_PROBE_ALLOW.reads::<String>())]
    pub gate_probe_allow: Option<String>,
}

impl GateConfig {
    /// As [`GateAnchorConfig::check`], for a gate that starts: only signed verdicts can be anchored.
    ///
    /// # Errors
    /// Those of [`GateAnchorConfig::check`]; verdicts are not signed.
    pub fn anchor_authority(&self) -> Result<Option<AnchorAuthority>, ConfigError> {
        let authority = self.anchor.check()?;
        match (&authority, &self.gate_key_file) {
            (Some(_), None) => Err(needs(s::GATE_KEY_FILE.flag)),
            _ => Ok(authority),
        }
    }
}

impl PlannerConfig {
    /// The databases in the file, each once, in the order of the file; none without a file.
    ///
    /// # Errors
    /// The file cannot be read, is readable by every user, names nothing, or has an invalid line.
    pub fn namespace_databases(&self) -> Result<Vec<NamespaceDatabase>, ConfigError> {
        let read = self.namespace_databases_file.as_deref().map(read_namespace_databases);
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// The webhooks in the file, in its order; none without a file.
    ///
    /// # Errors
    /// The file cannot be read, is readable by every user, or has an invalid line.
    pub fn webhooks(&self) -> Result<Vec<Webhook>, ConfigError> {
        Ok(self.webhooks_file.as_deref().map(read_webhooks).transpose()?.unwrap_or_default())
    }

    /// The rules for tasks; the default ones without a file.
    ///
    /// # Errors
    /// The file cannot be read, or has a key that cannot be used.
    pub fn toolchain(&self) -> Result<ToolchainConfig, ConfigError> {
        Ok(self.toolchain_file.as_deref().map(read_toolchain).transpose()?.unwrap_or_default())
    }
}

impl ExecutorConfig {
    /// Checks values that depend on each other; call it once at start.
    ///
    /// # Errors
    /// The heartbeat's age limit is below twice its interval.
    pub const fn check(&self) -> Result<(), ConfigError> {
        let interval_ms = self.interval_ms();
        let limit_ms = self.executor_heartbeat_age_limit_ms;
        if limit_ms < interval_ms.saturating_mul(2) {
            return Err(ConfigError::HeartbeatTooSlow { interval_ms, limit_ms });
        }
        Ok(())
    }

    /// The time between two heartbeats. By default it is a third of the age limit and at most a
    /// second: other executors then detect a death within a second after the limit.
    #[must_use]
    pub const fn heartbeat_interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms())
    }

    const fn interval_ms(&self) -> u64 {
        match self.executor_heartbeat_interval_ms {
            Some(interval_ms) => interval_ms,
            None if self.executor_heartbeat_age_limit_ms < 3000 => {
                self.executor_heartbeat_age_limit_ms / 3
            }
            None => 1000,
        }
    }

    /// The MCP servers in the file, by name; none without a file.
    ///
    /// # Errors
    /// The file cannot be read, or has a key with an unusable value.
    pub fn mcp_servers(&self) -> Result<Vec<McpServer>, ConfigError> {
        Ok(self.executor_mcp.as_deref().map(read_mcp_servers).transpose()?.unwrap_or_default())
    }

    /// How long a remote driver keeps a leased step without a sign of life.
    #[must_use]
    pub const fn driver_lease(&self) -> Duration {
        Duration::from_millis(self.executor_driver_lease_ms)
    }

    /// How long SubmitDecision waits for the outcome of its turn.
    #[must_use]
    pub const fn turn_wait(&self) -> Duration {
        Duration::from_millis(self.executor_turn_wait_ms)
    }

    /// The beginnings of the addresses of repositories that runs may work on.
    #[must_use]
    pub fn repositories(&self) -> Vec<String> {
        let listed = self.executor_repositories.iter().flat_map(|listed| listed.split(','));
        listed.map(|it| it.trim().to_owned()).collect()
    }

    /// The identities with the role worker that may report receipts; `*` alone for every one.
    #[must_use]
    pub fn reporters(&self) -> Vec<String> {
        let names = self.executor_record_receipts.split(',').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }

    /// How long the calls of a worker stay its own after its stream ended.
    #[must_use]
    pub const fn worker_lease(&self) -> Duration {
        Duration::from_millis(self.executor_worker_lease_ms)
    }

    /// How long a call of a worker's tool may take where the worker names none.
    #[must_use]
    pub const fn worker_call_timeout(&self) -> Duration {
        Duration::from_secs(self.executor_worker_call_timeout_s)
    }

    /// How long a worker's tool stays listed after its last worker left.
    #[must_use]
    pub const fn worker_tool_ttl(&self) -> Duration {
        Duration::from_secs(self.executor_worker_tool_ttl_s)
    }

    /// The age of the last heartbeat at which an executor is declared dead.
    #[must_use]
    pub const fn heartbeat_age_limit(&self) -> Duration {
        Duration::from_millis(self.executor_heartbeat_age_limit_ms)
    }
}
