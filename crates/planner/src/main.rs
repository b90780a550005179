//! The planner's process.

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use surety_common::config::{CommonConfig, ModelDriverConfig, PlannerConfig};
use surety_common::telemetry;
use surety_common::wire::client::Transport;
use surety_common::wire::server::{bind, on_signal, run_service};
use surety_common::wire::token::FileTokens;

/// Runs allocate and free many small texts concurrently on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The planner: creates runs, stores their plans, and serves their state.
#[derive(Debug, Parser)]
#[command(name = "surety-planner", version, about)]
struct Args {
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    planner: PlannerConfig,
    #[command(flatten)]
    models: ModelDriverConfig,
}

fn main() -> ExitCode {
    surety_sandbox::run_if_invoked();
    let args = Args::parse();
    run_service(args.common.worker_threads, run(args))
}

async fn run(Args { common, planner, models }: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let databases = planner.namespace_databases()?;
    let webhooks = planner.webhooks()?;
    let transport = Transport::of(&common.tls)?;
    let guard = telemetry::init("planner", &common.telemetry, &transport)?;
    let shutdown = on_signal()?;
    let tokens = FileTokens::of(&common.tokens()?)?;
    let authenticated = !tokens.known.is_empty() || common.tls.tls_require_client_certificate;
    let listener = bind(planner.planner_listen, authenticated).await?;
    let setup = surety_planner::Setup {
        database_url: common.home_database(&databases)?,
        databases,
        webhooks,
        metrics: Some(guard.metrics()),
        common,
        planner,
        models,
        tokens,
        transport,
    };
    surety_planner::serve(setup, listener, shutdown).await?;
    guard.end().await;
    Ok(())
}
