//! The acceptgate's process.

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use surety_common::config::{CommonConfig, GateConfig};
use surety_common::telemetry;
use surety_common::wire::client::Transport;
use surety_common::wire::server::{bind, on_signal, run_service};
use surety_common::wire::token::FileTokens;

/// Runs allocate and free many small texts concurrently on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The acceptgate: decides from recorded evidence whether a run's goal is reached.
#[derive(Debug, Parser)]
#[command(name = "surety-acceptgate", version, about)]
struct Args {
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    gate: GateConfig,
}

fn main() -> ExitCode {
    surety_sandbox::run_if_invoked();
    let args = Args::parse();
    run_service(args.common.worker_threads, run(args))
}

async fn run(Args { common, gate }: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let transport = Transport::of(&common.tls)?;
    let guard = telemetry::init("acceptgate", &common.telemetry, &transport)?;
    let shutdown = on_signal()?;
    let tokens = FileTokens::of(&common.tokens()?)?;
    let authenticated = !tokens.known.is_empty() || common.tls.tls_require_client_certificate;
    let listener = bind(gate.gate_listen, authenticated).await?;
    let metrics = Some(guard.metrics());
    let database_url = common.service_database()?;
    let setup = surety_acceptgate::Setup { common, gate, database_url, tokens, transport, metrics };
    surety_acceptgate::serve(setup, listener, shutdown).await?;
    guard.end().await;
    Ok(())
}
