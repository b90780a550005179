//! Pausing: running work ends, no new work starts, and the run continues in its phase.

use anyhow::{Context, Result};
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::harness::{Database, Deployment, wait_until};
use surety_e2e::script::{self, Trail, noop, plan, shell, step};

async fn pause(deployment: &Deployment, run_id: &str) -> Result<v1::Run> {
    let request = v1::PauseRunRequest {
        run_id: run_id.to_owned(),
        reason: "lunch".to_owned(),
        ..Default::default()
    };
    let response = deployment.runs()?.pause_run(request).await?.into_inner();
    response.run.context("the response holds the run")
}

async fn resume(deployment: &Deployment, run_id: &str) -> Result<v1::Run> {
    let request = v1::ResumeRunRequest {
        run_id: run_id.to_owned(),
        reason: String::new(),
        ..Default::default()
    };
    let response = deployment.runs()?.resume_run(request).await?.into_inner();
    response.run.context("the response holds the run")
}

async fn waits(deployment: &Deployment, run_id: &str) -> Result<Vec<v1::Wait>> {
    let request = v1::ListWaitsRequest { run_id: run_id.to_owned(), ..Default::default() };
    Ok(deployment.runs()?.list_waits(request).await?.into_inner().waits)
}

fn moves(events: &[v1::Event]) -> Vec<&str> {
    let moves = events.iter().filter_map(|event| match &event.kind {
        Some(v1::event::Kind::Transition(moved))
            if matches!(moved.subject, Some(v1::transition::Subject::RunId(_))) =>
        {
            Some(moved.event.as_str())
        }
        _ => None,
    });
    moves.collect()
}

#[tokio::test]
async fn a_turn_under_way_ends_before_the_run_rests_and_the_next_step_waits_for_the_resume()
-> Result<()> {
    let trail = Trail::new()?;
    let deployment = Deployment::start().await?;
    let steps = [
        step("first", &[], &[shell(&trail.mark_and_wait("first"))]),
        step("second", &["first"], &[shell(&trail.mark("second"))]),
    ];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("first") == 1).await?;
    let run = pause(&deployment, &run.id).await?;
    assert_eq!(run.state(), v1::RunState::Executing, "its turn is still under way: {run:#?}");
    let listed = waits(&deployment, &run.id).await?;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert_eq!(listed[0].waiting_on(), v1::WaitingOn::Operator);
    let again = pause(&deployment, &run.id).await?;
    assert_eq!(again.version, run.version, "pausing a paused run changes nothing");
    trail.let_go()?;

    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    let run = deployment.wait_for(&run.id, "blocked", blocked).await?;
    let shown = run.blocked.clone().unwrap_or_default();
    assert_eq!(shown.waiting_on(), v1::WaitingOn::Operator);
    assert_eq!(shown.returns_to(), v1::RunState::Executing);
    assert!(shown.unblocks.contains("ResumeRun") && shown.unblocks.contains("lunch"), "{shown:#?}");
    let states: Vec<_> = run.steps.iter().map(v1::StepProgress::state).collect();
    assert_eq!(states, [v1::StepState::Done, v1::StepState::Ready], "the turn was recorded");
    assert!(run.lease.is_none());

    resume(&deployment, &run.id).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(["first", "second"].map(|name| trail.marks(name)), [1, 1]);
    let events = deployment.events(&run.id).await?;
    let moves = moves(&events);
    let expected = ["pause_requested", "blocked", "resume_requested", "unblocked"];
    assert!(moves.windows(4).any(|part| part == expected), "{moves:?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_run_without_a_lease_is_paused_at_once_and_can_be_cancelled() -> Result<()> {
    let deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let run = deployment.create(&plan(&[step("only", &[], &[noop()])]), "").await?;
    let run = pause(&deployment, &run.id).await?;
    assert_eq!(run.state(), v1::RunState::Blocked, "{run:#?}");
    let request = v1::CancelRunRequest {
        run_id: run.id.clone(),
        reason: String::new(),
        ..Default::default()
    };
    deployment.runs()?.cancel_run(request).await?;
    let run = deployment.run(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Cancelled, "{run:#?}");
    assert!(waits(&deployment, &run.id).await?.is_empty());
    let refused = |status: &tonic::Status| from_status(status).reason.as_str().to_owned();
    let pause =
        v1::PauseRunRequest { run_id: run.id.clone(), reason: String::new(), ..Default::default() };
    let status = deployment.runs()?.pause_run(pause).await.err().context("it has ended")?;
    assert_eq!(refused(&status), "run_terminal");
    deployment.finish().await
}

#[tokio::test]
async fn a_run_without_a_plan_can_be_paused_takes_its_plan_and_starts_after_the_resume()
-> Result<()> {
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    let order = v1::CreateRunRequest { goal: "do it".to_owned(), ..Default::default() };
    let run = deployment.create_run(order).await?;
    assert_eq!(run.state(), v1::RunState::Blocked);
    let run = pause(&deployment, &run.id).await?;
    let on: Vec<_> = waits(&deployment, &run.id).await?.iter().map(v1::Wait::waiting_on).collect();
    assert_eq!(on, [v1::WaitingOn::Model, v1::WaitingOn::Operator], "the oldest first");
    let text = plan(&[step("only", &[], &[noop()])]).to_string();
    let request = v1::SubmitPlanRequest {
        run_id: run.id.clone(),
        plan_source: Some(v1::submit_plan_request::PlanSource::PlanText(text)),
        ..Default::default()
    };
    let submitted = deployment.plans()?.submit_plan(request).await?.into_inner();
    let run = submitted.run.context("the response holds the run")?;
    assert_eq!(run.state(), v1::RunState::Blocked, "it is still paused: {run:#?}");
    assert_eq!(run.plan_revision, 1);
    deployment.add_executor(&[]).await?;
    let run = resume(&deployment, &run.id).await?;
    let resumed = resume(&deployment, &run.id).await.err().context("it is not paused")?;
    let status = resumed.downcast_ref::<tonic::Status>().context("a status")?;
    assert!(
        ["run_not_paused", "run_terminal"].contains(&from_status(status).reason.as_str()),
        "{status:?}"
    );
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn a_question_can_be_answered_while_its_run_is_paused() -> Result<()> {
    let quick = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
    ];
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&quick).await?;
    let steps = [step("only", &[], &[shell(&trail.mark_and_wait("only"))])];
    let run = deployment.create(&plan(&steps), "").await?;
    wait_until("the command began", || trail.marks("only") == 1).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    let question = deployment.question(&run.id).await?;
    let run = pause(&deployment, &run.id).await?;
    assert_eq!(waits(&deployment, &run.id).await?.len(), 2);
    trail.let_go()?;
    deployment.answer(&question.wait_id, "repeat").await?;
    let still = deployment.run(&run.id).await?;
    assert_eq!(still.state(), v1::RunState::Blocked, "{still:#?}");
    assert_eq!(trail.marks("only"), 1);
    resume(&deployment, &run.id).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    assert_eq!(trail.marks("only"), 2);
    deployment.finish().await
}

#[tokio::test]
async fn an_executor_that_dies_on_the_way_to_a_pause_leaves_a_paused_run() -> Result<()> {
    let quick = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
    ];
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&quick).await?;
    let request = script::repeatable(script::request(
        &plan(&[step("only", &[], &[shell(&trail.mark_and_wait("only"))])]),
        "",
    ));
    let run = deployment.create_run(request).await?;
    wait_until("the command began", || trail.marks("only") == 1).await?;
    let run = pause(&deployment, &run.id).await?;
    deployment.first_executor()?.kill().await?;
    deployment.add_executor(&[]).await?;
    let blocked = |run: &v1::Run| run.state() == v1::RunState::Blocked;
    let run = deployment.wait_for(&run.id, "blocked", blocked).await?;
    assert_eq!(trail.marks("only"), 1, "nothing was started again");
    trail.let_go()?;
    resume(&deployment, &run.id).await?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}

#[tokio::test]
async fn an_answered_step_does_not_wait_for_its_slowest_sibling() -> Result<()> {
    let quick = [
        ("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000"),
        ("SURETY_EXECUTOR_HEARTBEAT_INTERVAL_MS", "200"),
    ];
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_with(&quick).await?;
    let asking = |name: &str| {
        let line = trail.mark_and_wait(name);
        let call = serde_json::json!({"name": "run_command",
            "arguments": {"argv": ["env", "sh", "-c", line], "timeout_s": 60}});
        script::scoped(step(name, &[], &[call]), &[name])
    };
    let line = format!(
        "{}; while [ ! -e '{}' ]; do sleep 0.02; done",
        trail.mark("slow"),
        trail.path("end").display(),
    );
    // It may be run again after a crash, and the others ask first.
    let slow = script::scoped(step("slow", &[], &[shell(&line)]), &["slow"]);
    let steps = [slow, asking("one"), asking("two")];
    let request = script::repeatable(script::request(&plan(&steps), ""));
    let run = deployment.create_run(request).await?;
    let begun = |count| ["slow", "one", "two"].iter().all(|name| trail.marks(name) == count);
    wait_until("the commands began", || begun(1)).await?;
    deployment.first_executor()?.kill().await?;
    trail.let_go()?;
    deployment.add_executor(&[]).await?;
    wait_until("the slow one was begun again", || trail.marks("slow") == 2).await?;
    let two_wait = |run: &v1::Run| {
        run.steps.iter().filter(|step| step.state() == v1::StepState::Waiting).count() == 2
    };
    deployment.wait_for(&run.id, "waiting for two answers", two_wait).await?;
    for wait in waits(&deployment, &run.id).await? {
        deployment.answer(&wait.id, "repeat").await?;
    }
    let done = |run: &v1::Run| {
        run.steps.iter().filter(|step| step.state() == v1::StepState::Done).count() == 2
    };
    let working = deployment.wait_for(&run.id, "done but for the slow one", done).await?;
    assert_eq!(working.state(), v1::RunState::Executing, "{working:#?}");
    assert!(begun(2), "each was begun again once");
    std::fs::write(trail.path("end"), "")?;
    let run = deployment.wait_for_end(&run.id).await?;
    assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    deployment.finish().await
}
