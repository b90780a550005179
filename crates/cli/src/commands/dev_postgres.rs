//! `surety dev-postgres -- COMMAND...`

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::postgres::{Durability, run_with_database};

/// Starts a temporary Postgres, runs a command with its `DATABASE_URL`, stops it, and exits with
/// the command's code.
#[derive(Debug, Args)]
pub struct DevPostgres {
    /// Wait for the disk at each commit, as in production; slower, for measurements.
    #[arg(long)]
    durable: bool,

    /// The command and its arguments, after `--`.
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

impl DevPostgres {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let durability = if self.durable { Durability::Full } else { Durability::Fast };
        Ok(run_with_database(durability, &self.command).await?)
    }
}
