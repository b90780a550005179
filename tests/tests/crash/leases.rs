//! Leases change their owners: a drained executor releases its runs at once, a frozen one loses
//! them.

use super::QUICK;
use super::beating::{hangs, hold, order};
use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use std::time::Instant;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};

#[tokio::test]
async fn a_drained_executor_hands_its_runs_over_long_before_its_heartbeat_is_old() -> Result<()> {
    // No test waits ten minutes: only a hand-over can end this run in time.
    let slow =
        [("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "600000"), ("SURETY_DRAIN_TIMEOUT_MS", "100")];
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&slow).await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark("second"))]),
    ];
    let run = deployment.create_run(script::repeatable(script::request(&plan(&steps), ""))).await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    deployment.add_executor(&[]).await?;
    let status = deployment.first_executor()?.stop().await?;
    assert!(status.success(), "{status:?}");
    wait_until("the other one took it up", || trail.marks("first") == 2).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["first", "second"].map(|name| trail.marks(name)), [2, 1]);
    deployment.finish().await
}

#[tokio::test]
async fn a_lease_taken_over_while_a_drain_begins_is_handed_back_too() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let run = deployment.create_run(order(&trail, "began", 7)).await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.executors.clear();
    let pool = deployment.database.pool().await?;
    let holding = hold(&pool).await?;
    deployment.add_executor(&[]).await?;
    hangs(&pool).await?;
    let executor = deployment.first_executor()?;
    executor.signal(Signal::SIGTERM)?;
    executor.wait_for_line(|line| line.contains("shutting down")).await?;
    holding.rollback().await?;
    assert!(executor.wait_for_exit().await?.success());
    let left = deployment.run(&run.id).await?;
    assert!(left.lease.is_none(), "a drained executor kept a lease: {left:#?}");
    deployment.add_executor(&[]).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_lease_that_a_draining_executor_never_heard_of_is_handed_back_too() -> Result<()> {
    // No test waits ten minutes: a dead executor stays undetected.
    let slow = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "600000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "60000"),
        ("SURETY_EXECUTOR_SLOTS", "1"),
    ];
    let (busy, left) = (Trail::new()?, Trail::new()?);
    let mut deployment = Deployment::start_with(&slow).await?;
    let orphan = deployment.create_run(order(&left, "began", 0)).await?;
    wait_until("the command began", || left.marks("began") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    let run = deployment.create_run(order(&busy, "began", 0)).await?;
    wait_until("the command began", || busy.marks("began") == 1).await?;
    let lease = deployment.run(&run.id).await?.lease.context("the run is leased")?;
    let executor = deployment.first_executor()?;
    executor.signal(Signal::SIGTERM)?;
    executor.wait_for_line(|line| line.contains("shutting down")).await?;
    // As a take-over leaves it that was committed while its answer was lost on the way.
    let pool = deployment.database.pool().await?;
    let taken = "update execution
                 set lease_owner = $1, lease_epoch = lease_epoch + 1, version = version + 1
                 where run_id = $2 and step_states = 'u'";
    let taken = sqlx::query(taken)
        .bind(uuid::Uuid::parse_str(&lease.executor_id)?)
        .bind(uuid::Uuid::parse_str(&orphan.id)?)
        .execute(&pool)
        .await?;
    assert_eq!(taken.rows_affected(), 1);
    busy.let_go()?;
    assert!(deployment.first_executor()?.wait_for_exit().await?.success());
    let given = deployment.run(&orphan.id).await?;
    assert!(given.lease.is_none(), "a drained executor kept a lease: {given:#?}");
    deployment.executors.clear();
    deployment.add_executor(&[]).await?;
    left.let_go()?;
    for run in [run, orphan] {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!((busy.marks("began"), left.marks("began")), (1, 2));
    deployment.finish_at_rest().await.map(drop)
}

#[tokio::test]
async fn a_drain_lets_a_call_under_way_end_and_hands_over_behind_it() -> Result<()> {
    let slow = [("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "600000")];
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&slow).await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark("second"))]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    deployment.add_executor(&[]).await?;
    let executor = deployment.first_executor()?;
    executor.signal(Signal::SIGTERM)?;
    executor.wait_for_line(|line| line.contains("shutting down")).await?;
    trail.let_go()?;
    assert!(executor.wait_for_exit().await?.success());
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["first", "second"].map(|name| trail.marks(name)), [1, 1]);
    deployment.finish().await
}

#[tokio::test]
async fn a_late_write_of_a_frozen_executor_is_lost() -> Result<()> {
    let quick = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
    ];
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&quick).await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark_and_wait("second"))]),
    ];
    let run = deployment.create_run(script::repeatable(script::request(&plan(&steps), ""))).await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    let owner = |run: &v1::Run| run.lease.clone().map(|lease| lease.executor_id);
    let before = owner(&deployment.run(&run.id).await?).context("the run is leased")?;
    deployment.first_executor()?.signal(Signal::SIGSTOP)?;
    deployment.add_executor(&[]).await?;
    wait_until("the other one took it up", || trail.marks("first") == 2).await?;
    // Both commands end now: the frozen executor wakes up with an outcome in its hands.
    trail.let_go()?;
    deployment.first_executor()?.signal(Signal::SIGCONT)?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["first", "second"].map(|name| trail.marks(name)), [2, 1]);
    let events = deployment.events(&run.id).await?;
    let taken_over = events.iter().position(|event| match &event.kind {
        Some(v1::event::Kind::Transition(moved)) => moved.event == "lease_ended",
        _ => false,
    });
    let since = events.get(taken_over.context("a lease ended")?..).unwrap_or_default();
    let actor = format!("executor/{}", before.replace('-', ""));
    let late = since.iter().any(|event| match &event.kind {
        Some(v1::event::Kind::Transition(moved)) => moved.actor == actor,
        _ => false,
    });
    assert!(!late, "{actor} wrote after its lease was taken: {since:#?}");
    // It is alive and registered: it continues with other work.
    deployment.executors.truncate(1);
    let run = deployment.create(&plan(&[step("more", &[], &[noop()])]), "").await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

/// Frozen when a change was submitted and not yet sent. Once it continues, the change is sent
/// first, with an outdated fence.
#[tokio::test]
async fn a_write_that_was_on_its_way_when_its_executor_froze_is_refused() -> Result<()> {
    // There are two writes of the run at least: its command's intent, and its outcome.
    for passing in 1..=2 {
        let point = format!("committer.before_write:{passing}");
        let trail = Trail::new()?;
        let mut deployment = Deployment::start_idle(Database::create().await?, &QUICK).await?;
        deployment.add_executor(&[("SURETY_FREEZE_POINT", &point)]).await?;
        let order = plan(&[step("only", &[], &[shell(&trail.mark("ran"))])]);
        let run = deployment.create_run(script::repeatable(script::request(&order, ""))).await?;
        let held = |run: &v1::Run| run.lease.is_some();
        let frozen = deployment.wait_for(&run.id, "leased", held).await?;
        let frozen = frozen.lease.context("a lease")?.executor_id.replace('-', "");
        deployment.add_executor(&[]).await?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
        let before = deployment.events(&run.id).await?.len();
        let finished = moves(&deployment, &run.id, "finished").await?;
        assert!(finished.iter().all(|actor| !actor.contains(&frozen)), "{point}: {finished:?}");
        deployment.first_executor()?.signal(Signal::SIGCONT)?;
        // It has one writer, so what it does next comes after what was refused.
        deployment.executors.truncate(1);
        let more = deployment.create(&plan(&[step("more", &[], &[noop()])]), "").await?;
        let more = deployment.wait_for_end(&more.id).await?;
        assert_eq!(more.state(), v1::RunState::Done, "{more:#?}");
        let finished = moves(&deployment, &more.id, "finished").await?;
        assert!(finished.iter().all(|actor| actor.contains(&frozen)), "{point}: {finished:?}");
        assert_eq!(deployment.events(&run.id).await?.len(), before, "a late write was taken");
        assert!((1..=passing).contains(&trail.marks("ran")), "{point}");
        deployment.finish_at_rest().await?;
    }
    Ok(())
}

/// Who made moves of this kind.
async fn moves(deployment: &Deployment, run_id: &str, kind: &str) -> Result<Vec<String>> {
    let events = deployment.events(run_id).await?.into_iter();
    let actors = events.filter_map(|event| match event.kind {
        Some(v1::event::Kind::Transition(moved)) if moved.event == kind => Some(moved.actor),
        _ => None,
    });
    Ok(actors.collect())
}

#[tokio::test]
async fn a_cancelled_run_ends_its_command_at_once() -> Result<()> {
    let trail = Trail::new()?;
    let deployment = Deployment::start().await?;
    let line = format!(
        "trap '{}; exit 1' TERM; {} & wait",
        trail.mark("ended"),
        trail.mark_and_wait("began")
    );
    let run = deployment.create(&plan(&[step("only", &[], &[shell(&line)])]), "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let begun = Instant::now();
    let request = v1::CancelRunRequest {
        run_id: run.id.clone(),
        reason: "enough".to_owned(),
        ..Default::default()
    };
    let cancelled = deployment.runs()?.cancel_run(request.clone()).await?.into_inner();
    let run = cancelled.run.context("the response holds the run")?;
    assert_eq!(run.state(), v1::RunState::Cancelled, "{run:#?}");
    wait_until("the command was ended", || trail.marks("ended") == 1).await?;
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    // A second time changes nothing.
    let again = deployment.runs()?.cancel_run(request).await?.into_inner();
    assert_eq!(again.run.map(|run| run.version), Some(run.version));
    deployment.finish().await
}

#[tokio::test]
async fn a_lease_whose_holder_never_heard_of_it_is_found_by_its_heartbeat() -> Result<()> {
    let one_slot =
        [("SURETY_EXECUTOR_SLOTS", "1"), ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200")];
    let trail = Trail::new()?;
    let deployment = Deployment::start_with(&one_slot).await?;
    let busy = plan(&[step("only", &[], &[shell(&trail.mark_and_wait("began"))])]);
    let busy = deployment.create(&busy, "").await?;
    wait_until("the command began", || trail.marks("began") == 1).await?;
    let lease = deployment.run(&busy.id).await?.lease.context("the run is leased")?;
    let other = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    // As a claim leaves it that was committed while its answer was lost on the way.
    let claim = "update execution set lease_owner = $1, lease_epoch = lease_epoch + 1
                 where run_id = $2 and lease_owner is null";
    let claimed = sqlx::query(claim)
        .bind(uuid::Uuid::parse_str(&lease.executor_id)?)
        .bind(uuid::Uuid::parse_str(&other.id)?)
        .execute(&deployment.database.pool().await?)
        .await?;
    assert_eq!(claimed.rows_affected(), 1);
    trail.let_go()?;
    for run in [busy, other] {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_verification_that_is_cut_off_is_begun_anew_by_the_next_executor() -> Result<()> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let quick = [
            ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
            ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
            ("SURETY_DRAIN_TIMEOUT_MS", "100"),
        ];
        let trail = Trail::new()?;
        let workspace = tempfile::tempdir()?;
        std::fs::write(workspace.path().join("check.sh"), trail.mark_and_wait("check"))?;
        let mut deployment = Deployment::start_with(&quick).await?;
        let mut plan = plan(&[step("only", &[], &[noop()])]);
        plan["verify"] = serde_json::json!([{"kind": "command_success", "target": "sh check.sh"}]);
        let run = deployment.create(&plan, &workspace.path().to_string_lossy()).await?;
        wait_until("the verification began", || trail.marks("check") == 1).await?;
        let executor = deployment.first_executor()?;
        executor.signal(signal)?;
        executor.wait_for_exit().await?;
        deployment.add_executor(&[]).await?;
        wait_until("the verification began anew", || trail.marks("check") == 2).await?;
        trail.let_go()?;
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{signal}: {run:#?}");
        assert_eq!(run.counters.unwrap_or_default().repairs, 0, "{signal}");
        deployment.finish().await?;
    }
    Ok(())
}
