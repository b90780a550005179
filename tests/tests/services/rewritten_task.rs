//! The history of a task that a superuser rewrites before the verdict, and keys that are trusted once they are pinned.

use super::rewritten_evidence::{refused, rewrite, signatures, verified};
use super::signed_evidence::{Files, start};
use anyhow::{Context, Result, ensure};
use sqlx::PgPool;
use std::path::Path;
use std::time::{Duration, Instant};
use surety_common::domain::signature::{Service as Signer, SignatureStatus, check_export};
use surety_common::keys::read_trusted_keys;
use surety_common::wire::client::channel;
use surety_common::wire::v1;
use surety_common::wire::v1::toolchain_service_client::ToolchainServiceClient;
use surety_e2e::agent::AGENT;
use surety_e2e::harness::{Deployment, PATIENCE, token};
use surety_e2e::timestamp_authority::TimestampAuthority;
use surety_e2e::toolchain::{LOGIN, issue};
use uuid::Uuid;

const RESTORED: &str = "update task_entry set body = replace(body, ' Or not.', '')
                        where run_id = $1 and number = 1";

/// The run of a new task with a note in its history.
async fn noted(deployment: &Deployment) -> Result<String> {
    let mut tasks =
        ToolchainServiceClient::new(channel(&deployment.planner.url(), Some(&token()?))?);
    let account = v1::ForgeAccount { forge: "gitea".to_owned(), login: LOGIN.to_owned() };
    let agent = v1::Agent {
        id: AGENT.to_owned(),
        accounts: vec![account],
        roles: vec!["developer".to_owned()],
        ..v1::Agent::default()
    };
    tasks.put_agent(v1::PutAgentRequest { agent: Some(agent) }).await?;
    let event = v1::SubmitEventRequest {
        forge: "gitea".to_owned(),
        event: "issues".to_owned(),
        body_json: issue(7, LOGIN).to_string(),
    };
    let answer = tasks.submit_event(event).await?.into_inner();
    let run_id = answer.tasks.first().context("a task")?.run_id.clone();
    let note = v1::AddTaskEntryRequest {
        run_id: run_id.clone(),
        body: "I begin with src/list.rs.".to_owned(),
        ..v1::AddTaskEntryRequest::default()
    };
    tasks.add_task_entry(note).await?;
    Ok(run_id)
}

/// Waits until the planner has written how the task ended: the entry behind the note and the report.
async fn ended_in_history(pool: &PgPool, run_id: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let count = "select count(*) from task_entry where run_id = $1 and number = 3";
    while sqlx::query_scalar::<_, i64>(count).bind(run_id.parse::<Uuid>()?).fetch_one(pool).await?
        == 0
    {
        ensure!(
            Instant::now() < deadline,
            "the history of task {run_id} does not say how it ended"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn report(deployment: &Deployment, run_id: &str) -> Result<()> {
    let channel = channel(&deployment.planner.url(), Some(&token()?))?;
    let request = v1::SubmitActionReportRequest {
        run_id: run_id.to_owned(),
        report: "Changed src/list.rs; CI run 12 passed; opened #8.".to_owned(),
        ..v1::SubmitActionReportRequest::default()
    };
    ToolchainServiceClient::new(channel).submit_action_report(request).await?;
    Ok(())
}

#[tokio::test]
async fn the_gate_gives_no_verdict_on_a_task_whose_history_was_rewritten() -> Result<()> {
    let files = Files::new()?;
    let authority = TimestampAuthority::start(&[]).await?;
    let deployment = start(&files, &authority).await?;
    let pool = deployment.database.pool().await?;
    let run_id = noted(&deployment).await?;
    let signed = signatures(&deployment, &run_id).await?;
    ensure!(signed.state() == v1::SignatureState::Signed, "{signed:#?}");

    rewrite(&pool, "update task set payload = payload || ' ' where run_id = $1", &run_id).await?;
    let (reported, is_refused) =
        tokio::join!(report(&deployment, &run_id), refused(&deployment, &run_id, "task.payload"));
    reported?;
    is_refused?;
    let broken = signatures(&deployment, &run_id).await?;
    ensure!(broken.state() == v1::SignatureState::Broken, "{broken:#?}");
    ensure!(broken == verified(&deployment, &run_id).await?, "{broken:#?}");
    let restored = "update task set payload = rtrim(payload) where run_id = $1";
    rewrite(&pool, restored, &run_id).await?;

    let changed =
        "update task_entry set body = body || ' Or not.' where run_id = $1 and number = 1";
    rewrite(&pool, changed, &run_id).await?;
    let shown = deployment.command_line(&["show", &run_id]).await?;
    ensure!(shown.contains("broken: task entry 1: it is not what was signed"), "{shown}");

    rewrite(&pool, RESTORED, &run_id).await?;

    // The report is bound by the row that took it.
    let kept = "create table kept_entry as select * from task_entry";
    sqlx::query(kept).execute(&pool).await?;
    rewrite(&pool, "delete from task_entry where run_id = $1 and number = 2", &run_id).await?;
    let broken = signatures(&deployment, &run_id).await?;
    ensure!(broken.detail.contains("its report was taken with 2 entries"), "{broken:#?}");
    let again = "insert into task_entry overriding system value
                 select * from kept_entry where run_id = $1 and number = 2";
    rewrite(&pool, again, &run_id).await?;

    // What was signed is there again: the gate decides.
    let resume = v1::ResumeRunRequest { run_id: run_id.clone(), ..Default::default() };
    deployment.runs()?.resume_run(resume).await?;
    let ended = deployment.wait_for_end(&run_id).await?;
    let reason = ended.terminal.as_ref().map(v1::Terminal::stop_reason);
    ensure!(reason == Some(v1::StopReason::Accepted), "{ended:#?}");
    let lines = deployment.command_line(&["receipts", "export", &run_id]).await?;
    let checked = check_export(&lines, Some(&files.trusted()?));
    ensure!(checked.status == SignatureStatus::Signed, "{checked:#?}");
    ensure!(lines.contains("{\"entry\":") && lines.contains("{\"task\":"), "{lines}");
    ended_in_history(&pool, &run_id).await?;
    // A deleted tail is named by the verdict, which names the entries that it read.
    let deleted = "with gone as (delete from task_entry where run_id = $1 and number > 1)
                   update task set waiting_for = '' where run_id = $1";
    rewrite(&pool, deleted, &run_id).await?;
    let broken = signatures(&deployment, &run_id).await?;
    ensure!(broken.detail.contains("it rests on 2 entries of the task"), "{broken:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_registered_key_is_trusted_once_it_is_pinned() -> Result<()> {
    let files = Files::new()?;
    let authority = TimestampAuthority::start(&[]).await?;
    let deployment = start(&files, &authority).await?;
    let known = files.trusted()?;
    let folder = tempfile::tempdir()?;
    let trusted = folder.path().join("pinned.json");
    let file = trusted.to_string_lossy().into_owned();
    let database = deployment.database.url().to_owned();
    let place = ["--database-url", &database, "--trusted-keys-file", &file];
    let keys = async |words: &[&str]| -> Result<String> {
        deployment.command_line(&[&["keys"], words, &place].concat()).await
    };
    // Each service registers its key in the background.
    let deadline = Instant::now() + PATIENCE;
    let listed = loop {
        let listed = keys(&["list"]).await?;
        if listed.lines().filter(|line| line.ends_with("registered only")).count() == 3 {
            break listed;
        }
        ensure!(Instant::now() < deadline, "not every service registered its key: {listed}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    ensure!(!Path::new(&file).exists(), "a list trusts nothing");
    // One is registered for another service too: the person who compared the id says for which.
    let pool = deployment.database.pool().await?;
    let registered_long_ago = "update signing_key set valid_from = valid_from - interval '2 hours'";
    sqlx::query(registered_long_ago).execute(&pool).await?;
    let twice = "insert into signing_key select key_id, 'gate', public_key, valid_from from signing_key \
                 where service = 'executor'";
    sqlx::query(twice).execute(&pool).await?;
    let executor = known.keys().iter().find(|key| key.service == Signer::Executor);
    let id = executor.context("the key of the executor")?.key.id().to_string();
    let refused = format!("{:?}", keys(&["pin", &id]).await);
    ensure!(refused.contains("for several services: executor, gate"), "{refused}");
    keys(&["pin", &id, "--service", "executor"]).await?;
    sqlx::query(
        "delete from signing_key where service = 'gate' and key_id in \
                 (select key_id from signing_key where service = 'executor')",
    )
    .execute(&pool)
    .await?;
    for key in known.keys().iter().filter(|key| listed.contains(&key.key.id().to_string())) {
        let id = key.key.id().to_string();
        let pinned = keys(&["pin", &id]).await?;
        ensure!(pinned.contains(&format!("trusted  {id}  {}", key.service)), "{pinned}");
    }
    let pinned = read_trusted_keys(&trusted)?;
    let ids = |keys: &surety_common::domain::signature::TrustedKeys| {
        let ids = keys.keys().iter().map(|key| (key.service, key.key.id().to_string()));
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    ensure!(ids(&pinned) == ids(&known), "{pinned:?}");
    let an_hour_ago = chrono::Utc::now() - chrono::TimeDelta::hours(1);
    ensure!(
        pinned.keys().iter().all(|key| key.valid_from < an_hour_ago),
        "since it signs: {pinned:?}"
    );
    let refused = keys(&["pin", "00112233445566778899aabbccddeeff"]).await;
    ensure!(refused.is_err(), "a key that no service registered: {refused:?}");
    deployment.finish().await
}
