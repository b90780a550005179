//! What a worker reports of its call, for those that watch the run.

use crate::tool_workers::{Stage, call};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_common::wire::v1::connect_request::Message as Request;
use surety_e2e::harness::PATIENCE;
use surety_e2e::worker::result;
use tokio::time::{interval, timeout};
use tonic::Streaming;

async fn watch(
    stage: &Stage,
    run_id: &str,
    progress: bool,
) -> Result<Streaming<v1::WatchRunResponse>> {
    let (run_id, from_sequence, follow) = (run_id.to_owned(), 1, true);
    let request = v1::WatchRunRequest { run_id, from_sequence, follow, progress };
    Ok(stage.deployment.runs()?.watch_run(request).await?.into_inner())
}

#[tokio::test]
async fn a_watcher_that_asks_sees_at_most_one_report_a_second_and_none_is_journalled() -> Result<()>
{
    let stage = Stage::with(1, v1::ToolAnnotations::default()).await?;
    let mut worker = stage.worker(0, "w1").await?;
    let run_id = stage.run(&[call("x")]).await?;
    let given = worker.call().await?;
    let mut watching = watch(&stage, &run_id, true).await?;
    let mut plain = watch(&stage, &run_id, false).await?;
    let begun = Instant::now();
    let mut beat = interval(Duration::from_millis(150));
    let (mut percent, mut reports, mut events) = (0, Vec::new(), 0);
    let reporting = async {
        while reports.len() < 2 {
            tokio::select! {
                _ = beat.tick() => {
                    percent = (percent + 1) % 101;
                    let (call_id, fence) = (given.call_id.clone(), given.fence);
                    let message = format!("part {percent}\u{7}");
                    let percent = Some(percent);
                    let report = v1::ToolProgress { call_id, fence, message, percent };
                    worker.send(Request::Progress(report)).await?;
                }
                watched = watching.message() => {
                    let watched = watched?.context("the stream ended")?;
                    ensure!(watched.event.is_some() != watched.progress.is_some(), "{watched:#?}");
                    events += usize::from(watched.event.is_some());
                    reports.extend(watched.progress);
                }
            }
        }
        Ok(())
    };
    timeout(PATIENCE, reporting).await.context("no reports")??;
    // They are sent one second apart.
    ensure!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    for report in &reports {
        ensure!(report.call_id == given.call_id && report.step_id == "s", "{report:#?}");
        ensure!(report.tool == given.tool && report.percent.is_some(), "{report:#?}");
        ensure!(report.message.starts_with("part ") && !report.message.contains('\u{7}'));
    }
    ensure!(reports[0] != reports[1], "{reports:#?}");
    worker.store(result(&given, "ok")).await?;
    while let Some(watched) = watching.message().await? {
        events += usize::from(watched.event.is_some());
    }
    let mut journalled = 0;
    while let Some(watched) = plain.message().await? {
        ensure!(watched.progress.is_none(), "{watched:#?}");
        journalled += 1;
    }
    ensure!(events == journalled, "{events} events, {journalled} without reports");
    stage.deployment.finish().await
}
