//! The credentials of forges reach the forges, and nothing that is stored, logged or answered, however a forge fails.

use crate::git_workspace::served;
use crate::secrets::tables;
use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_e2e::agent::{AGENT, Work, call};
use surety_e2e::forge::{Failure, ForgeDouble};
use surety_e2e::harness::PATIENCE;
use surety_e2e::toolchain::{LOGIN, OnForge, REPO};
use uuid::Uuid;

/// A token that the forge does not know.
const WRONG: &str = "c4nary-of-no-account-7zQ9";

/// Where the credential of an account is looked for: as it is, in a column of bytes, and as git sends it.
fn forms(secret: &str) -> [String; 3] {
    let bytes = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    [secret.to_owned(), bytes, STANDARD.encode(format!("x-access-token:{secret}"))]
}

/// Waits until an attempt to write about a task has failed.
async fn refused_once(pool: &PgPool, run_id: &str) -> Result<()> {
    let run_id: Uuid = run_id.parse()?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error: Option<String> =
            sqlx::query_scalar("select error from escalation where run_id = $1 and error <> ''")
                .bind(run_id)
                .fetch_optional(pool)
                .await?;
        if error.is_some() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "no attempt failed in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A task while every call to the forge fails: its context, the agent's tools and the gate.
async fn everything_fails(on: &OnForge, failure: &Failure, said: &mut String) -> Result<String> {
    let number = on.opened("alice", &format!("alice/{}", Uuid::now_v7().simple()))?;
    let mut body = on.about("opened", number)?;
    body["sender"]["login"] = json!("alice");
    on.double.fail("*", failure.clone(), (0, 100_000));
    let run_id = on.submitted("pull_request", &body).await?;
    let agent = on.stage.agent(AGENT)?;
    let work = agent.work(&run_id).await?;
    let read = call("forge_get", json!({"what": "diff"}));
    let answer = agent.submit(&work, &read.to_string()).await?;
    said.push_str(&format!("{answer:?}"));
    // A write that may have been written is repeated until its time ends, so only a clear refusal is asked for here.
    if matches!(failure, Failure::Status(401 | 403)) {
        let work = Work { context: answer.next.context("the next turn")?, ..work };
        let write = call("forge_comment", json!({"body": "See the review."}));
        said.push_str(&format!("{:?}", agent.submit(&work, &write.to_string()).await?));
    }
    let (accepted, ended) = on.reported(&run_id, "Reviewed #1: changes requested.").await?;
    ensure!(!accepted && ended.failure_class == "infrastructure", "{failure:?}: {ended:#?}");
    on.double.heal();
    Ok(run_id)
}

/// A task whose failure cannot be written on the forge.
async fn comment_fails(on: &OnForge, failure: &Failure, pool: &PgPool) -> Result<String> {
    let number = on.opened(LOGIN, &format!("fix/{}", Uuid::now_v7().simple()))?;
    let review = (number, "REQUEST_CHANGES", "Add a test.");
    on.double.change(|state| state.review(REPO, "alice", review));
    let run_id = on.submitted("pull_request_rejected", &on.about("reviewed", number)?).await?;
    on.double.fail("add_comment", failure.clone(), (0, 100_000));
    let (accepted, ended) = on.reported(&run_id, "Changed src/list.rs and pushed.").await?;
    ensure!(!accepted && ended.failure == "steps_ignored", "{failure:?}: {ended:#?}");
    refused_once(pool, &run_id).await?;
    on.double.heal();
    Ok(run_id)
}

/// The credential of the agent is none that the server of the repositories knows.
async fn clone_fails(on: &OnForge) -> Result<String> {
    std::fs::write(on.double.account(LOGIN)?, WRONG)?;
    let number = on.opened(LOGIN, "fix/denied")?;
    let review = (number, "REQUEST_CHANGES", "Add a test.");
    on.double.change(|state| state.review(REPO, "alice", review));
    let run_id = on.submitted("pull_request_rejected", &on.about("reviewed", number)?).await?;
    let ended = on.stage.ended(&run_id).await?;
    ensure!(ended.failure == "workspace_unavailable", "{ended:#?}");
    Ok(run_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_in_no_row_no_log_and_no_answer_however_the_forge_fails() -> Result<()> {
    let double = ForgeDouble::start().await?;
    double.account(LOGIN)?;
    let user = format!("x-access-token:{}", double.token(LOGIN).context("a token")?);
    let repositories = served::Forge::start(double.repositories(), &[user]).await?;
    let environment =
        [("SURETY_EXECUTOR_REPOSITORIES", repositories.address.as_str()), ("SURETY_LOG", "debug")];
    let setting = format!("clone_url = {:?}", repositories.address);
    let on = OnForge::start_on(double, &setting, &environment).await?;
    on.stage.put(AGENT, &[("gitea", LOGIN)], &["developer", "reviewer"]).await?;
    let pool = on.stage.deployment.database.pool().await?;
    let (mut said, mut runs) = (String::new(), Vec::new());
    for failure in [Failure::Status(401), Failure::Status(403), Failure::Status(500), Failure::Cut]
    {
        runs.push(everything_fails(&on, &failure, &mut said).await?);
        runs.push(comment_fails(&on, &failure, &pool).await?);
    }
    runs.push(clone_fails(&on).await?);
    ensure!(repositories.refused() > 0, "the wrong credential was served");
    for login in ["surety", LOGIN] {
        let reached = on.double.calls().iter().any(|call| call.account == login);
        ensure!(reached, "the forge did not get the credential of {login}");
    }

    let shown = on.stage.caused_by(&runs[0], 1).await?;
    said.push_str(&format!("{shown:?}"));
    for run_id in &runs {
        let events = on.stage.deployment.events(run_id).await?;
        let run = on.stage.deployment.run(run_id).await?;
        said.push_str(&format!("{events:?}{run:?}{:?}", on.stage.handed(run_id).await?));
        said.push_str(&on.stage.deployment.command_line(&["task", "show", run_id]).await?);
    }
    let deployment = &on.stage.deployment;
    let processes = || deployment.executors.iter().chain([&deployment.planner, &deployment.gate]);
    let (mut logs, mut metrics) = (String::new(), String::new());
    for process in processes() {
        metrics.push_str(&process.get("/metrics").await?);
        logs.push_str(&process.log().join("\n"));
    }
    ensure!(logs.contains("an escalation cannot be written"), "the failures are not in the logs");
    let mut places = tables(&pool).await?;
    places.extend(
        [("logs", logs), ("metrics", metrics), ("answers and events", said)]
            .map(|(place, text)| (place.to_owned(), text)),
    );
    let known = ["surety", LOGIN].map(|login| on.double.token(login));
    for secret in known.into_iter().flatten().chain([WRONG.to_owned()]) {
        for form in forms(&secret) {
            let found = places.iter().find(|(_, text)| text.contains(&form));
            ensure!(found.is_none(), "a credential is in {:?}", found.map(|(place, _)| place));
        }
    }
    pool.close().await;
    on.stage.deployment.finish().await
}
