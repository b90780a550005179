//! Processes that are killed between a text on the forge and its receipt: it is there once.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_e2e::agent::{AGENT, call};
use surety_e2e::harness::PATIENCE;
use surety_e2e::toolchain::{LOGIN, OnForge, REPO};
use uuid::Uuid;

/// After the planner took it, once it is written, and once its receipt is stored.
const OF_PLANNER: [&str; 3] = [
    "planner.after_take_escalation",
    "planner.before_escalation_receipt",
    "planner.after_escalation_receipt",
];
/// Before the tool wrote, and after it.
const OF_EXECUTOR: [&str; 2] = ["executor.after_intent", "executor.after_effect"];

/// The address of what was written about a task, once it is stored.
async fn receipt(pool: &PgPool, run_id: &str) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    let run_id: Uuid = run_id.parse()?;
    loop {
        let found: Option<(String, String)> =
            sqlx::query_as("select state, address from escalation where run_id = $1")
                .bind(run_id)
                .fetch_optional(pool)
                .await?;
        match found {
            Some((state, address)) if state == "done" => return Ok(address),
            other => ensure!(Instant::now() < deadline, "no receipt in time: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_planner_that_is_killed_around_a_comment_leaves_one_comment_and_its_receipt() -> Result<()>
{
    let mut on = OnForge::start_with(&[]).await?;
    let pool = on.stage.deployment.database.pool().await?;
    for point in OF_PLANNER {
        let branch = format!("fix/{}", point.replace('.', "-"));
        let number = on.opened(LOGIN, &branch)?;
        on.double.change(|state| state.review(REPO, "alice", (number, "REQUEST_CHANGES", "No.")));
        let run_id = on.submitted("pull_request_rejected", &on.about("reviewed", number)?).await?;
        on.stage.deployment.replace_planner_with(&[("SURETY_CRASH_POINT", point)]).await?;
        // A push is claimed that did not happen. The call may end with its planner.
        drop(on.stage.report(AGENT, &run_id, "Pushed src/list.rs, CI run 5 passed.").await);
        let end = on.stage.deployment.planner.wait_for_exit().await.context(point)?;
        ensure!(!end.success(), "{point}: {end:?}");
        // As if the dead planner's time for what it took had passed.
        sqlx::query("update escalation set next_attempt_at = noted_at where state = 'due'")
            .execute(&pool)
            .await?;
        on.stage.deployment.replace_planner().await?;
        let address = receipt(&pool, &run_id).await.context(point)?;
        ensure!(address.contains("issuecomment"), "{point}: {address}");
        let mark = format!("<!-- surety:run={run_id} -->");
        let own = on.comments(number).into_iter().filter(|it| it.author == "surety");
        let bodies: Vec<String> = own.map(|it| it.body).collect();
        ensure!(bodies.len() == 1 && bodies[0].contains(&mark), "{point}: {bodies:#?}");
        let caused = on.stage.caused_by(&run_id, 1).await?;
        ensure!(caused.len() == 1, "{point}: {caused:#?}");
        let said = on.stage.history(&run_id).await?;
        let receipts = said.iter().filter(|it| it.starts_with("The comment was"));
        let receipts: Vec<&String> = receipts.collect();
        ensure!(receipts == [&format!("The comment was written: {address}")], "{point}: {said:#?}");
    }
    pool.close().await;
    on.stage.deployment.finish().await
}

#[tokio::test]
async fn an_executor_that_is_killed_around_a_comment_of_an_agent_leaves_one_comment() -> Result<()>
{
    let mut on = OnForge::start_with(&[("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000")]).await?;
    on.stage.put(AGENT, &[("gitea", LOGIN)], &["developer", "reviewer"]).await?;
    for point in OF_EXECUTOR {
        let branch = format!("alice/{}", point.replace('.', "-"));
        let number = on.opened("alice", &branch)?;
        let mut body = on.about("opened", number)?;
        body["sender"]["login"] = json!("alice");
        on.stage.deployment.first_executor()?.kill().await?;
        on.stage.deployment.executors.clear();
        on.stage.deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
        let run_id = on.submitted("pull_request", &body).await?;
        let work = on.stage.agent(AGENT)?.work(&run_id).await?;
        let comment = call("forge_comment", json!({"body": "I look at it."}));
        // The call may end with its executor.
        drop(on.stage.agent(AGENT)?.submit(&work, &comment.to_string()).await);
        let end = on.stage.deployment.first_executor()?.wait_for_exit().await.context(point)?;
        ensure!(!end.success(), "{point}: {end:?}");
        on.stage.deployment.executors.clear();
        on.stage.deployment.add_executor(&[]).await?;
        let next = on.stage.agent(AGENT)?.work(&run_id).await.context(point)?;
        let comments = on.comments(number);
        let [comment] = comments.as_slice() else { anyhow::bail!("{point}: {comments:#?}") };
        ensure!(comment.author == LOGIN, "{point}: {comment:#?}");
        // The next turn sees the call with its result.
        let shown = format!("{:?}", next.context);
        ensure!(shown.contains("forge_comment"), "{point}: {shown}");
        on.double.change(|state| state.review(REPO, LOGIN, (number, "APPROVE", "")));
        let (accepted, ended) = on.reported(&run_id, "Reviewed, approved.").await?;
        ensure!(accepted, "{point}: {ended:#?}");
    }
    on.stage.deployment.finish().await
}
