//! `surety run --goal`: from a goal to a verdict, and what is said without an endpoint.

use crate::model::stage::{
    MODEL, Stage, is_planning, next_plan, one_step, say, unplanned, write_answer,
};
use anyhow::{Result, ensure};
use serde_json::json;
use surety_common::domain::fault::{FaultCode, Reason};
use surety_common::wire::status::from_status;
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::model_server::Settings;

#[tokio::test]
async fn a_goal_is_carried_to_a_verdict_by_one_command() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().to_string_lossy().into_owned();
    stage.plays.add("Write the answer", |number, asked| match is_planning(asked) {
        true => {
            assert!(asked.last().contains("test -f answer.txt"), "{}", asked.last());
            assert!(asked.system.contains("- write_file: "), "{}", asked.system);
            say(&one_step())
        }
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let said = stage
        .deployment
        .command_line(&[
            "run",
            "--goal",
            "Write the answer",
            "--workspace",
            &workspace,
            "--verify",
            "sh -c 'test -f answer.txt'",
        ])
        .await?;
    ensure!(said.contains("accepted") || said.contains("DONE"), "{said}");
    ensure!(folder.path().join("answer.txt").is_file(), "the file is not there");
    let runs =
        stage.deployment.runs()?.list_runs(v1::ListRunsRequest::default()).await?.into_inner();
    let run = stage.deployment.run(&runs.runs[0].id).await?;
    let strength = run.verdict.map(|verdict| verdict.strength()).unwrap_or_default();
    ensure!(strength == v1::VerdictStrength::Independent, "the user's check counts: {strength:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn without_an_endpoint_the_settings_are_named() -> Result<()> {
    let deployment = Deployment::start().await?;
    let request = v1::CreateRunRequest {
        goal: "x".to_owned(),
        driver: v1::Driver::Model.into(),
        ..v1::CreateRunRequest::default()
    };
    let refused = deployment.runs()?.create_run(request).await;
    let fault = from_status(&refused.expect_err("no model is configured"));
    ensure!(fault.reason == Reason::Service(FaultCode::FeatureNotServed), "{fault:?}");
    ensure!(fault.message.contains("SURETY_MODEL_URL"), "{fault:?}");
    let said = deployment.command_line(&["run", "--goal", "x"]).await;
    let said = format!("{:#}", said.expect_err("no model is configured"));
    ensure!(said.contains("SURETY_MODEL_URL") && said.contains("SURETY_MODEL_NAME"), "{said}");
    deployment.finish().await
}

#[tokio::test]
async fn a_model_that_its_endpoint_does_not_know_is_named_at_the_start_and_by_the_run() -> Result<()>
{
    let settings = Settings { models: vec!["other-model".to_owned()], ..Settings::default() };
    let stage = Stage::start_with(settings, &[]).await?;
    let named = |line: &str| {
        line.contains("model_unknown") && line.contains(MODEL) && line.contains("other-model")
    };
    stage.deployment.planner.wait_for_line(named).await?;
    stage.deployment.executors[0].wait_for_line(named).await?;
    let run = stage.deployment.create_run(unplanned("unknown", "")).await?;
    let waits = |run: &v1::Run| {
        let blocked = run.blocked.as_ref();
        blocked.is_some_and(|it| {
            it.unblocks.contains("Correct `model`") && it.unblocks.contains(MODEL)
        })
    };
    stage.deployment.wait_for(&run.id, "waiting for a model that is known", waits).await?;
    // An operator gives the endpoint the model, and the run goes on.
    stage.plays.add("unknown", |_, _| say(&json!({"abort": {}})));
    stage.server.change(|settings| settings.models = vec![MODEL.to_owned()]);
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    let reason = ended.terminal.map(|terminal| terminal.stop_reason());
    ensure!(reason == Some(v1::StopReason::PlanParseFailed), "{reason:?}");
    stage.deployment.finish().await
}
