//! What each service is told besides the common settings.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::error::ConfigError;
use super::namespaces::{NamespaceDatabase, read_namespace_databases};
use super::settings as s;

/// The planner's own settings.
#[derive(Debug, Clone, Args)]
pub struct PlannerConfig {
    /// Where it listens; port 0 takes a free one.
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

    /// Days that a run is kept after its end, 0..36500; 0 keeps it for ever.
    #[arg(long = s::RETENTION_DAYS.flag, env = s::RETENTION_DAYS.env,
          default_value = s::RETENTION_DAYS.default, help = s::RETENTION_DAYS.meaning,
          value_parser = s::RETENTION_DAYS.reads::<u32>())]
    pub retention_days: u32,
}

/// The executor's own settings.
#[derive(Debug, Clone, Args)]
pub struct ExecutorConfig {
    /// Where it listens; port 0 takes a free one.
    #[arg(long = s::EXECUTOR_LISTEN.flag, env = s::EXECUTOR_LISTEN.env,
          default_value = s::EXECUTOR_LISTEN.default, help = s::EXECUTOR_LISTEN.meaning,
          value_parser = s::EXECUTOR_LISTEN.reads::<SocketAddr>())]
    pub executor_listen: SocketAddr,

    /// The acceptgate.
    #[arg(long = s::EXECUTOR_GATE_URL.flag, env = s::EXECUTOR_GATE_URL.env,
          default_value = s::EXECUTOR_GATE_URL.default, help = s::EXECUTOR_GATE_URL.meaning,
          value_parser = s::EXECUTOR_GATE_URL.reads::<String>())]
    pub gate_url: String,

    /// Runs at the same time, 1..4096.
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

    /// Milliseconds after which a silent executor counts as dead, 2000..600000.
    #[arg(long = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.flag,
          env = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.env,
          default_value = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.default,
          help = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.meaning,
          value_parser = s::EXECUTOR_HEARTBEAT_AGE_LIMIT_MS.reads::<u64>())]
    pub executor_heartbeat_age_limit_ms: u64,

    /// Where keys and cloned workspaces are kept.
    #[arg(long = s::EXECUTOR_DATA_DIR.flag, env = s::EXECUTOR_DATA_DIR.env,
          default_value = s::EXECUTOR_DATA_DIR.default, help = s::EXECUTOR_DATA_DIR.meaning,
          value_parser = s::EXECUTOR_DATA_DIR.reads::<PathBuf>())]
    pub executor_data_dir: PathBuf,
}

/// The acceptgate's own settings.
#[derive(Debug, Clone, Args)]
pub struct GateConfig {
    /// Where it listens; port 0 takes a free one.
    #[arg(long = s::GATE_LISTEN.flag, env = s::GATE_LISTEN.env,
          default_value = s::GATE_LISTEN.default, help = s::GATE_LISTEN.meaning,
          value_parser = s::GATE_LISTEN.reads::<SocketAddr>())]
    pub gate_listen: SocketAddr,

    /// What the gate itself may ask.
    #[command(flatten)]
    pub probe: GateProbeConfig,
}

/// What the gate itself may ask.
#[derive(Debug, Clone, Args)]
pub struct GateProbeConfig {
    /// The hosts that `http_probe` checks may ask, `host:port` separated by commas; none when
    /// absent.
    #[arg(long = s::GATE_PROBE_ALLOW.flag, env = s::GATE_PROBE_ALLOW.env,
          help = s::GATE_PROBE_ALLOW.meaning,
          value_parser = s::GATE_PROBE_ALLOW.reads::<String>())]
    pub gate_probe_allow: Option<String>,
}

impl PlannerConfig {
    /// The databases that the file names, each once, in the order of the file; none without a file.
    ///
    /// # Errors
    /// The file cannot be read, is open to every user, names nothing, or has a line that does not
    /// read.
    pub fn namespace_databases(&self) -> Result<Vec<NamespaceDatabase>, ConfigError> {
        let read = self.namespace_databases_file.as_deref().map(read_namespace_databases);
        Ok(read.transpose()?.unwrap_or_default())
    }
}

impl ExecutorConfig {
    /// What no single value shows; call it once at start.
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

    /// The time between two heartbeats: unless it was set, a third of the age limit, and a second at
    /// most, so that another's death is noticed within a second of the limit.
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

    /// The age of a heartbeat at which its executor counts as dead.
    #[must_use]
    pub const fn heartbeat_age_limit(&self) -> Duration {
        Duration::from_millis(self.executor_heartbeat_age_limit_ms)
    }
}
