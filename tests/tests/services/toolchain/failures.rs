//! What follows from tasks that fail: the same task, the coordinator, the infrastructure, and the bounds of a chain.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, OTHER, PERSON};
use surety_e2e::toolchain::{LOGIN, Stage};

/// What happens on the toolchain is told on the forge and by tasks: never by mail.
pub(super) async fn no_mail(stage: &Stage) -> Result<()> {
    let pool = stage.deployment.database.pool().await?;
    let sent: i64 = sqlx::query_scalar("select count(*) from mail").fetch_one(&pool).await?;
    pool.close().await;
    ensure!(sent == 0, "{sent} messages were sent");
    Ok(())
}

#[tokio::test]
async fn a_task_without_a_report_comes_back_and_the_third_failure_is_the_coordinator_s()
-> Result<()> {
    let stage = Stage::start().await?;
    let mut run_id = stage.assigned(21, LOGIN).await?;
    let chain = run_id.clone();
    for depth in 2..=3 {
        let failed = stage.done_without_a_report(&run_id).await?;
        let why = (failed.outcome.as_str(), failed.failure.as_str(), failed.failure_class.as_str());
        ensure!(why == ("failed", "no_action", "business"), "{failed:#?}");
        // No forge is configured: no comment can be written, so the coordinator is told, and no issue, so the
        // infrastructure is.
        let caused = stage.caused_by(&run_id, 3).await?;
        let [infra, again, coordinator] = caused.as_slice() else { anyhow::bail!("{caused:#?}") };
        for (told, action) in [(infra, "infrastructure_failure"), (coordinator, "task_failed")] {
            ensure!(told.action_type == action && told.assignee == OTHER, "{told:#?}");
            let error = "no forge is configured for team/app on gitea";
            ensure!(told.context_json.contains(error), "{told:#?}");
        }
        ensure!(infra.context_json.contains("forge_not_configured"), "{infra:#?}");
        ensure!(again.action_type == "issue_assigned" && again.assignee == AGENT, "{again:#?}");
        ensure!(again.depth == depth && again.chain_id == chain, "{again:#?}");
        let handed = stage.handed(&again.run_id).await?;
        ensure!(handed.instructions.contains(&again.run_id), "{handed:#?}");
        run_id.clone_from(&again.run_id);
    }
    let third = stage.done_without_a_report(&run_id).await?;
    ensure!(third.failure_class == "system", "{third:#?}");
    let caused = stage.caused_by(&run_id, 2).await?;
    let coordinator = caused.iter().find(|task| task.action_type == "task_failed");
    let coordinator = coordinator.context("no task of the coordinator")?;
    ensure!(coordinator.assignee == OTHER && coordinator.depth == 4, "{coordinator:#?}");
    let handed = stage.handed(&coordinator.run_id).await?;
    ensure!(handed.instructions.contains("surety task show"), "{handed:#?}");

    // The chain is at its depth: nothing follows from it.
    let request = v1::SubmitActionReportRequest {
        run_id: coordinator.run_id.clone(),
        report: "I did it.".to_owned(),
        author: AGENT.to_owned(),
        ..v1::SubmitActionReportRequest::default()
    };
    let answer = stage.report_as(PERSON, request).await?;
    ensure!(!answer.accepted && answer.reason.contains("report_author_mismatch"), "{answer:#?}");
    let last = stage.ended(&coordinator.run_id).await?;
    ensure!(last.failure == "report_author_mismatch", "{last:#?}");
    ensure!(stage.caused_by(&coordinator.run_id, 0).await?.is_empty());
    let metrics = stage.deployment.planner.get("/metrics").await?;
    ensure!(metrics.contains(r#"surety_task_alerts_total{reason="chain_bound"}"#), "{metrics}");

    // The task of the infrastructure is accepted without a report, and makes no other.
    let infra = caused.iter().find(|task| task.action_type == "infrastructure_failure");
    let infra = infra.context("no task of the infrastructure")?;
    let agent = stage.agent(OTHER)?;
    let work = agent.work(&infra.run_id).await?;
    let done = json!({"action": "done", "goal_check": "The forge answers."}).to_string();
    agent.submit(&work, &done).await?;
    let ended = stage.ended(&infra.run_id).await?;
    ensure!(ended.outcome == "accepted", "{ended:#?}");
    no_mail(&stage).await?;
    stage.deployment.finish().await
}
