//! What a command is told that talks to a service, or that starts one.

use std::path::PathBuf;

use clap::Args;

use super::error::ConfigError;
use super::secret::Secret;
use super::settings as s;
use super::token::read_token_file;

/// How a command finds the service it talks to, and what it shows there.
#[derive(Debug, Clone, Args)]
pub struct ClientConfig {
    /// The service.
    #[command(flatten)]
    pub address: AddressConfig,

    /// The file with the bearer token; read it with [`ClientConfig::token`].
    #[arg(long = s::TOKEN_FILE.flag, env = s::TOKEN_FILE.env, help = s::TOKEN_FILE.meaning,
          value_parser = s::TOKEN_FILE.reads::<PathBuf>())]
    pub token_file: Option<PathBuf>,

    /// Where `surety up` keeps what it needs.
    #[command(flatten)]
    pub folder: DataDirConfig,
}

/// Where the planner listens.
#[derive(Debug, Clone, Args)]
pub struct AddressConfig {
    /// Its address; none leaves it to the data folder.
    #[arg(long = s::URL.flag, env = s::URL.env, help = s::URL.meaning,
          value_parser = s::URL.reads::<String>())]
    pub url: Option<String>,
}

/// The data folder of `surety up`.
#[derive(Debug, Clone, Args)]
pub struct DataDirConfig {
    /// The folder; none is the user's own.
    #[arg(long = s::DATA_DIR.flag, env = s::DATA_DIR.env, help = s::DATA_DIR.meaning,
          value_parser = s::DATA_DIR.reads::<PathBuf>())]
    pub data_dir: Option<PathBuf>,
}

impl ClientConfig {
    /// The token in the token file, if a file was named.
    ///
    /// # Errors
    /// The file cannot be read, is empty or is open to every user.
    pub fn token(&self) -> Result<Option<Secret>, ConfigError> {
        self.token_file.as_deref().map(read_token_file).transpose()
    }
}
