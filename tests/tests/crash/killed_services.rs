//! The planner, the gate, and all three services killed at once: runs continue, and watchers miss
//! no event.

use super::QUICK;
use anyhow::Result;
use surety_common::wire::v1;
use surety_e2e::harness::{Deployment, wait_until};
use surety_e2e::script::{self, Trail, plan, shell, step};

type Events = tonic::Streaming<v1::WatchRunResponse>;

async fn watch(deployment: &Deployment, run_id: &str, from: u64) -> Result<Events> {
    let request = v1::WatchRunRequest {
        run_id: run_id.to_owned(),
        from_sequence: from,
        follow: true,
        progress: false,
    };
    Ok(deployment.runs()?.watch_run(request).await?.into_inner())
}

/// Reads until `upto` was seen, the run ended, or the stream broke, as any client would.
async fn read(stream: &mut Events, seen: &mut Vec<u64>, upto: u64) {
    while seen.last().is_none_or(|last| *last < upto)
        && let Ok(Some(response)) = stream.message().await
    {
        seen.extend(response.event.map(|event| event.sequence));
    }
}

#[tokio::test]
async fn a_watcher_whose_planner_was_killed_goes_on_where_it_was() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start().await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark("second"))]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    let now = deployment.run(&run.id).await?.last_sequence;
    let mut seen = Vec::new();
    let mut stream = watch(&deployment, &run.id, 1).await?;
    read(&mut stream, &mut seen, now).await;
    deployment.planner.kill().await?;
    // Written while no planner serves watchers.
    trail.let_go()?;
    wait_until("the next step ran without a planner", || trail.marks("second") == 1).await?;
    read(&mut stream, &mut seen, u64::MAX).await;
    assert_eq!(seen, (1..=now).collect::<Vec<_>>());
    deployment.replace_planner().await?;
    let mut stream = watch(&deployment, &run.id, now + 1).await?;
    read(&mut stream, &mut seen, u64::MAX).await;
    let run = deployment.run(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(seen, (1..=run.last_sequence).collect::<Vec<_>>());
    deployment.finish().await
}

#[tokio::test]
async fn a_run_goes_on_while_no_planner_is_there() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start().await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark("second"))]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    deployment.planner.kill().await?;
    trail.let_go()?;
    wait_until("the next step ran without a planner", || trail.marks("second") == 1).await?;
    deployment.replace_planner().await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn runs_that_wait_for_a_killed_gate_are_judged_by_its_successor() -> Result<()> {
    let mut deployment = Deployment::start().await?;
    deployment.gate.kill().await?;
    let mut runs = Vec::new();
    for _ in 0..5 {
        let plan = plan(&[step("only", &[], &[surety_e2e::script::noop()])]);
        runs.push(deployment.create(&plan, "").await?);
    }
    for run in &runs {
        let verifying = |run: &v1::Run| run.state() == v1::RunState::Verifying;
        deployment.wait_for(&run.id, "verifying", verifying).await?;
    }
    let executor = &deployment.executors[0];
    executor.wait_for_line(|line| line.contains("waiting for the gate")).await?;
    deployment.start_gate_with(&[]).await?;
    for run in &runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_gate_that_dies_between_its_verdict_and_the_answer_decides_once() -> Result<()> {
    let database = surety_e2e::harness::Database::create().await?;
    let mut deployment = Deployment::start_idle(database, &[]).await?;
    deployment.gate.kill().await?;
    deployment.start_gate_with(&[("SURETY_CRASH_POINT", "gate.after_verdict")]).await?;
    deployment.add_executor(&[]).await?;
    let plan = plan(&[step("only", &[], &[surety_e2e::script::noop()])]);
    let run = deployment.create(&plan, "").await?;
    deployment.gate.wait_for_exit().await?;
    deployment.start_gate_with(&[]).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    let is_verdict = |event: &&v1::Event| matches!(event.kind, Some(v1::event::Kind::Verdict(_)));
    assert_eq!(deployment.events(&run.id).await?.iter().filter(is_verdict).count(), 1);
    deployment.finish().await
}

#[tokio::test]
async fn runs_outlive_the_death_of_all_three_services() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&QUICK).await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark("first"))]),
        step("second", &["first"], &[shell(&trail.mark_and_wait("second"))]),
        step("third", &["second"], &[shell(&trail.mark("third"))]),
    ];
    let request = script::repeatable(script::request(&plan(&steps), ""));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("second") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.gate.kill().await?;
    deployment.replace_planner().await?;
    deployment.start_gate_with(&[]).await?;
    deployment.add_executor(&[]).await?;
    trail.let_go()?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["first", "second", "third"].map(|name| trail.marks(name)), [1, 2, 1]);
    deployment.finish().await
}
