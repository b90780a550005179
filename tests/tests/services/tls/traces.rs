//! Traces are exported over TLS.

use anyhow::{Context, Result, ensure};
use std::time::Duration;
use surety_common::config::{LogFormat, TelemetryConfig};
use surety_common::telemetry::{Telemetry, start_run};
use surety_common::wire::client::Transport;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::otlp::OtlpReceiver;
use tracing::dispatcher::with_default;

const DEADLINE: Duration = Duration::from_secs(20);
const RUN: &str = "0199f4d0-0000-7000-8000-000000000001";

async fn export(endpoint: String, transport: &Transport) -> Result<()> {
    let config = TelemetryConfig {
        log: "error".into(),
        log_format: LogFormat::Json,
        otlp_endpoint: Some(endpoint),
    };
    let built = Telemetry::build("surety", &config, transport)?;
    with_default(&built.dispatch, || drop(start_run("planner", RUN, None)));
    // A receiver that refuses the connection loses the spans.
    built.guard.shutdown(DEADLINE).await.ok();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_arrive_over_tls_from_a_client_that_trusts_the_receiver_only() -> Result<()> {
    let (ours, other) = (Authority::new()?, Authority::new()?);
    ours.issue("receiver", "127.0.0.1", VALID)?;
    let receiver = OtlpReceiver::start().await?;
    let plain = receiver.endpoint();
    let to = plain.strip_prefix("http://").context("an address")?.parse()?;
    let endpoint = format!("https://{}", ours.proxy("receiver", to).await?);
    export(endpoint.clone(), &other.client()?).await?;
    ensure!(receiver.spans().is_empty());
    export(endpoint, &ours.client()?).await?;
    let arrived = receiver.wait_for(|spans| spans.len() == 1, DEADLINE).await;
    ensure!(arrived.is_ok(), "{arrived:?}");
    Ok(())
}
