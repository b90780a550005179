//! Which runs an executor claims: one namespace's backlog does not starve another, and a dead
//! executor's runs do not wait.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, wait_for_yes, wait_until};
use surety_e2e::script::{self, Trail, plan, shell, step};

/// One executor that works on two runs at a time.
const TWO_SLOTS: [(&str, &str); 1] = [("SURETY_EXECUTOR_SLOTS", "2")];

/// Creates runs that write their namespace and priority to the trail, without waiting.
async fn make(
    deployment: &Deployment,
    trail: &Trail,
    count: usize,
    (namespace, priority): (&str, i32),
) -> Result<()> {
    let line = format!("echo {namespace}:{priority} >> '{}'", trail.path("order").display());
    let request = v1::CreateRunRequest {
        namespace: namespace.to_owned(),
        priority,
        ..script::request(&plan(&[step("only", &[], &[shell(&line)])]), "")
    };
    let runs = deployment.runs()?;
    let made = stream::iter(0..count).map(|_| {
        let (mut runs, request) = (runs.clone(), request.clone());
        async move { runs.create_run(request).await }
    });
    Ok(made.buffer_unordered(32).try_for_each(|_| async { Ok(()) }).await?)
}

/// The order of execution.
fn order(trail: &Trail) -> Vec<String> {
    let text = std::fs::read_to_string(trail.path("order")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn ten_runs_do_not_wait_for_hundreds_of_another_namespace() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &TWO_SLOTS).await?;
    let trail = Trail::new()?;
    make(&deployment, &trail, 300, ("busy", 0)).await?;
    make(&deployment, &trail, 10, ("calm", 0)).await?;
    deployment.add_executor(&[]).await?;
    let calm = |order: &[String]| order.iter().filter(|name| *name == "calm:0").count();
    wait_until("the ten were worked on", || calm(&order(&trail)) == 10).await?;
    let order = order(&trail);
    let last = order.iter().rposition(|name| name == "calm:0").unwrap_or_default();
    assert!(last <= 40, "the last of the ten was number {last}: {order:?}");
    deployment.finish().await
}

#[tokio::test]
async fn the_urgent_come_first_and_the_others_are_not_forgotten() -> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &TWO_SLOTS).await?;
    let trail = Trail::new()?;
    make(&deployment, &trail, 60, ("one", 0)).await?;
    make(&deployment, &trail, 60, ("one", 5)).await?;
    deployment.add_executor(&[]).await?;
    wait_until("most was worked on", || order(&trail).len() >= 60).await?;
    let order = order(&trail);
    let urgent = order.iter().take(48).filter(|name| *name == "one:5").count();
    assert!((38..=46).contains(&urgent), "{urgent} of the first 48: {order:?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_namespace_that_comes_up_while_every_slot_is_taken_is_seen_all_the_same() -> Result<()> {
    let deployment = Deployment::start_with(&TWO_SLOTS).await?;
    let trail = Trail::new()?;
    make(&deployment, &trail, 400, ("busy", 0)).await?;
    make(&deployment, &trail, 1, ("calm", 0)).await?;
    let seen = || order(&trail).iter().any(|name| name == "calm:0");
    wait_until("it was worked on", seen).await?;
    assert!(order(&trail).len() < 400, "it waited for all the others");
    deployment.finish().await
}

#[tokio::test]
async fn while_the_gate_decides_others_are_worked_on_but_no_more_than_there_are_slots() -> Result<()>
{
    let mut deployment = Deployment::start_with(&TWO_SLOTS).await?;
    let rows = deployment.database.pool().await?;
    deployment.gate.kill().await?;
    let trail = Trail::new()?;
    make(&deployment, &trail, 6, ("one", 0)).await?;
    wait_for_yes(&rows, "select count(*) = 4 from execution where state = 'VERIFYING'").await?;
    // If there were a free slot, the next heartbeats would have reported it.
    let beaten = "update executor set name = extract(epoch from heartbeat_at)::text";
    for _ in 0..2 {
        sqlx::query(beaten).execute(&rows).await?;
        let again = "select name <> extract(epoch from heartbeat_at)::text from executor";
        wait_for_yes(&rows, again).await?;
    }
    let waiting = "select count(*) = 2 from execution where lease_owner is null";
    assert!(sqlx::query_scalar::<_, bool>(waiting).fetch_one(&rows).await?);
    assert_eq!(order(&trail).len(), 4);
    deployment.start_gate_with(&[]).await?;
    wait_for_yes(&rows, "select count(*) = 6 from execution where state = 'DONE'").await?;
    rows.close().await;
    deployment.finish().await
}

#[tokio::test]
async fn runs_that_are_refused_side_by_side_do_not_wait_for_each_others_places() -> Result<()> {
    let deployment = Deployment::start_with(&[("SURETY_EXECUTOR_SLOTS", "1")]).await?;
    let mut plan = plan(&[step("only", &[], &[script::noop()])]);
    plan["verify"] = serde_json::json!([{"kind": "file_exists", "target": "never"}]);
    let mut runs = Vec::new();
    for _ in 0..6 {
        runs.push(deployment.create(&plan, "").await?);
    }
    for run in runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Failed, "{run:#?}");
    }
    deployment.finish().await
}

/// Claims wait for the holder of this lock.
const CLAIMS_WAIT: [&str; 2] = [
    "create function hold_claim() returns trigger language plpgsql as
     $$ begin perform pg_advisory_xact_lock(7); return null; end $$",
    "create trigger hold_claim after update on execution for each row
     when (old.lease_owner is null and new.lease_owner is not null)
     execute function hold_claim()",
];

#[tokio::test]
async fn a_refused_run_that_comes_back_takes_no_slot_from_a_run_that_is_being_claimed() -> Result<()>
{
    let brief = [("SURETY_EXECUTOR_SLOTS", "1"), ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "100")];
    let mut deployment = Deployment::start_with(&brief).await?;
    let rows = deployment.database.pool().await?;
    deployment.gate.kill().await?;
    let trail = Trail::new()?;
    let (marks, go) = (trail.path("refused"), trail.path("go"));
    // Its second attempt keeps its slot until it is let go.
    let line = format!(
        "{}; while [ $(wc -l < '{}') -gt 1 ] && [ ! -e '{}' ]; do sleep 0.02; done",
        trail.mark("refused"),
        marks.display(),
        go.display(),
    );
    let mut refused = plan(&[step("only", &[], &[shell(&line)])]);
    refused["verify"] = serde_json::json!([{"kind": "file_exists", "target": "never"}]);
    let refused = deployment.create(&refused, "").await?;
    wait_for_yes(&rows, "select count(*) = 1 from execution where state = 'VERIFYING'").await?;
    for statement in CLAIMS_WAIT {
        sqlx::query(statement).execute(&rows).await?;
    }
    let mut holding = rows.acquire().await?;
    sqlx::query("select pg_advisory_lock(7)").execute(&mut *holding).await?;
    let line = trail.mark("claimed");
    let claimed = deployment.create(&plan(&[step("only", &[], &[shell(&line)])]), "").await?;
    let waits = "select count(*) = 1 from pg_locks where locktype = 'advisory' and not granted";
    wait_for_yes(&rows, waits).await?;
    deployment.start_gate_with(&[]).await?;
    wait_for_yes(&rows, "select count(*) = 0 from execution where state = 'VERIFYING'").await?;
    // Time enough to come back in.
    let beaten = "update executor set name = extract(epoch from heartbeat_at)::text";
    for _ in 0..3 {
        sqlx::query(beaten).execute(&rows).await?;
        let again = "select name <> extract(epoch from heartbeat_at)::text from executor";
        wait_for_yes(&rows, again).await?;
    }
    sqlx::query("select pg_advisory_unlock(7)").execute(&mut *holding).await?;
    wait_until("it was worked on", || trail.marks("claimed") == 1).await?;
    trail.let_go()?;
    let claimed = deployment.wait_for_end(&claimed.id).await?;
    assert_eq!(claimed.state(), v1::RunState::Done, "{claimed:#?}");
    deployment.wait_for_end(&refused.id).await?;
    drop(holding);
    rows.close().await;
    deployment.finish().await
}

#[tokio::test]
async fn a_dead_executor_is_replaced_within_a_second_of_an_age_limit_of_two() -> Result<()> {
    let brief = [("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000")];
    let mut deployment = Deployment::start_with(&brief).await?;
    let trail = Trail::new()?;
    let request = script::repeatable(script::request(
        &plan(&[step("only", &[], &[shell(&trail.mark_and_wait("only"))])]),
        "",
    ));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("only") == 1).await?;
    deployment.add_executor(&[]).await?;
    let begun = Instant::now();
    deployment.first_executor()?.kill().await?;
    wait_until("the other one took it up", || trail.marks("only") == 2).await?;
    // The limit, the second, and another for a machine that has other things to do.
    assert!(begun.elapsed() < Duration::from_secs(4), "after {:?}", begun.elapsed());
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}
