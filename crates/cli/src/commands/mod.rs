//! The subcommands, one module each. A new one is a module with an `Args` struct and a `run`, a
//! variant of [`Command`] and a line in [`Cli::run`].

mod dev_postgres;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use dev_postgres::DevPostgres;

/// Carries an agent's goal to a proven end.
#[derive(Debug, Parser)]
#[command(name = "surety", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Everything `surety` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command beside a temporary Postgres, for tests of Surety itself.
    #[command(hide = true)]
    DevPostgres(DevPostgres),
}

impl Cli {
    /// Does it, and says on standard error why when it cannot.
    pub async fn run(self) -> ExitCode {
        let done = match self.command {
            Command::DevPostgres(command) => command.run().await,
        };
        done.unwrap_or_else(|error| {
            eprintln!("surety: {error:#}");
            ExitCode::FAILURE
        })
    }
}
