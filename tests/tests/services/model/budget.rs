//! The budgets of runs whose plans a model makes: each call has a reservation, and without one no model is asked.

use crate::model::stage::{
    Stage, is_planning, next_plan, one_step, planned, say, stop_reason, unplanned, write_answer,
};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::Duration;
use surety_common::wire::v1;
use surety_e2e::model_server::Settings;

fn with_budget(request: v1::CreateRunRequest, tokens: u64) -> v1::CreateRunRequest {
    let limits = v1::Limits {
        token_budget: Some(tokens),
        max_turn_tokens: Some(20_000),
        ..v1::Limits::default()
    };
    v1::CreateRunRequest { limits: Some(limits), ..request }
}

/// What the run is blocked on, once that is a budget.
async fn budget_wait(stage: &Stage, run_id: &str) -> Result<v1::Blocked> {
    let is_short = |run: &v1::Run| {
        run.blocked.as_ref().is_some_and(|blocked| blocked.kind() == v1::WaitKind::Budget)
    };
    let run = stage.deployment.wait_for(run_id, "waiting for a budget", is_short).await?;
    run.blocked.context("it is blocked")
}

#[tokio::test]
async fn a_plan_that_is_being_made_has_a_reservation_which_a_cancelled_run_is_charged_with()
-> Result<()> {
    let stage = Stage::start().await?;
    stage.plays.add("reserved", |_, _| say(&one_step()).head_after(Duration::from_secs(600)));
    let request = with_budget(unplanned("reserved", ""), 1_000_000);
    let run = stage.deployment.create_run(request).await?;
    stage
        .server
        .wait_until(|recorded| recorded.iter().any(|it| it.line.starts_with("POST")))
        .await?;
    let bound = stage.asked("reserved").first().and_then(|asked| asked.max_tokens);
    let is_rest = bound.is_some_and(|bound| (512..8192).contains(&bound));
    ensure!(is_rest, "the reply has the rest of it: {bound:?}");
    let counters =
        |run: v1::Run| run.counters.map(|counters| (counters.tokens, counters.reserved_tokens));
    let now = counters(stage.deployment.run(&run.id).await?);
    ensure!(now == Some((0, 20_000)), "{now:?}");
    stage.deployment.command_line(&["cancel", &run.id]).await?;
    let now = counters(stage.deployment.wait_for_end(&run.id).await?);
    ensure!(now == Some((20_000, 0)), "{now:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_replan_without_a_budget_asks_a_person_and_no_model() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("short", |number, asked| match (is_planning(asked), number) {
        (true, _) => {
            assert!(asked.last().contains("the folder is wrong"), "{}", asked.last());
            let update = json!({"id": "s", "description": "write answer.txt again"});
            say(&json!({"update_steps": [update], "reason": "the folder"}))
        }
        (false, 0) => say(&json!({"control": "replan", "reason": "the folder is wrong"})),
        (false, 2) => write_answer(),
        (false, _) => next_plan(),
    });
    let request = planned("short", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(with_budget(request, 16_000)).await?;
    let blocked = budget_wait(&stage, &run.id).await?;
    ensure!(blocked.kind() == v1::WaitKind::Budget, "{blocked:#?}");
    ensure!(blocked.question.contains("token_budget (16000) has too little left"), "{blocked:#?}");
    ensure!(stage.plays.calls("short") == 1, "a model was asked without a budget");
    let more = v1::ExtendBudgetRequest {
        run_id: run.id.clone(),
        add_tokens: 1_000_000,
        ..v1::ExtendBudgetRequest::default()
    };
    stage.deployment.runs()?.extend_budget(more).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("short") == 4, "{}", stage.plays.calls("short"));
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_reply_has_more_than_its_share_of_a_small_budget_so_that_it_is_not_cut() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("small", |number, _| if number == 0 { write_answer() } else { next_plan() });
    let limits = v1::Limits { token_budget: Some(30_000), ..v1::Limits::default() };
    let request = planned("small", &one_step(), &folder.path().to_string_lossy());
    let run = stage
        .deployment
        .create_run(v1::CreateRunRequest { limits: Some(limits), ..request })
        .await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    // A share has 7500 tokens, fewer than the prompt may have.
    let bounds: Vec<Option<u64>> =
        stage.asked("small").iter().map(|asked| asked.max_tokens).collect();
    let whole = |bound: &Option<u64>| bound.is_some_and(|bound| bound >= 2048);
    ensure!(bounds.len() == 2 && bounds.iter().all(whole), "{bounds:?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn without_a_budget_of_cost_for_a_reply_a_person_is_asked_and_no_model() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    let price = "[model.default]\n[price.test-model]\ninput = 1.0\noutput = 10.0\n";
    std::fs::write(file.path(), price)?;
    let path = file.path().to_string_lossy().into_owned();
    let environment = [("SURETY_MODEL_PROFILES_FILE", path.as_str())];
    let stage = Stage::start_with(Settings::default(), &environment).await?;
    let folder = tempfile::tempdir()?;
    let limits = v1::Limits { cost_budget_micros: Some(1), ..v1::Limits::default() };
    for goal in ["dear step", "dear plan"] {
        stage.plays.add(goal, |number, asked| match is_planning(asked) {
            true => say(&one_step()),
            false if number < 2 => write_answer(),
            false => next_plan(),
        });
        let folder = folder.path().to_string_lossy();
        let request = match goal {
            "dear step" => planned(goal, &one_step(), &folder),
            _ => unplanned(goal, &folder),
        };
        let request = v1::CreateRunRequest { limits: Some(limits), ..request };
        let run = stage.deployment.create_run(request).await?;
        let blocked = budget_wait(&stage, &run.id).await?;
        ensure!(blocked.kind() == v1::WaitKind::Budget, "{blocked:#?}");
        ensure!(blocked.question.contains("cost_budget_micros (1) has too little"), "{blocked:#?}");
        ensure!(stage.plays.calls(goal) == 0, "a model was asked without a budget");
        let more = v1::ExtendBudgetRequest {
            run_id: run.id.clone(),
            add_cost_micros: 10_000_000,
            ..v1::ExtendBudgetRequest::default()
        };
        stage.deployment.runs()?.extend_budget(more).await?;
        let ended = stage.deployment.wait_for_end(&run.id).await?;
        ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    }
    stage.deployment.finish().await
}
