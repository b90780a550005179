//! `surety`: one binary for people.

use std::process::ExitCode;

use clap::Parser;
use surety_cli::commands::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    Cli::parse().run().await
}
