//! The smallest usable pool, and more work than connections: a task that held a connection while it
//! waits for another would deadlock. Also a server without free connections.

use super::QUICK;
use super::failover::runs_go_on;
use super::storm::take_connections;
use super::traffic::Traffic;
use anyhow::Result;
use futures::future::try_join_all;
use sqlx::{Connection, PgConnection};
use surety_cli::postgres::{Durability, EmbeddedPostgres};
use surety_common::wire::v1;
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Database, Deployment, Process};
use surety_e2e::script::{Trail, noop, plan, request, scoped, shell, step};

/// One is the listener's; work without a dedicated connection shares the other.
const TWO: [(&str, &str); 1] = [("SURETY_DATABASE_POOL_SIZE", "2")];
/// Runs at once.
const RUNS: usize = 24;

/// Concurrently: a command with a large output, a read, a file.
fn order(trail: &Trail) -> v1::CreateRunRequest {
    let many = "head -c 60000 /dev/zero | tr '\\0' x";
    let call = shell(&format!("{}; {many}", trail.mark("ran")));
    let steps = [
        step("first", &[], &[noop()]),
        scoped(step("left", &["first"], std::slice::from_ref(&call)), &["left/**"]),
        scoped(step("right", &["first"], std::slice::from_ref(&call)), &["right/**"]),
        step("last", &["left", "right"], &[noop(), noop()]),
    ];
    request(&plan(&steps), "")
}

/// A process that had to wait until a connection could not be had any more says so.
fn starved(process: &Process) -> Vec<String> {
    let said =
        ["waiting for the database", "waiting for disk space", "was not written", "pool timed out"];
    let lines = process.log().into_iter();
    lines.filter(|line| said.iter().any(|words| line.contains(words))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn more_work_than_connections_is_queued_without_deadlocks() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &TWO).await?;
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    let trail = Trail::new()?;
    let traffic = Traffic::start(&deployment, 4);
    let made = try_join_all((0..RUNS).map(|_| deployment.create_run(order(&trail)))).await?;
    // Each is watched by its client.
    let ended = try_join_all(made.iter().map(|run| deployment.wait_for_end(&run.id))).await?;
    for run in &ended {
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(trail.marks("ran"), 2 * RUNS, "each command ran once");
    let runs = traffic.end().await?;
    for process in deployment.executors.iter().chain([&deployment.planner, &deployment.gate]) {
        assert_eq!(starved(process), [""; 0]);
    }
    let audited = deployment.finish_at_rest().await?;
    assert_eq!(audited.runs, RUNS + runs);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_connection_to_give_is_waited_for() -> Result<()> {
    let few = ["max_connections=40"];
    let server = EmbeddedPostgres::start_temporary(Durability::Fast, &few).await?;
    let mut deployment = Deployment::start_idle(Database::at(&server.url())?, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    let pool = deployment.database.pool().await?;
    let mut administrator = PgConnection::connect(deployment.database.url()).await?;
    let traffic = Traffic::start(&deployment, 4);
    for _ in 0..3 {
        runs_go_on(&pool, 4).await?;
        take_connections(&deployment.database, &mut administrator).await?;
    }
    let runs = traffic.end().await?;
    let audited = audit_at_rest(&pool).await?;
    assert_eq!(audited.runs, runs);
    administrator.close().await?;
    pool.close().await;
    drop(deployment);
    Ok(server.stop().await?)
}
