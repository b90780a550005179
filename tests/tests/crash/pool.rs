//! The smallest usable pool, and more work than connections: a task that held a connection while it
//! waits for another would deadlock. Also a server without free connections.
//!
//! A deadlock shows in two ways, and a slow machine in neither of them: the runs stand still, or a process gives up on
//! its pool while a question beside it is answered at once.

use super::QUICK;
use super::storm::take_connections;
use super::traffic::Traffic;
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use sqlx::{Connection, PgConnection, PgPool};
use std::time::{Duration, Instant};
use surety_cli::postgres::{Durability, EmbeddedPostgres};
use surety_common::wire::v1;
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Database, Deployment, PATIENCE, Process};
use surety_e2e::script::{Trail, noop, plan, request, scoped, shell, step};
use surety_e2e::skips;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// One is the listener's; work without a dedicated connection shares the other.
const TWO: [(&str, &str); 1] = [("SURETY_DATABASE_POOL_SIZE", "2")];
/// Runs at once.
const RUNS: usize = 24;
/// How often the database is asked beside the services.
const ASKED_EVERY: Duration = Duration::from_millis(100);
/// An answer after this time says that the machine is overloaded. It is a tenth of the time after which a process gives
/// up on an answer.
const SLOW: Duration = Duration::from_secs(1);

/// Asks the database a trivial question again and again, on a connection of its own.
struct Control {
    stop: CancellationToken,
    slowest: JoinHandle<Result<Duration>>,
}

impl Control {
    fn start(pool: PgPool) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let slowest = tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            while !stopped.is_cancelled() {
                let due = Instant::now() + ASKED_EVERY;
                tokio::time::sleep_until(due.into()).await;
                sqlx::query("select 1").execute(&pool).await?;
                // With the lateness of this task, which a loaded machine delays too.
                slowest = slowest.max(due.elapsed());
            }
            Ok(slowest)
        });
        Self { stop, slowest }
    }

    /// How long the slowest answer took.
    async fn end(self) -> Result<Duration> {
        self.stop.cancel();
        self.slowest.await?
    }
}

/// Creates a run. A planner whose connections are all in use refuses for a while.
async fn created(deployment: &Deployment, trail: &Trail, number: usize) -> Result<v1::Run> {
    let request = v1::CreateRunRequest { request_id: format!("run-{number}"), ..order(trail) };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match deployment.create_run(request.clone()).await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(ASKED_EVERY).await,
            made => return made,
        }
    }
}

/// Waits until runs have ended, as long as any of them moves.
async fn ended(pool: &PgPool, made: &[v1::Run]) -> Result<()> {
    let ids: Vec<&str> = made.iter().map(|run| run.id.as_str()).collect();
    let (mut before, mut moved) = (0, Instant::now());
    loop {
        let question = "select coalesce(sum(version), 0)::bigint, bool_and(terminal is not null) from execution \
                        where run_id::text = any($1)";
        let (version, over): (i64, Option<bool>) =
            sqlx::query_as(question).bind(&ids).fetch_one(pool).await?;
        if over == Some(true) {
            return Ok(());
        }
        if version != before {
            (before, moved) = (version, Instant::now());
        }
        ensure!(moved.elapsed() < PATIENCE, "the runs stand still");
        tokio::time::sleep(ASKED_EVERY).await;
    }
}

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
    let pool = deployment.database.pool().await?;
    let control = Control::start(pool.clone());
    let traffic = Traffic::start(&deployment, 4);
    let made = try_join_all((0..RUNS).map(|run| created(&deployment, &trail, run))).await?;
    ended(&pool, &made).await?;
    for run in &made {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(trail.marks("ran"), 2 * RUNS, "each command ran once");
    let runs = traffic.end().await?;
    let slowest = control.end().await?;
    for process in deployment.executors.iter().chain([&deployment.planner, &deployment.gate]) {
        let starved = starved(process);
        if slowest < SLOW {
            assert_eq!(starved, [""; 0]);
        } else if !starved.is_empty() {
            let why = format!("the machine is overloaded: an answer took {slowest:?}");
            skips::note("pool: no process gives up on its connections", &why)?;
        }
    }
    pool.close().await;
    let audited = deployment.finish_at_rest().await?;
    assert_eq!(audited.runs, RUNS + runs);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_connection_to_give_is_waited_for() -> Result<()> {
    let few = ["max_connections=32"];
    let server = EmbeddedPostgres::start_temporary(Durability::Fast, &few).await?;
    let mut deployment = Deployment::start_idle(Database::at(&server.url())?, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    let pool = deployment.database.pool().await?;
    let mut administrator = PgConnection::connect(deployment.database.url()).await?;
    let mut traffic = Traffic::start(&deployment, 4);
    for _ in 0..3 {
        traffic.goes_on(&pool, 4).await.with_context(|| deployment.last_lines())?;
        take_connections(&deployment.database, &mut administrator).await?;
    }
    let runs = traffic.end().await?;
    // The processes keep what the last burst opened for a while, and the audit needs a connection too.
    drop(deployment);
    let audited = audit_at_rest(&pool).await?;
    assert_eq!(audited.runs, runs);
    administrator.close().await?;
    pool.close().await;
    Ok(server.stop().await?)
}
