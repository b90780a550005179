//! Plans of a model that a person approves, or rejects.

use crate::model::stage::{
    Stage, is_planning, mcp_servers, next_plan, one_step, say, stop_reason, tool, unplanned,
    write_answer,
};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::Duration;
use surety_common::wire::v1;
use surety_e2e::harness::PATIENCE;
use surety_e2e::model_server::{Reply, Settings};
use surety_e2e::script::Trail;
use tokio::time::Instant;

fn approved(goal: &str, folder: &str) -> v1::CreateRunRequest {
    let policy = v1::Policy { approve_plan: true, ..v1::Policy::default() };
    v1::CreateRunRequest { policy: Some(policy), ..unplanned(goal, folder) }
}

fn asks(run: &v1::Run) -> bool {
    let blocked = run.blocked.as_ref();
    blocked.is_some_and(|blocked| blocked.waiting_on() == v1::WaitingOn::Approver)
}

#[tokio::test]
async fn a_plan_of_a_model_waits_for_a_person_bound_to_its_digest() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    let says = |number: usize, asked: &surety_e2e::model_server::Asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    };
    stage.plays.add("approved", says);
    stage.plays.add(
        "rejected",
        |number, _| {
            if number == 0 { say(&one_step()) } else { Reply::status(500) }
        },
    );
    for (goal, answer, ends) in [
        ("approved", v1::ConfirmationAnswer::Approve, v1::StopReason::Accepted),
        ("rejected", v1::ConfirmationAnswer::Deny, v1::StopReason::PlanRejected),
    ] {
        let request = approved(goal, &folder.path().to_string_lossy());
        let run = stage.deployment.create_run(request).await?;
        let waiting = stage.deployment.wait_for(&run.id, "waiting for an approver", asks).await?;
        ensure!(stage.plays.calls(goal) == 1, "a step began before the approval");
        let blocked = waiting.blocked.context("it is blocked")?;
        ensure!(blocked.question.contains("Write the answer"), "{blocked:#?}");
        let resolve = |digest: &str| v1::ResolveConfirmationRequest {
            wait_id: blocked.wait_id.clone(),
            answer: answer.into(),
            call_digest: digest.to_owned(),
            ..v1::ResolveConfirmationRequest::default()
        };
        let mut runs = stage.deployment.runs()?;
        let other = runs.resolve_confirmation(resolve(&"0".repeat(64))).await;
        ensure!(other.is_err(), "another digest is taken");
        runs.resolve_confirmation(resolve(&waiting.plan_digest)).await?;
        let ended = stage.deployment.wait_for_end(&run.id).await?;
        ensure!(stop_reason(&ended)? == ends, "{ended:#?}");
    }
    ensure!(stage.plays.calls("rejected") == 1, "a rejected plan costs no further call");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_person_approves_a_plan_on_the_command_line() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("shown", |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let request = approved("shown", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.deployment.wait_for(&run.id, "waiting for an approver", asks).await?;
    let said = stage.deployment.command_line(&["approve", &run.id, "--yes"]).await?;
    ensure!(said.contains("write answer.txt") && said.contains("approved"), "{said}");
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    stage.deployment.finish().await
}

/// What a server says of its tools is no rule for the plan.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_plans_is_shown_the_tools_of_servers_as_data() -> Result<()> {
    let trail = Trail::new()?;
    let file = mcp_servers(&trail)?;
    let path = file.path().display().to_string();
    let environment = [("SURETY_EXECUTOR_MCP", path.as_str())];
    let stage = Stage::start_with(Settings::default(), &environment).await?;
    let pool = stage.deployment.database.pool().await?;
    // The executor lists the tools of its servers after it has said where it listens.
    let shown = || async {
        let count = "select count(*) from shown_server_tool where tool = 't__echo'";
        anyhow::Ok(sqlx::query_scalar::<_, i64>(count).fetch_one(&pool).await? > 0)
    };
    let deadline = Instant::now() + PATIENCE;
    while !shown().await? {
        ensure!(Instant::now() < deadline, "the tools of the server were not stored");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let plan = json!({"title": "Echo", "steps": [
        {"id": "s", "description": "write answer.txt", "tools_expected": ["t__echo", "write_file"]}]});
    stage.plays.add("with servers", move |number, asked| match (is_planning(asked), number) {
        (true, _) => {
            assert!(!asked.system.contains("t__"), "{}", asked.system);
            assert!(asked.last().contains("- t__echo: "), "{}", asked.last());
            say(&plan)
        }
        (false, 1) => tool("t__echo", json!({"text": "hello"})),
        (false, 2) => write_answer(),
        (false, _) => next_plan(),
    });
    let folder = tempfile::tempdir()?;
    let request = unplanned("with servers", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");

    // The server serves the namespace `default` only.
    stage.plays.add("without servers", |number, asked| match (is_planning(asked), number) {
        (true, _) => {
            assert!(!asked.last().contains("t__"), "{}", asked.last());
            say(&one_step())
        }
        (false, 1) => write_answer(),
        (false, _) => next_plan(),
    });
    let folder = tempfile::tempdir()?;
    let request = v1::CreateRunRequest {
        namespace: "elsewhere".to_owned(),
        ..unplanned("without servers", &folder.path().to_string_lossy())
    };
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    stage.deployment.finish().await
}
