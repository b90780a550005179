//! The executor's process.

use clap::Parser;
use std::error::Error;
use std::process::ExitCode;
use surety_common::config::{CommonConfig, ConfigError, ExecutorConfig, ModelDriverConfig};
use surety_common::telemetry;
use surety_common::wire::client::Transport;
use surety_common::wire::server::{bind, on_signal, run_service};
use surety_common::wire::token::FileTokens;

/// Runs allocate and free many small texts concurrently on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The executor: executes steps and records receipts.
#[derive(Debug, Parser)]
#[command(name = "surety-executor", version, about)]
struct Args {
    #[command(flatten)]
    common: CommonConfig,
    #[command(flatten)]
    executor: ExecutorConfig,
    #[command(flatten)]
    models: ModelDriverConfig,
}

fn main() -> ExitCode {
    surety_sandbox::run_if_invoked_with(surety_symbols::serve);
    let args = Args::parse();
    run_service(args.common.worker_threads, run(args))
}

async fn run(Args { common, executor, models }: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    executor.check()?;
    let transport = Transport::of(&common.tls)?;
    let guard = telemetry::init("executor", &common.telemetry, &transport)?;
    let shutdown = on_signal()?;
    let tokens = FileTokens::of(&common.tokens()?)?;
    let database_url = common.service_database()?;
    let authenticated = !tokens.known.is_empty() || common.tls.tls_require_client_certificate;
    let listener = bind(executor.executor_listen, authenticated).await?;
    if database_url.is_some() && tokens.own.is_none() && common.tls.client.tls_cert_file.is_none() {
        return Err(ConfigError::ServiceTokenMissing.into());
    }
    let metrics = Some(guard.metrics());
    let drivers = surety_executor::driver::Drivers::default();
    let setup = surety_executor::Setup {
        common,
        executor,
        models,
        database_url,
        drivers,
        tokens,
        transport,
        hidden: Vec::new(),
        metrics,
    };
    surety_executor::serve(setup, listener, shutdown).await?;
    guard.end().await;
    Ok(())
}
