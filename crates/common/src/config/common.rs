//! The settings of every process.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::error::ConfigError;
use super::forges::{ForgesFile, read_forges};
use super::namespaces::NamespaceDatabase;
use super::secret::Secret;
use super::settings as s;
use super::tls::TlsConfig;
use super::token::{FileToken, read_token_file};
use super::value::LogFormat;

/// The settings that all binaries share.
#[derive(Debug, Clone, Args)]
pub struct CommonConfig {
    /// The URL, with password, of the Postgres that stores all state.
    #[arg(long = s::DATABASE_URL.flag, env = s::DATABASE_URL.env, hide_env_values = true,
          help = s::DATABASE_URL.meaning, value_parser = s::DATABASE_URL.reads::<Secret>())]
    pub database_url: Option<Secret>,

    /// Whether a service without a Postgres refuses to start.
    #[arg(long = s::REQUIRE_DATABASE.flag, env = s::REQUIRE_DATABASE.env,
          help = s::REQUIRE_DATABASE.meaning,
          value_parser = s::REQUIRE_DATABASE.reads::<bool>())]
    pub require_database: bool,

    /// The most connections in the pool, 2..500; a process opens a few more outside it.
    #[arg(long = s::DATABASE_POOL_SIZE.flag, env = s::DATABASE_POOL_SIZE.env,
          default_value = s::DATABASE_POOL_SIZE.default, help = s::DATABASE_POOL_SIZE.meaning,
          value_parser = s::DATABASE_POOL_SIZE.reads::<u32>())]
    pub database_pool_size: u32,

    /// How long a request waits for a connection, in milliseconds, 100..600000.
    #[arg(long = s::DATABASE_ACQUIRE_TIMEOUT_MS.flag, env = s::DATABASE_ACQUIRE_TIMEOUT_MS.env,
          default_value = s::DATABASE_ACQUIRE_TIMEOUT_MS.default,
          help = s::DATABASE_ACQUIRE_TIMEOUT_MS.meaning,
          value_parser = s::DATABASE_ACQUIRE_TIMEOUT_MS.reads::<u64>())]
    pub database_acquire_timeout_ms: u64,

    /// The file with bearer tokens; read it with [`CommonConfig::tokens`].
    #[arg(long = s::TOKEN_FILE.flag, env = s::TOKEN_FILE.env, help = s::TOKEN_FILE.meaning,
          value_parser = s::TOKEN_FILE.reads::<PathBuf>())]
    pub token_file: Option<PathBuf>,

    /// The file with the forges; read it with [`CommonConfig::forges`].
    #[arg(long = s::FORGES_FILE.flag, env = s::FORGES_FILE.env, help = s::FORGES_FILE.meaning,
          value_parser = s::FORGES_FILE.reads::<PathBuf>())]
    pub forges_file: Option<PathBuf>,

    /// The certificates.
    #[command(flatten)]
    pub tls: TlsConfig,

    /// The file with the public keys whose signatures count.
    #[arg(long = s::TRUSTED_KEYS_FILE.flag, env = s::TRUSTED_KEYS_FILE.env, help = s::TRUSTED_KEYS_FILE.meaning,
          value_parser = s::TRUSTED_KEYS_FILE.reads::<PathBuf>())]
    pub trusted_keys_file: Option<PathBuf>,

    /// The largest gRPC message in bytes, 2 MiB..256 MiB.
    #[arg(long = s::MAX_MESSAGE_BYTES.flag, env = s::MAX_MESSAGE_BYTES.env,
          default_value = s::MAX_MESSAGE_BYTES.default, help = s::MAX_MESSAGE_BYTES.meaning,
          value_parser = s::MAX_MESSAGE_BYTES.reads::<u32>())]
    pub max_message_bytes: u32,

    /// Whether reflection is served.
    #[arg(long = s::REFLECTION.flag, env = s::REFLECTION.env, help = s::REFLECTION.meaning,
          value_parser = s::REFLECTION.reads::<bool>())]
    pub reflection: bool,

    /// The bounds of the port's connections.
    #[command(flatten)]
    pub connections: ConnectionsConfig,

    /// How long running work may take to end at shutdown, in milliseconds, 0..3600000.
    #[arg(long = s::DRAIN_TIMEOUT_MS.flag, env = s::DRAIN_TIMEOUT_MS.env,
          default_value = s::DRAIN_TIMEOUT_MS.default, help = s::DRAIN_TIMEOUT_MS.meaning,
          value_parser = s::DRAIN_TIMEOUT_MS.reads::<u64>())]
    pub drain_timeout_ms: u64,

    /// The threads of this process, 1..512; half of the processors when absent.
    #[arg(long = s::WORKER_THREADS.flag, env = s::WORKER_THREADS.env,
          help = s::WORKER_THREADS.meaning, value_parser = s::WORKER_THREADS.reads::<u32>())]
    pub worker_threads: Option<u32>,

    /// Names the machine, or the volume that machines share, on which workspace paths hold; read it
    /// with [`CommonConfig::host_label`].
    #[arg(long = s::HOST_LABEL.flag, env = s::HOST_LABEL.env, help = s::HOST_LABEL.meaning,
          value_parser = s::HOST_LABEL.reads::<String>())]
    pub host_label: Option<String>,

    /// Logs and traces.
    #[command(flatten)]
    pub telemetry: TelemetryConfig,
}

/// The bounds of a port's connections.
#[derive(Debug, Clone, Args)]
pub struct ConnectionsConfig {
    /// The most connections that wait for a request, 16..60000.
    #[arg(long = s::WAITING_CONNECTIONS.flag, env = s::WAITING_CONNECTIONS.env,
          default_value = s::WAITING_CONNECTIONS.default, help = s::WAITING_CONNECTIONS.meaning,
          value_parser = s::WAITING_CONNECTIONS.reads::<u32>())]
    pub waiting_connections: u32,

    /// The same for one address, 4..60000.
    #[arg(long = s::WAITING_CONNECTIONS_PER_PEER.flag, env = s::WAITING_CONNECTIONS_PER_PEER.env,
          default_value = s::WAITING_CONNECTIONS_PER_PEER.default,
          help = s::WAITING_CONNECTIONS_PER_PEER.meaning,
          value_parser = s::WAITING_CONNECTIONS_PER_PEER.reads::<u32>())]
    pub waiting_connections_per_peer: u32,

    /// Milliseconds for a header and for a body, 100..600000.
    #[arg(long = s::REQUEST_TIMEOUT_MS.flag, env = s::REQUEST_TIMEOUT_MS.env,
          default_value = s::REQUEST_TIMEOUT_MS.default, help = s::REQUEST_TIMEOUT_MS.meaning,
          value_parser = s::REQUEST_TIMEOUT_MS.reads::<u64>())]
    pub request_timeout_ms: u64,

    /// Milliseconds between two requests, 100..3600000.
    #[arg(long = s::IDLE_TIMEOUT_MS.flag, env = s::IDLE_TIMEOUT_MS.env,
          default_value = s::IDLE_TIMEOUT_MS.default, help = s::IDLE_TIMEOUT_MS.meaning,
          value_parser = s::IDLE_TIMEOUT_MS.reads::<u64>())]
    pub idle_timeout_ms: u64,
}

/// The settings of logs and traces.
#[derive(Debug, Clone, Args)]
pub struct TelemetryConfig {
    /// The filter of log lines.
    #[arg(long = s::LOG.flag, env = s::LOG.env, default_value = s::LOG.default,
          help = s::LOG.meaning, value_parser = s::LOG.reads::<String>())]
    pub log: String,

    /// The format of log lines.
    #[arg(long = s::LOG_FORMAT.flag, env = s::LOG_FORMAT.env,
          default_value = s::LOG_FORMAT.default, help = s::LOG_FORMAT.meaning,
          value_parser = s::LOG_FORMAT.reads::<LogFormat>())]
    pub log_format: LogFormat,

    /// The endpoint for traces; none disables the export.
    #[arg(long = s::OTLP_ENDPOINT.flag, env = s::OTLP_ENDPOINT.env,
          help = s::OTLP_ENDPOINT.meaning, value_parser = s::OTLP_ENDPOINT.reads::<String>())]
    pub otlp_endpoint: Option<String>,
}

const NO_DATABASE: ConfigError = ConfigError::Missing {
    flag: s::DATABASE_URL.flag,
    env: s::DATABASE_URL.env,
    example: "postgres://surety@localhost/surety",
};

impl CommonConfig {
    /// The tokens in the token file; none if no file was named.
    ///
    /// # Errors
    /// The file cannot be read, is empty, has a line that does not read, or is open to every user.
    pub fn tokens(&self) -> Result<Vec<FileToken>, ConfigError> {
        let read = self.token_file.as_deref().map(read_token_file);
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// The forges in the forges file; none if no file was named.
    ///
    /// # Errors
    /// The file cannot be read, does not parse, or has a key with an unusable value.
    pub fn forges(&self) -> Result<ForgesFile, ConfigError> {
        let read = self.forges_file.as_deref().map(read_forges);
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// The URL, with password, of the Postgres that stores all state; none starts a service in
    /// stateless mode.
    ///
    /// # Errors
    /// None is set, and one is required.
    pub fn service_database(&self) -> Result<Option<String>, ConfigError> {
        match &self.database_url {
            None if self.require_database => Err(NO_DATABASE),
            url => Ok(url.as_ref().map(|url| url.expose().to_owned())),
        }
    }

    /// As [`Self::service_database`], for a planner that also serves these databases of namespaces.
    ///
    /// # Errors
    /// None is set, and one is required or there are databases of namespaces.
    pub fn home_database(
        &self,
        others: &[NamespaceDatabase],
    ) -> Result<Option<String>, ConfigError> {
        match &self.database_url {
            None if !others.is_empty() => Err(NO_DATABASE),
            Some(_) | None => self.service_database(),
        }
    }

    /// How long a request waits for a database connection.
    #[must_use]
    pub const fn database_acquire_timeout(&self) -> Duration {
        Duration::from_millis(self.database_acquire_timeout_ms)
    }

    /// Names the machine on which workspace paths hold: the host name unless it was set.
    #[must_use]
    pub fn host_label(&self) -> String {
        let host_name = || {
            let name = nix::unistd::gethostname().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        self.host_label.clone().unwrap_or_else(host_name)
    }

    /// How long running work may take to end at shutdown.
    #[must_use]
    pub const fn drain_timeout(&self) -> Duration {
        Duration::from_millis(self.drain_timeout_ms)
    }
}
