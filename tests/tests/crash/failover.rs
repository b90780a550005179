//! A primary that is lost for good: its replica takes its place, and the services follow by the
//! list of addresses they were given.

use super::skip;
use super::traffic::Traffic;
use anyhow::Result;
use sqlx::PgPool;
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Cluster, Database, Deployment};

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
    let mut traffic = Traffic::start(&deployment, 3);
    traffic.goes_on(&PgPool::connect(&first).await?, 8).await?;
    primary.crash().await?;
    replica.promote().await?;
    let pool = PgPool::connect(&second).await?;
    traffic.goes_on(&pool, 8).await?;
    // A process that starts now finds the one that is left.
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    traffic.goes_on(&pool, 4).await?;
    let runs = traffic.end().await?;
    let audited = audit_at_rest(&pool).await?;
    println!("{runs} runs ended by their clients; audited {audited:?}");
    drop(deployment);
    pool.close().await;
    replica.stop().await
}
