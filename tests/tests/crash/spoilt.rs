//! A run whose row does not read: nobody can work on it, and it keeps nobody from working.

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

/// Waits until the only executor has beaten so often more.
async fn beats(pool: &PgPool, more: usize) -> Result<()> {
    let beaten = "select max(heartbeat_at) from executor";
    let deadline = Instant::now() + PATIENCE;
    let mut last: Option<DateTime<Utc>> = None;
    let mut seen = 0;
    while seen <= more {
        let now = sqlx::query_scalar(beaten).fetch_one(pool).await?;
        seen += usize::from(now != last);
        last = now;
        ensure!(Instant::now() < deadline, "the executor beats no more");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// When an executor last looked for runs that wait.
async fn looked_at(pool: &PgPool) -> Result<Option<DateTime<Utc>>> {
    let looked = "select max(query_start) from pg_stat_activity
                  where datname = current_database()
                    and (query like '-- Leases runs%' or query like '-- Lists queues%')";
    Ok(sqlx::query_scalar(looked).fetch_one(pool).await?)
}

fn told(deployment: &Deployment, run_id: &str) -> Result<usize> {
    let log = deployment.executors.first().context("no executor")?.log();
    let about = |line: &&String| line.contains("does not read") && line.contains(run_id);
    Ok(log.iter().filter(about).count())
}

#[tokio::test]
async fn a_spoilt_run_is_told_of_once_and_keeps_no_other_from_its_only_slot() -> Result<()> {
    let one = [QUICK[0], QUICK[1], ("SURETY_EXECUTOR_SLOTS", "1")];
    let mut deployment = Deployment::start_idle(Database::create().await?, &one).await?;
    let pool = deployment.database.pool().await?;
    let quick = plan(&[step("only", &[], &[noop()])]);
    let spoilt = deployment.create(&quick, "").await?;
    let id = Uuid::parse_str(&spoilt.id)?;
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
    assert_eq!((before.1, before.2), (None, true), "nobody holds it, and it still waits");
    beats(&pool, 5).await?;
    let looked = looked_at(&pool).await?.context("a claim")?;
    beats(&pool, 5).await?;
    assert_eq!(looked_at(&pool).await?, Some(looked), "it was asked for with every heartbeat");
    assert_eq!(look().await?, before, "it was taken up again and again");
    assert_eq!(told(&deployment, &spoilt.id)?, 1);
    let list = v1::ListRunsRequest::default();
    assert_eq!(deployment.runs()?.list_runs(list).await?.into_inner().runs.len(), 2);
    progress(&pool, id, &whole).await?;
    deployment.add_executor(&[]).await?;
    let run = deployment.wait_for_end(&spoilt.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_spoilt_run_whose_time_is_over_keeps_no_other_from_its_end() -> Result<()> {
    let deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    let pool = deployment.database.pool().await?;
    let short = || v1::CreateRunRequest {
        limits: Some(v1::Limits { run_deadline: Some(whole_seconds(1)), ..v1::Limits::default() }),
        ..script::request(&plan(&[step("only", &[], &[noop()])]), "")
    };
    let spoilt = deployment.create_run(short()).await?;
    let id = Uuid::parse_str(&spoilt.id)?;
    let whole = progress_of(&pool, id).await?;
    progress(&pool, id, "[]").await?;
    let other = deployment.create_run(short()).await?;
    let other = deployment.wait_for_end(&other.id).await?;
    let terminal = other.terminal.unwrap_or_default();
    assert_eq!(terminal.stop_reason(), v1::StopReason::DeadlineExceeded, "{terminal:#?}");
    let said = |line: &str| line.contains("skipped for a while") && line.contains(&spoilt.id);
    deployment.planner.wait_for_line(said).await?;
    progress(&pool, id, &whole).await?;
    deployment.finish().await
}

#[tokio::test]
async fn a_spoilt_run_of_a_dead_executor_keeps_no_other_from_being_taken_over() -> Result<()> {
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
    let [spoilt, other] = runs.as_slice() else { anyhow::bail!("two runs were made") };
    let id = Uuid::parse_str(&spoilt.id)?;
    let whole = progress_of(&pool, id).await?;
    progress(&pool, id, "[]").await?;
    deployment.add_executor(&[("SURETY_EXECUTOR_SLOTS", "1")]).await?;
    // What the dead one may have done is asked.
    deployment.question(&other.id).await?;
    beats(&pool, 5).await?;
    assert_eq!(told(&deployment, &spoilt.id)?, 1);
    progress(&pool, id, &whole).await?;
    deployment.add_executor(&[]).await?;
    deployment.question(&spoilt.id).await?;
    deployment.finish().await
}
