//! An executor that dies while a lease or its own row changes: in a takeover, a release, a
//! registration, and during its work beside another one.

use super::QUICK;
use super::points::order;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, PATIENCE, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use tempfile::TempDir;
use uuid::Uuid;

pub(super) const OF_TAKE_OVERS: [&str; 2] =
    ["executor.before_take_over", "executor.after_take_over"];
pub(super) const OF_DRAINS: [&str; 4] = [
    "executor.before_give_back",
    "executor.after_give_back",
    "executor.before_retire",
    "executor.after_retire",
];
pub(super) const OF_UNREADABLE: [&str; 2] = ["executor.before_let_go", "executor.after_let_go"];
/// Places in the work on a run.
const AT_WORK: [&str; 8] = [
    "executor.before_claim",
    "executor.after_claim",
    "executor.after_intent",
    "executor.after_effect",
    "executor.before_output",
    "executor.after_output",
    "committer.before_write",
    "committer.after_write",
];

/// Starts an executor that dies at a place, and nothing else.
async fn dies_at(deployment: &mut Deployment, point: &str) -> Result<()> {
    deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
    killed(deployment, point).await
}

/// Waits until the only executor was killed, as by its own hand.
async fn killed(deployment: &mut Deployment, point: &str) -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    let end = deployment.first_executor()?.wait_for_exit().await;
    let end = end.with_context(|| format!("{point} is not passed"))?;
    ensure!(end.signal() == Some(Signal::SIGKILL as i32), "{point}: {end}");
    deployment.executors.clear();
    Ok(())
}

async fn done(deployment: &Deployment, run_id: &str, point: &str) -> Result<()> {
    let run = deployment.wait_for_end(run_id).await.with_context(|| point.to_owned())?;
    ensure!(run.state() == v1::RunState::Done, "{point}: {run:#?}");
    Ok(())
}

#[tokio::test]
async fn an_executor_that_dies_taking_over_is_taken_over_from_in_its_turn() -> Result<()> {
    for point in OF_TAKE_OVERS {
        let trail = Trail::new()?;
        let mut deployment = Deployment::start_with(&QUICK).await?;
        let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
        let run = deployment.create_run(script::repeatable(script::request(&waits, ""))).await?;
        wait_until("the command began", || trail.marks("began") == 1).await?;
        deployment.first_executor()?.kill().await?;
        deployment.executors.clear();
        dies_at(&mut deployment, point).await?;
        assert_eq!(trail.marks("began"), 1, "{point}: it died before it began");
        deployment.add_executor(&[]).await?;
        wait_until("another took it up", || trail.marks("began") == 2).await?;
        trail.let_go()?;
        done(&deployment, &run.id, point).await?;
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

/// Gives an executor a run that it does not know of, as a take-over leaves it that was committed
/// while its answer was lost on the way.
async fn give(pool: &PgPool, run: &str, executor: &str) -> Result<()> {
    let given = "update execution
                 set lease_owner = $1, lease_epoch = lease_epoch + 1, version = version + 1
                 where run_id = $2 and lease_owner is null";
    let (executor, run) = (Uuid::parse_str(executor)?, Uuid::parse_str(run)?);
    let given = sqlx::query(given).bind(executor).bind(run).execute(pool).await?;
    assert_eq!(given.rows_affected(), 1);
    Ok(())
}

#[tokio::test]
async fn an_executor_that_dies_leaving_keeps_nothing_from_the_next() -> Result<()> {
    for point in OF_DRAINS {
        // It beats once, so that the lease stays unknown to it until it leaves.
        let deaf = [
            ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "600000"),
            ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "60000"),
            ("SURETY_EXECUTOR_SLOTS", "1"),
            ("SURETY_CRASH_POINT", point),
        ];
        let trail = Trail::new()?;
        let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
        deployment.add_executor(&deaf).await?;
        let pool = deployment.database.pool().await?;
        let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
        let busy = deployment.create(&waits, "").await?;
        wait_until("the command began", || trail.marks("began") == 1).await?;
        let lease = deployment.run(&busy.id).await?.lease.context("the run is leased")?;
        let other = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
        let executor = deployment.first_executor()?;
        executor.signal(Signal::SIGTERM)?;
        executor.wait_for_line(|line| line.contains("shutting down")).await?;
        give(&pool, &other.id, &lease.executor_id).await?;
        trail.let_go()?;
        killed(&mut deployment, point).await?;
        deployment.add_executor(&[]).await?;
        for run in [busy, other] {
            done(&deployment, &run.id, point).await?;
        }
        assert_eq!(trail.marks("began"), 1, "{point}");
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_executor_that_dies_while_it_releases_an_unreadable_run_affects_no_other() -> Result<()>
{
    for point in OF_UNREADABLE {
        let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
        let pool = deployment.database.pool().await?;
        let quick = plan(&[step("only", &[], &[noop()])]);
        let spoilt = deployment.create(&quick, "").await?;
        let id = Uuid::parse_str(&spoilt.id)?;
        let read = "select progress::text from execution where run_id = $1";
        let whole: String = sqlx::query_scalar(read).bind(id).fetch_one(&pool).await?;
        let written = "update execution set progress = $2::json where run_id = $1";
        sqlx::query(written).bind(id).bind("[]").execute(&pool).await?;
        dies_at(&mut deployment, point).await?;
        deployment.add_executor(&[]).await?;
        let run = deployment.create(&quick, "").await?;
        done(&deployment, &run.id, point).await?;
        sqlx::query(written).bind(id).bind(&whole).execute(&pool).await?;
        deployment.add_executor(&[]).await?;
        done(&deployment, &spoilt.id, point).await?;
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

/// Makes runs until the last executor has died, which shares them with the others.
async fn until_one_died(
    deployment: &mut Deployment,
    trail: &Trail,
    point: &str,
) -> Result<Vec<(v1::Run, TempDir)>> {
    let deadline = Instant::now() + PATIENCE;
    let mut runs = Vec::new();
    while !deployment.executors.last_mut().context("an executor")?.has_ended()? {
        ensure!(Instant::now() < deadline, "{point} is not passed");
        let workspace = tempfile::tempdir()?;
        let order = order(trail, point, &workspace.path().to_string_lossy());
        runs.push((deployment.create_run(order).await?, workspace));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(runs)
}

#[tokio::test]
async fn an_executor_beside_one_that_dies_takes_over_by_itself() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    for point in AT_WORK {
        deployment.add_executor(&[("SURETY_CRASH_POINT", point)]).await?;
        let runs = until_one_died(&mut deployment, &trail, point).await?;
        deployment.executors.truncate(1);
        assert!(!runs.is_empty(), "{point}");
        for (run, workspace) in &runs {
            done(&deployment, &run.id, point).await?;
            let found = std::fs::read_to_string(workspace.path().join("a.txt"))?;
            assert_eq!(found, "two\n", "{point}");
        }
        let marks = trail.marks(point);
        assert!((runs.len()..=2 * runs.len()).contains(&marks), "{point}: {marks} commands");
    }
    deployment.finish_at_rest().await.map(drop)
}
