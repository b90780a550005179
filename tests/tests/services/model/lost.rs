//! Lost leases, killed processes, and the end of a process: the call's connection is closed, and nothing is lost.

use crate::model::stage::{Stage, next_plan, one_step, planned, stop_reason, write_answer};
use anyhow::{Result, ensure};
use std::time::Duration;
use surety_common::wire::v1;
use surety_e2e::model_server::{Recorded, Reply, Settings};

/// A reply that does not come while a test runs.
fn never() -> Reply {
    write_answer().head_after(Duration::from_secs(600))
}

fn closed(recorded: &[Recorded]) -> bool {
    recorded.iter().any(|request| request.closed_early)
}

#[tokio::test]
async fn a_cancelled_run_closes_the_connection_of_its_call() -> Result<()> {
    let stage = Stage::start().await?;
    stage.plays.add("cancelled", |_, _| never());
    let folder = tempfile::tempdir()?;
    let request = planned("cancelled", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.server.wait_until(|recorded| asked(recorded) == 1).await?;
    stage.deployment.command_line(&["cancel", &run.id]).await?;
    stage.server.wait_until(|recorded| closed(recorded)).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Cancelled, "{ended:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_killed_process_loses_no_turn() -> Result<()> {
    let lease = [("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1500")];
    let mut stage = Stage::start_with(Settings::default(), &lease).await?;
    stage.plays.add("killed", |number, _| match number {
        0 => never(),
        1 => write_answer(),
        _ => next_plan(),
    });
    let folder = tempfile::tempdir()?;
    let request = planned("killed", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.server.wait_until(|recorded| asked(recorded) == 1).await?;
    stage.deployment.first_executor()?.kill().await?;
    stage.deployment.add_executor(&[]).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("killed") == 3, "{}", stage.plays.calls("killed"));
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_process_that_ends_gives_its_calls_back() -> Result<()> {
    let drain = [("SURETY_DRAIN_TIMEOUT_MS", "2000")];
    let mut stage = Stage::start_with(Settings::default(), &drain).await?;
    stage.plays.add("drained", |number, _| match number {
        0 => never(),
        1 => write_answer(),
        _ => next_plan(),
    });
    let folder = tempfile::tempdir()?;
    let request = planned("drained", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.server.wait_until(|recorded| asked(recorded) == 1).await?;
    stage.deployment.add_executor(&[]).await?;
    stage.deployment.first_executor()?.stop().await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    stage.deployment.finish().await
}

/// The chats that were asked.
fn asked(recorded: &[Recorded]) -> usize {
    recorded.iter().filter(|request| request.line.starts_with("POST")).count()
}
