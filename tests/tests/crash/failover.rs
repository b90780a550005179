//! A primary that is lost for good: its replica takes its place, and the services follow by the
//! list of addresses they were given.

use super::skip;
use super::traffic::Traffic;
use anyhow::{Result, ensure};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Cluster, Database, Deployment, PATIENCE};

/// Waits until `more` runs have ended than before.
pub(super) async fn runs_go_on(pool: &PgPool, more: i64) -> Result<()> {
    let ended = async || -> Result<i64> {
        // Before the first service came there is no schema.
        let there = "select to_regclass('execution') is not null";
        if !sqlx::query_scalar(there).fetch_one(pool).await? {
            return Ok(0);
        }
        let count = "select count(*) from execution where terminal is not null";
        Ok(sqlx::query_scalar(count).fetch_one(pool).await?)
    };
    let before = ended().await?;
    let deadline = Instant::now() + PATIENCE;
    while ended().await? < before + more {
        ensure!(Instant::now() < deadline, "no run ended any more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_services_follow_from_a_lost_primary_to_its_replica() -> Result<()> {
    let mut primary = Cluster::start().await?;
    let Some(mut replica) = primary.replica().await? else {
        skip("a replica takes its primary's place", "pg_basebackup is not installed");
        return Ok(());
    };
    let (first, second) = (primary.url()?, replica.url()?);
    let database = Database::behind(&first, &second)?;
    let mut deployment = Deployment::start_idle(database, &super::QUICK).await?;
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    let traffic = Traffic::start(&deployment, 3);
    runs_go_on(&PgPool::connect(&first).await?, 8).await?;
    primary.crash().await?;
    replica.promote().await?;
    let pool = PgPool::connect(&second).await?;
    runs_go_on(&pool, 8).await?;
    // A process that starts now finds the one that is left.
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    runs_go_on(&pool, 4).await?;
    let runs = traffic.end().await?;
    let audited = audit_at_rest(&pool).await?;
    println!("{runs} runs ended by their clients; audited {audited:?}");
    drop(deployment);
    pool.close().await;
    replica.stop().await
}
