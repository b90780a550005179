//! What an executor is started with, and why it ends.

use crate::{driver, tool};
use metrics_exporter_prometheus::PrometheusHandle;
use std::path::PathBuf;
use surety_common::config::{CommonConfig, ConfigError, ExecutorConfig, ModelDriverConfig};
use surety_common::store::StoreError;
use surety_common::wire::client::{ClientError, Transport};
use surety_common::wire::server;
use surety_common::wire::token::FileTokens;

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
