//! What the planner's `/metrics` says of the queue.

use anyhow::{Result, ensure};
use std::time::Instant;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::script::{noop, plan, request, step};

/// Scrapes until a line is there.
async fn wait_for_figure(deployment: &Deployment, line: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = deployment.planner.get("/metrics").await?;
        if page.lines().any(|found| found == line) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "no {line} in\n{page}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_queue_that_empties_without_an_executor_is_shown_as_empty() -> Result<()> {
    let deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let order = request(&plan(&[step("only", &[], &[noop()])]), "");
    let order = v1::CreateRunRequest { namespace: "brief".to_owned(), ..order };
    let run = deployment.create_run(order).await?;
    wait_for_figure(&deployment, "surety_queue_depth{namespace=\"brief\"} 1").await?;
    let cancel = v1::CancelRunRequest {
        run_id: run.id,
        reason: "not wanted".to_owned(),
        ..Default::default()
    };
    deployment.runs()?.cancel_run(cancel).await?;
    wait_for_figure(&deployment, "surety_queue_depth{namespace=\"brief\"} 0").await?;
    deployment.finish().await
}
