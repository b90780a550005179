//! `surety`: one binary for people.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    surety_cli::commands::run(std::env::args_os()).await.into()
}
