//! The database is unavailable at the start, fails during the work, and returns: services wait and
//! continue, and no data is lost.

use super::QUICK;
use super::beating::{beats_on, owner};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::audit::audit_all;
use surety_e2e::harness::{Cluster, Database, Deployment, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step, write};

async fn audited(deployment: Deployment, mut cluster: Cluster) -> Result<()> {
    audit_all(&deployment.database.pool().await?).await?;
    drop(deployment);
    cluster.stop().await
}

#[tokio::test]
async fn services_that_start_before_their_database_wait_for_it() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let url = cluster.url()?;
    cluster.stop().await?;
    let mut deployment = Deployment::start_idle(Database::at(&url)?, &[]).await?;
    deployment.add_executor(&[]).await?;
    for process in [&deployment.planner, &deployment.gate, &deployment.executors[0]] {
        process.wait_for_line(|line| line.contains("waiting for the database")).await?;
    }
    cluster.again().await?;
    let request = script::request(&plan(&[step("only", &[], &[noop()])]), "");
    let run = create_with_patience(&deployment, request).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    audited(deployment, cluster).await
}

/// The first executor to reconnect finds all others silent, as it was itself.
#[tokio::test]
async fn an_outage_longer_than_the_age_limit_costs_no_living_executor_its_run() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let mut deployment = Deployment::start_idle(Database::at(&cluster.url()?)?, &QUICK).await?;
    let trail = Trail::new()?;
    let mut runs = Vec::new();
    for name in ["one", "two"] {
        deployment.add_executor(&[("SURETY_EXECUTOR_SLOTS", "1")]).await?;
        let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait(name))])]);
        let run = deployment.create(&waits, "").await?;
        wait_until("the command began", || trail.marks(name) == 1).await?;
        let owner = owner(&deployment, &run.id).await?;
        runs.push((run, owner));
    }
    // Free slots to take over the other's run.
    for _ in 0..2 {
        deployment.add_executor(&[]).await?;
    }
    cluster.crash().await?;
    let away = Instant::now();
    wait_until("it was away for twice the age limit", || away.elapsed().as_secs() >= 4).await?;
    cluster.again().await?;
    let pool = deployment.database.pool().await?;
    for (run, before) in &runs {
        beats_on(&pool, *before, 4).await?;
        assert_eq!(owner(&deployment, &run.id).await?, *before, "a living executor lost its run");
    }
    trail.let_go()?;
    for (run, _) in &runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(["one", "two"].map(|name| trail.marks(name)), [1, 1]);
    pool.close().await;
    audited(deployment, cluster).await
}

/// Creates a run as a client should: the same request id again while the service is unavailable.
async fn create_with_patience(
    deployment: &Deployment,
    request: v1::CreateRunRequest,
) -> Result<v1::Run> {
    let request = v1::CreateRunRequest { request_id: "once".to_owned(), ..request };
    let deadline = std::time::Instant::now() + surety_e2e::harness::PATIENCE;
    loop {
        match deployment.runs()?.create_run(request.clone()).await {
            Ok(response) => return response.into_inner().run.context("no run"),
            Err(status) => {
                ensure!(status.code() == tonic::Code::Unavailable, "{status:?}");
                ensure!(std::time::Instant::now() < deadline, "{status:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_run_whose_database_crashes_midway_goes_on_and_loses_nothing() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let quick = [("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200")];
    let mut deployment = Deployment::start_idle(Database::at(&cluster.url()?)?, &quick).await?;
    deployment.add_executor(&[]).await?;
    let workspace = tempfile::tempdir()?;
    let trail = Trail::new()?;
    let mut checked = step("checked", &["waits"], &[write("a.txt", "good")]);
    checked["verify"] = serde_json::json!([{"kind": "workspace_change"}]);
    let steps = [
        step("first", &[], &[shell(&trail.mark("first"))]),
        step("waits", &["first"], &[shell(&trail.mark_and_wait("waits"))]),
        checked,
        step("last", &["checked"], &[shell(&trail.mark("last"))]),
    ];
    let run = deployment.create(&plan(&steps), &workspace.path().to_string_lossy()).await?;
    wait_until("the command began", || trail.marks("waits") == 1).await?;
    cluster.crash().await?;
    // The outcome of a call that ended while the database was unavailable.
    trail.let_go()?;
    let waits = |line: &str| line.contains("waiting for the database to write");
    deployment.executors[0].wait_for_line(waits).await?;
    let get = v1::GetRunRequest { run_id: run.id.clone(), view: 0 };
    let status = deployment.runs()?.get_run(get).await.err().context("the database is away")?;
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
    assert_eq!(from_status(&status).reason.as_str(), "database_unavailable");
    cluster.again().await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["first", "waits", "last"].map(|name| trail.marks(name)), [1, 1, 1]);
    audited(deployment, cluster).await
}

#[tokio::test]
async fn runs_under_load_outlive_crash_after_crash_of_their_database() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let mut deployment = Deployment::start_idle(Database::at(&cluster.url()?)?, &[]).await?;
    deployment.add_executor(&[]).await?;
    deployment.add_executor(&[]).await?;
    let trail = Trail::new()?;
    let mut runs = Vec::new();
    for n in 0..12 {
        let name = format!("r{n}");
        let steps: Vec<_> = (0..6)
            .map(|at| {
                let before = if at == 0 { vec![] } else { vec![format!("s{}", at - 1)] };
                let before: Vec<&str> = before.iter().map(String::as_str).collect();
                step(&format!("s{at}"), &before, &[shell(&trail.mark(&name)), noop()])
            })
            .collect();
        runs.push((deployment.create(&plan(&steps), "").await?, name));
    }
    for round in 1..=2 {
        let total = || runs.iter().map(|(_, name)| trail.marks(name)).sum::<usize>();
        wait_until("some steps went by", || total() >= round * 20).await?;
        cluster.crash().await?;
        cluster.again().await?;
    }
    for (run, name) in &runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
        assert_eq!(trail.marks(name), 6, "each command ran once");
    }
    audited(deployment, cluster).await
}

#[tokio::test]
async fn a_drain_while_the_database_is_away_lasts_its_time_and_leaves_the_lease_to_its_age()
-> Result<()> {
    let mut cluster = Cluster::start().await?;
    let brief =
        [("SURETY_DRAIN_TIMEOUT_MS", "1500"), ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000")];
    let mut deployment = Deployment::start_idle(Database::at(&cluster.url()?)?, &brief).await?;
    deployment.add_executor(&[]).await?;
    let trail = Trail::new()?;
    let steps = [
        step("waits", &[], &[shell(&trail.mark_and_wait("waits"))]),
        step("last", &["waits"], &[shell(&trail.mark("last"))]),
    ];
    let request = script::repeatable(script::request(&plan(&steps), ""));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("waits") == 1).await?;
    cluster.crash().await?;
    trail.let_go()?;
    let begun = Instant::now();
    assert!(deployment.first_executor()?.stop().await?.success());
    let lasted = begun.elapsed();
    assert!(lasted >= Duration::from_millis(1500), "it gave up after {lasted:?}");
    assert!(lasted < Duration::from_secs(10), "it waited for {lasted:?}");
    cluster.again().await?;
    deployment.add_executor(&[]).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(trail.marks("last"), 1);
    // What holds nothing has nothing to wait for.
    cluster.crash().await?;
    assert!(deployment.planner.stop().await?.success());
    assert!(deployment.gate.stop().await?.success());
    Ok(())
}
