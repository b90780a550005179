//! The settings of commands that call a service, or start one.

use std::path::PathBuf;

use clap::Args;

use super::error::ConfigError;
use super::secret::Secret;
use super::settings as s;
use super::tls::ClientTlsConfig;
use super::token::read_client_token;

/// How a command finds the service and authenticates to it.
#[derive(Debug, Clone, Args)]
pub struct ClientConfig {
    /// The service.
    #[command(flatten)]
    pub address: AddressConfig,

    /// The file with the bearer token; read it with [`ClientConfig::token`].
    #[arg(long = s::TOKEN_FILE.flag, env = s::TOKEN_FILE.env, help = s::TOKEN_FILE.meaning,
          value_parser = s::TOKEN_FILE.reads::<PathBuf>())]
    pub token_file: Option<PathBuf>,

    /// The certificates.
    #[command(flatten)]
    pub tls: ClientTlsConfig,

    /// The data folder of `surety up`.
    #[command(flatten)]
    pub folder: DataDirConfig,

    /// The file with the public keys whose signatures count; none means the one in the data folder.
    #[arg(long = s::TRUSTED_KEYS_FILE.flag, env = s::TRUSTED_KEYS_FILE.env, hide = true,
          value_parser = s::TRUSTED_KEYS_FILE.reads::<PathBuf>())]
    pub trusted_keys_file: Option<PathBuf>,
}

/// The planner's address.
#[derive(Debug, Clone, Args)]
pub struct AddressConfig {
    /// The address; none means that it is read from the data folder.
    #[arg(long = s::URL.flag, env = s::URL.env, help = s::URL.meaning,
          value_parser = s::URL.reads::<String>())]
    pub url: Option<String>,
}

/// The data folder of `surety up`.
#[derive(Debug, Clone, Args)]
pub struct DataDirConfig {
    /// The folder; none means the user's default one.
    #[arg(long = s::DATA_DIR.flag, env = s::DATA_DIR.env, help = s::DATA_DIR.meaning,
          value_parser = s::DATA_DIR.reads::<PathBuf>())]
    pub data_dir: Option<PathBuf>,
}

/// The private Postgres of `surety up`.
#[derive(Debug, Clone, Args)]
pub struct PostgresConfig {
    /// The folder with its programs; none means that they are searched.
    #[arg(long = s::POSTGRES_BIN.flag, env = s::POSTGRES_BIN.env, help = s::POSTGRES_BIN.meaning,
          value_parser = s::POSTGRES_BIN.reads::<PathBuf>())]
    pub postgres_bin: Option<PathBuf>,
}

/// The sessions that `surety mcp` serves over HTTP.
#[derive(Debug, Clone, Args)]
pub struct McpSessionsConfig {
    /// The most at a time.
    #[arg(long = s::MCP_SESSIONS.flag, env = s::MCP_SESSIONS.env,
          default_value = s::MCP_SESSIONS.default, help = s::MCP_SESSIONS.meaning,
          value_parser = s::MCP_SESSIONS.reads::<u32>())]
    pub mcp_sessions: u32,

    /// How long one stays without a message, in seconds.
    #[arg(long = s::MCP_SESSION_IDLE_S.flag, env = s::MCP_SESSION_IDLE_S.env,
          default_value = s::MCP_SESSION_IDLE_S.default, help = s::MCP_SESSION_IDLE_S.meaning,
          value_parser = s::MCP_SESSION_IDLE_S.reads::<u64>())]
    pub mcp_session_idle_s: u64,
}

impl ClientConfig {
    /// The token that this command shows, if a token file was named: of several the first of a person.
    ///
    /// # Errors
    /// The file cannot be read, is empty, has a line that does not read, or is open to every user.
    pub fn token(&self) -> Result<Option<Secret>, ConfigError> {
        self.token_file.as_deref().map(read_client_token).transpose()
    }
}
