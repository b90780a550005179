//! Refusals that pass: of a database whose operator closes it for a while, and of what answers at the gate's address in
//! place of a gate. They decide nothing about a run.

use super::QUICK;
use anyhow::{Context, Result, ensure};
use sqlx::{AssertSqlSafe, PgPool};
use surety_common::wire::v1;
use surety_e2e::harness::{Cluster, Database, Deployment, PATIENCE, Process, Service, wait_until};
use surety_e2e::relay::Relay;
use surety_e2e::script::{self, Trail, noop, plan, shell, step};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Ends all connections to the database but this one.
const END_OTHERS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
                          where datname = current_database() and pid <> pg_backend_pid()";
/// How often all connections are ended, while the approvals are given and the calls are made.
const ROUNDS: usize = 40;
/// Runs that wait for an approval.
const APPROVALS: usize = 12;

/// A run of one call that a person has to approve, and its wait.
async fn waiting_for_approval(deployment: &Deployment) -> Result<(String, v1::Wait)> {
    let policy = v1::Policy { confirm_tools: vec!["noop".to_owned()], ..v1::Policy::default() };
    let request = script::request(&plan(&[step("only", &[], &[noop()])]), "");
    let request = v1::CreateRunRequest { policy: Some(policy), ..request };
    let run_id = deployment.create_run(request).await?.id;
    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    deployment.wait_for(&run_id, "blocked", blocked).await?;
    let list = v1::ListWaitsRequest { run_id: run_id.clone(), ..Default::default() };
    let waits = deployment.runs()?.list_waits(list).await?.into_inner().waits;
    Ok((run_id, waits.into_iter().next().context("no wait")?))
}

#[tokio::test]
async fn an_approval_is_not_lost_with_a_connection() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    let mut waiting = Vec::new();
    for _ in 0..APPROVALS {
        waiting.push(waiting_for_approval(&deployment).await?);
    }
    let pool = deployment.database.pool().await?;
    let ending = tokio::spawn(async move {
        let mut pause = tokio::time::interval(std::time::Duration::from_millis(100));
        for _ in 0..ROUNDS {
            pause.tick().await;
            // This connection stays.
            sqlx::query(END_OTHERS).execute(&pool).await.ok();
        }
    });
    for (_, wait) in &waiting {
        timeout(PATIENCE, approve(&deployment, wait)).await.context("not approved in time")??;
    }
    ending.await?;
    for (run_id, _) in &waiting {
        let run = deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    }
    deployment.finish_at_rest().await.map(drop)
}

/// Approves, again until it is known to be stored.
async fn approve(deployment: &Deployment, wait: &v1::Wait) -> Result<()> {
    loop {
        let approval = v1::ResolveConfirmationRequest {
            wait_id: wait.id.clone(),
            answer: v1::ConfirmationAnswer::Approve.into(),
            call_digest: wait.call_digest.clone(),
            request_id: wait.id.clone(),
            ..v1::ResolveConfirmationRequest::default()
        };
        match deployment.runs()?.resolve_confirmation(approval).await {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == tonic::Code::Unavailable => {
                tokio::task::yield_now().await;
            }
            Err(status) => return Err(status.into()),
        }
    }
}

/// Runs a statement in the database `postgres` of a cluster.
async fn administer(admin: &PgPool, statement: &str) -> Result<()> {
    sqlx::query(AssertSqlSafe(statement.to_owned())).execute(admin).await?;
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_closed_for_a_while_costs_no_outcome() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let url = cluster.url()?;
    let mut deployment = Deployment::start_idle(Database::at(&url)?, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    let name = deployment.database.name().to_owned();
    let (before, _) = url.rsplit_once(&format!("/{name}")).context("the address names it")?;
    let admin = PgPool::connect(&format!("{before}/postgres")).await?;
    let trail = Trail::new()?;
    let steps = [step("only", &[], &[shell(&trail.mark_and_wait("once"))])];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("once") == 1).await?;
    administer(&admin, &format!("alter database {name} allow_connections false")).await?;
    let all =
        format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
    administer(&admin, &all).await?;
    trail.let_go()?;
    let waits = |line: &str| line.contains("waiting for the database to write");
    deployment.first_executor()?.wait_for_line(waits).await?;
    administer(&admin, &format!("alter database {name} allow_connections true")).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(trail.marks("once") == 1, "the command ran again");
    admin.close().await;
    drop(deployment);
    cluster.stop().await
}

/// Answers each connection as a proxy does that finds no server behind it.
async fn bad_gateway() -> Result<(String, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let answering = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer =
                b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.ok();
            // Reads what the client still sends, so that it sees the answer.
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
        }
    });
    Ok((address, answering))
}

#[tokio::test]
async fn what_is_no_gate_decides_nothing() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
    let relay = Relay::start(deployment.gate.address()).await?;
    let (proxy, answering) = bad_gateway().await?;
    relay.lead_to(&proxy);
    deployment.add_executor(&[("SURETY_GATE_URL", &relay.url())]).await?;
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let waits = |line: &str| {
        line.contains("waiting for the gate") && line.contains("does not answer as an acceptgate")
    };
    deployment.first_executor()?.wait_for_line(waits).await?;
    // A gate without a database, and a service that has no such method.
    for (service, words) in
        [(Service::Gate, "database_not_configured"), (Service::Planner, "unimplemented")]
    {
        let mut other = Process::start_stateless(service, &[]).await?;
        relay.lead_to(other.address());
        let waits = |line: &str| line.contains("waiting for the gate") && line.contains(words);
        deployment.first_executor()?.wait_for_line(waits).await?;
        other.kill().await?;
    }
    answering.abort();
    relay.lead_to(deployment.gate.address());
    let run = deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}
