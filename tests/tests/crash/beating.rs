//! Writing a lease slowly does not delay the heartbeat.

use super::QUICK;
use anyhow::{Context, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{PgPool, Postgres, Transaction};
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, PATIENCE, wait_for_yes, wait_until};
use surety_e2e::script::{self, Trail, plan, shell, step};
use uuid::Uuid;

/// Blocks the commit of each lease of an urgent run while the advisory lock 1 is held.
const HOLD_URGENT: [&str; 2] = [
    "create function hold_lease() returns trigger language plpgsql as
     $$ begin perform pg_advisory_xact_lock_shared(1); return null; end $$",
    "create constraint trigger hold_lease after update on execution
     deferrable initially deferred for each row
     when (new.priority = 7 and new.lease_owner is not null
           and new.lease_owner is distinct from old.lease_owner)
     execute function hold_lease()",
];

/// Makes it hold them.
pub(super) async fn hold(pool: &PgPool) -> Result<Transaction<'static, Postgres>> {
    for statement in HOLD_URGENT {
        sqlx::query(statement).execute(pool).await?;
    }
    let mut holding = pool.begin().await?;
    sqlx::query("select pg_advisory_xact_lock(1)").execute(&mut *holding).await?;
    Ok(holding)
}

/// Waits until a lease hangs.
pub(super) async fn hangs(pool: &PgPool) -> Result<()> {
    let held = "select exists (
        select from pg_locks join pg_database on pg_database.oid = pg_locks.database
        where locktype = 'advisory' and not granted and datname = current_database())";
    wait_for_yes(pool, held).await
}

/// Waits until an executor has beaten for so many seconds, longer than it may be silent.
pub(super) async fn beats_on(pool: &PgPool, executor: Uuid, seconds: i64) -> Result<()> {
    let beaten = "select heartbeat_at from executor where id = $1";
    let beaten = || sqlx::query_scalar::<_, DateTime<Utc>>(beaten).bind(executor).fetch_one(pool);
    let until = beaten().await? + TimeDelta::seconds(seconds);
    let deadline = Instant::now() + PATIENCE;
    while beaten().await? < until {
        ensure!(Instant::now() < deadline, "the executor beats no more");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// A run of one command that waits, of a priority.
pub(super) fn order(trail: &Trail, name: &str, priority: i32) -> v1::CreateRunRequest {
    let call = shell(&trail.mark_and_wait(name));
    let request = script::request(&plan(&[step("only", &[], &[call])]), "");
    script::repeatable(v1::CreateRunRequest { priority, ..request })
}

pub(super) async fn owner(deployment: &Deployment, run_id: &str) -> Result<Uuid> {
    let lease = deployment.run(run_id).await?.lease.context("the run is leased")?;
    Ok(Uuid::parse_str(&lease.executor_id)?)
}

/// While one lease of an executor hangs, another executor does not take over its runs.
async fn stays_alive(
    mut deployment: Deployment,
    trail: &Trail,
    [calm, urgent]: [v1::Run; 2],
    holding: Transaction<'static, Postgres>,
) -> Result<()> {
    let pool = deployment.database.pool().await?;
    let before = owner(&deployment, &calm.id).await?;
    hangs(&pool).await?;
    deployment.add_executor(&[]).await?;
    beats_on(&pool, before, 4).await?;
    assert_eq!(owner(&deployment, &calm.id).await?, before, "a living executor lost its run");
    assert_eq!(trail.marks("calm"), 1);
    holding.rollback().await?;
    trail.let_go()?;
    for run in [calm, urgent] {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn an_executor_whose_claim_hangs_is_not_taken_for_dead() -> Result<()> {
    let trail = Trail::new()?;
    let deployment = Deployment::start_with(&QUICK).await?;
    let calm = deployment.create_run(order(&trail, "calm", 0)).await?;
    wait_until("the command began", || trail.marks("calm") == 1).await?;
    let holding = hold(&deployment.database.pool().await?).await?;
    let urgent = deployment.create_run(order(&trail, "urgent", 7)).await?;
    stays_alive(deployment, &trail, [calm, urgent], holding).await
}

#[tokio::test]
async fn an_executor_whose_take_over_hangs_is_not_taken_for_dead() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    deployment.add_executor(&[("SURETY_EXECUTOR_SLOTS", "1")]).await?;
    let urgent = deployment.create_run(order(&trail, "urgent", 7)).await?;
    wait_until("the command began", || trail.marks("urgent") == 1).await?;
    deployment.add_executor(&[]).await?;
    let calm = deployment.create_run(order(&trail, "calm", 0)).await?;
    wait_until("the command began", || trail.marks("calm") == 1).await?;
    let holding = hold(&deployment.database.pool().await?).await?;
    deployment.executors.remove(0).kill().await?;
    stays_alive(deployment, &trail, [calm, urgent], holding).await
}
