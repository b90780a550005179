//! Four traps of recovery that others fell into.

use super::QUICK;
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::Value;
use std::io::ErrorKind;
use surety_common::wire::v1;
use surety_e2e::harness::{Cluster, Database, Deployment, PATIENCE, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, scoped, shell, step};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

#[tokio::test]
async fn a_recovery_that_a_restart_of_the_database_interrupts_is_begun_again() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let database = Database::at(&cluster.url()?)?;
    let mut deployment = Deployment::start_idle(database, &QUICK).await?;
    deployment.add_executor(&[]).await?;
    let trail = Trail::new()?;
    let steps: Vec<Value> = (0..6)
        .map(|n| {
            scoped(
                step(&format!("s{n}"), &[], &[shell(&trail.mark_and_wait("began"))]),
                &[&format!("{n}")],
            )
        })
        .collect();
    let run = deployment.create_run(script::repeatable(script::request(&plan(&steps), ""))).await?;
    wait_until("the commands began", || trail.marks("began") == 4).await?;
    deployment.first_executor()?.kill().await?;
    deployment.executors.clear();
    // The next one dies as it has taken the run over, the one after it finds no database.
    deployment.add_executor(&[("SURETY_CRASH_POINT", "executor.before_take_over")]).await?;
    deployment.first_executor()?.wait_for_exit().await?;
    deployment.executors.clear();
    cluster.crash().await?;
    deployment.add_executor(&[]).await?;
    let waits = |line: &str| line.contains("waiting for the database");
    deployment.first_executor()?.wait_for_line(waits).await?;
    cluster.again().await?;
    wait_until("the commands began again", || trail.marks("began") >= 8).await?;
    cluster.crash().await?;
    trail.let_go()?;
    cluster.again().await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    surety_e2e::audit::audit_at_rest(&deployment.database.pool().await?).await?;
    drop(deployment);
    cluster.stop().await
}

#[tokio::test]
async fn a_draining_executor_claims_nothing_more() -> Result<()> {
    let trail = Trail::new()?;
    let slow = [("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200")];
    let mut deployment = Deployment::start_with(&slow).await?;
    let busy = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let busy = deployment.create(&busy, "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let executor = deployment.first_executor()?;
    executor.signal(Signal::SIGTERM)?;
    executor.wait_for_line(|line| line.contains("shutting down")).await?;
    let quick = plan(&[step("only", &[], &[noop()])]);
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(deployment.create(&quick, "").await?);
    }
    // It still sends heartbeats, which find its leases and dead executors.
    trail.let_go()?;
    assert!(deployment.first_executor()?.wait_for_exit().await?.success());
    for run in &waiting {
        let run = deployment.run(&run.id).await?;
        assert!(run.lease.is_none() && run.terminal.is_none(), "{run:#?}");
        let started = |step: &v1::StepProgress| step.state() != v1::StepState::Ready;
        assert!(!run.steps.iter().any(started), "a draining executor took it up: {run:#?}");
    }
    deployment.add_executor(&[]).await?;
    waiting.push(busy);
    for run in waiting {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn runs_in_a_queue_of_one_never_wait_for_each_other_between_two_steps() -> Result<()> {
    let one = [QUICK[0], QUICK[1], ("SURETY_EXECUTOR_SLOTS", "1")];
    let mut deployment = Deployment::start_idle(Database::create().await?, &one).await?;
    let ask = |id: &str, before: &[&str]| step(id, before, &[shell("exit 0"), noop()]);
    let mut runs = Vec::new();
    for _ in 0..6 {
        let steps = [ask("a", &[]), ask("b", &["a"]), ask("c", &["a"]), ask("d", &["b", "c"])];
        runs.push(
            deployment.create_run(script::repeatable(script::request(&plan(&steps), ""))).await?,
        );
    }
    // Each dies between two steps of a run, which is then queued with all others.
    for passing in [3, 6, 9] {
        let point = format!("committer.after_write:{passing}");
        deployment.add_executor(&[("SURETY_CRASH_POINT", &point)]).await?;
        deployment.first_executor()?.wait_for_exit().await?;
        deployment.executors.clear();
    }
    deployment.add_executor(&[]).await?;
    for run in runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn work_of_an_executor_that_never_returns_is_taken_over_only_after_its_death() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let pool = deployment.database.pool().await?;
    let waits = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let run = deployment.create_run(script::repeatable(script::request(&waits, ""))).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.executors.clear();
    // The executor is not registered any more: its row is deleted, its lease is not.
    sqlx::query("delete from executor").execute(&pool).await?;
    deployment.add_executor(&[]).await?;
    wait_until("another took it up", || trail.marks("began") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let lease = run.lease.as_ref();
    assert!(lease.is_none(), "{lease:?}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_command_of_a_killed_executor_is_gone_before_another_goes_on() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    // The command and what it started have it open, and only their end closes it. Their process ids would say nothing
    // here: they may be those of a namespace.
    let held = trail.path("held");
    nix::unistd::mkfifo(&held, Mode::S_IRWXU)?;
    let mut reader = pipe::OpenOptions::new().open_receiver(&held)?;
    let line = format!(
        "exec 9> '{held}'; sleep 600 & echo >&9; {wait}",
        held = held.display(),
        wait = trail.mark_and_wait("began")
    );
    let run = deployment
        .create_run(script::repeatable(script::request(
            &plan(&[step("only", &[], &[shell(&line)])]),
            "",
        )))
        .await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    assert_eq!(reader.read_u8().await?, b'\n', "they opened it");
    deployment.first_executor()?.kill().await?;
    let end = timeout(PATIENCE, reader.read_u8()).await.context("the command goes on")?;
    assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::UnexpectedEof));
    deployment.add_executor(&[]).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.executors.remove(0);
    deployment.finish_at_rest().await.map(drop)
}
