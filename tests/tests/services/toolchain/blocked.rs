//! A report ends a task whose run is blocked on a person, and a task that stays blocked keeps its clock.

use anyhow::{Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, call};
use surety_e2e::toolchain::{LOGIN, Stage};

const REPORT: &str = "Changed src/list.rs; CI run 12 passed; opened #8.";

async fn blocked(stage: &Stage, run_id: &str) -> Result<v1::Task> {
    stage.wait_for(run_id, "blocked", |task| task.state() == v1::RunState::Blocked).await
}

#[tokio::test]
async fn a_report_ends_a_task_whose_agent_asked_a_question_before() -> Result<()> {
    let stage = Stage::start().await?;
    let run_id = stage.assigned(61, LOGIN).await?;
    let agent = stage.agent(AGENT)?;
    let work = agent.work(&run_id).await?;
    let ask = json!({"action": "ask_user", "speak": "Which list is meant?"}).to_string();
    agent.submit(&work, &ask).await?;
    blocked(&stage, &run_id).await?;
    let answer = stage.report(AGENT, &run_id, REPORT).await?;
    ensure!(answer.accepted, "{answer:#?}");
    ensure!(stage.ended(&run_id).await?.outcome == "accepted", "{answer:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_report_ends_a_task_whose_call_was_lost_with_its_executor() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage.deployment.first_executor()?.kill().await?;
    stage.deployment.executors.clear();
    stage.deployment.add_executor(&[("SURETY_CRASH_POINT", "executor.after_intent:1")]).await?;
    let run_id = stage.assigned(62, LOGIN).await?;
    let agent = stage.agent(AGENT)?;
    let work = agent.work(&run_id).await?;
    let command = call("run_command", json!({"argv": ["make", "deploy"]})).to_string();
    let lost = agent.submit(&work, &command).await;
    ensure!(lost.is_err(), "the executor did not end: {lost:#?}");
    stage.deployment.add_executor(&[]).await?;
    blocked(&stage, &run_id).await?;
    let answer = stage.report(AGENT, &run_id, REPORT).await?;
    ensure!(answer.accepted, "{answer:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_reported_task_that_an_operator_paused_keeps_its_clock_until_it_goes_on() -> Result<()> {
    let stage = Stage::start().await?;
    let run_id = stage.assigned(63, LOGIN).await?;
    stage.wait_for(&run_id, "at work", |task| task.remind_at.is_some()).await?;
    let pause = v1::PauseRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.pause_run(pause).await?;
    let before = blocked(&stage, &run_id).await?;
    let answer = stage.report(AGENT, &run_id, REPORT).await?;
    ensure!(!answer.accepted && answer.reason.contains("ResumeRun"), "{answer:#?}");
    let after = stage.task(&run_id).await?;
    ensure!(after.reported_at.is_some() && after.remind_at == before.remind_at, "{after:#?}");
    let resume = v1::ResumeRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.resume_run(resume).await?;
    let ended = stage.ended(&run_id).await?;
    ensure!(ended.outcome == "accepted" && ended.remind_at.is_none(), "{ended:#?}");
    stage.deployment.finish().await
}
