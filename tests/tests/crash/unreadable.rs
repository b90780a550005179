//! A run whose row cannot be decoded: no process can work on it, and it does not block other runs.

use super::QUICK;
use anyhow::{Context, Result, ensure};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_common::wire::value::whole_seconds;
use surety_e2e::harness::{Database, Deployment, PATIENCE, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use uuid::Uuid;

async fn progress(pool: &PgPool, run_id: Uuid, value: &str) -> Result<()> {
    let written = "update execution set progress = $2::json where run_id = $1";
    sqlx::query(written).bind(run_id).bind(value).execute(pool).await?;
    Ok(())
}

async fn progress_of(pool: &PgPool, run_id: Uuid) -> Result<String> {
    let read = "select progress::text from execution where run_id = $1";
    Ok(sqlx::query_scalar(read).bind(run_id).fetch_one(pool).await?)
}

/// Waits for this number of further heartbeats of the only executor.
async fn beats(pool: &PgPool, more: usize) -> Result<()> {
    let beaten = "select max(heartbeat_at) from executor";
    let deadline = Instant::now() + PATIENCE;
    let mut last: Option<DateTime<Utc>> = None;
    let mut seen = 0;
    while seen <= more {
        let now = sqlx::query_scalar(beaten).fetch_one(pool).await?;
        seen += usize::from(now != last);
        last = now;
        ensure!(Instant::now() < deadline, "the executor sends no more heartbeats");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// When an executor last scanned for waiting runs.
async fn scanned_at(pool: &PgPool) -> Result<Option<DateTime<Utc>>> {
    let scanned = "select max(query_start) from pg_stat_activity
                  where datname = current_database()
                    and (query like '-- Leases runs%' or query like '-- Lists queues%')";
    Ok(sqlx::query_scalar(scanned).fetch_one(pool).await?)
}

fn log_lines_about(deployment: &Deployment, run_id: &str) -> Result<usize> {
    let log = deployment.executors.first().context("no executor")?.log();
    let about = |line: &&String| line.contains("cannot be read") && line.contains(run_id);
    Ok(log.iter().filter(about).count())
}

#[tokio::test]
async fn an_unreadable_run_is_logged_once_and_does_not_block_the_only_slot() -> Result<()> {
    let one = [QUICK[0], QUICK[1], ("SURETY_EXECUTOR_SLOTS", "1")];
    let mut deployment = Deployment::start_idle(Database::create().await?, &one).await?;
    let pool = deployment.database.pool().await?;
    let quick = plan(&[step("only", &[], &[noop()])]);
    let unreadable = deployment.create(&quick, "").await?;
    let id = Uuid::parse_str(&unreadable.id)?;
    let whole = progress_of(&pool, id).await?;
    progress(&pool, id, r#"{"rounds": "many"}"#).await?;
    deployment.add_executor(&[]).await?;
    for _ in 0..2 {
        let run = deployment.create(&quick, "").await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    let row = "select version, lease_owner, ready_at is not null from execution where run_id = $1";
    let look = || sqlx::query_as::<_, (i64, Option<Uuid>, bool)>(row).bind(id).fetch_one(&pool);
    let before = look().await?;
    assert_eq!((before.1, before.2), (None, true), "it is not leased, and it still waits");
    beats(&pool, 5).await?;
    let scanned = scanned_at(&pool).await?.context("a claim")?;
    beats(&pool, 5).await?;
    assert_eq!(scanned_at(&pool).await?, Some(scanned), "it was claimed with every heartbeat");
    assert_eq!(look().await?, before, "it was claimed repeatedly");
    assert_eq!(log_lines_about(&deployment, &unreadable.id)?, 1);
    let list = v1::ListRunsRequest::default();
    assert_eq!(deployment.runs()?.list_runs(list).await?.into_inner().runs.len(), 2);
    progress(&pool, id, &whole).await?;
    deployment.add_executor(&[]).await?;
    let run = deployment.wait_for_end(&unreadable.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn an_unreadable_run_past_its_deadline_does_not_block_the_end_of_another() -> Result<()> {
    let deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    let pool = deployment.database.pool().await?;
    let short = || v1::CreateRunRequest {
        limits: Some(v1::Limits { run_deadline: Some(whole_seconds(1)), ..v1::Limits::default() }),
        ..script::request(&plan(&[step("only", &[], &[noop()])]), "")
    };
    let unreadable = deployment.create_run(short()).await?;
    let id = Uuid::parse_str(&unreadable.id)?;
    let whole = progress_of(&pool, id).await?;
    progress(&pool, id, "[]").await?;
    let other = deployment.create_run(short()).await?;
    let other = deployment.wait_for_end(&other.id).await?;
    let terminal = other.terminal.unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::DeadlineExceeded, "{terminal:#?}");
    let said = |line: &str| line.contains("skipped for a while") && line.contains(&unreadable.id);
    deployment.planner.wait_for_line(said).await?;
    progress(&pool, id, &whole).await?;
    deployment.finish().await
}

#[tokio::test]
async fn an_unreadable_run_of_a_dead_executor_does_not_block_the_takeover_of_another() -> Result<()>
{
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let pool = deployment.database.pool().await?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
        runs.push(deployment.create(&waits, "").await?);
    }
    wait_until("the commands began", || trail.marks("began") == 2).await?;
    deployment.first_executor()?.kill().await?;
    deployment.executors.clear();
    let [unreadable, other] = runs.as_slice() else { anyhow::bail!("two runs were made") };
    let id = Uuid::parse_str(&unreadable.id)?;
    let whole = progress_of(&pool, id).await?;
    progress(&pool, id, "[]").await?;
    deployment.add_executor(&[("SURETY_EXECUTOR_SLOTS", "1")]).await?;
    // The possible effects of the dead executor need an answer.
    deployment.question(&other.id).await?;
    beats(&pool, 5).await?;
    assert_eq!(log_lines_about(&deployment, &unreadable.id)?, 1);
    progress(&pool, id, &whole).await?;
    deployment.add_executor(&[]).await?;
    deployment.question(&unreadable.id).await?;
    deployment.finish().await
}
