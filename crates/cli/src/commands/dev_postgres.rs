//! `surety dev-postgres -- COMMAND...`

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use surety_common::config::PostgresConfig;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::postgres::{Durability, Folders, run_with_database};

/// Starts a temporary Postgres, runs a command with its `DATABASE_URL`, stops it, and exits with
/// the command's code.
#[derive(Debug, Args)]
pub struct DevPostgres {
    #[command(flatten)]
    postgres: PostgresConfig,

    /// Make commits durable, as in production; slower, for measurements.
    #[arg(long)]
    durable: bool,

    /// The folder for temporary files in which it keeps its data, such as /dev/shm, which is memory. Without it that of
    /// `TMPDIR`, or /tmp.
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,

    /// A setting of this Postgres, `name=value`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    setting: Vec<String>,

    /// The command and its arguments, after `--`.
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

impl DevPostgres {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        let durability = if self.durable { Durability::Full } else { Durability::Fast };
        let (bin, temp) = (self.postgres.postgres_bin.as_deref(), self.temp_dir.as_deref());
        let settings: Vec<&str> = self.setting.iter().map(String::as_str).collect();
        Ok(Exit::Command(
            run_with_database(Folders { bin, temp }, durability, &settings, &self.command).await?,
        ))
    }
}
