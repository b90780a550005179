//! Models of any quality. Each scenario states how its run ends and how many calls of the model that may cost.

mod faults;
mod plans;
mod replies;
mod schemas;
mod work;

use crate::model::stage::{
    Stage, file_check, next_plan, one_step, planned, say, stop_reason, tool, unplanned,
    write_answer,
};
use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use surety_common::wire::v1::{self, StopReason};
use surety_e2e::model_server::{Asked, Reply};

/// The fewest scenarios of all tables together.
const LEAST: usize = 90;

type Say = fn(usize, &Asked) -> Reply;
/// A request for a run with a goal in a folder.
type Request = fn(&str, &str) -> v1::CreateRunRequest;

/// A run: what the model says, how it ends, and how often the model is asked.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    request: Request,
    says: Say,
    ends: StopReason,
    calls: usize,
}

/// One step with a plan.
fn step(goal: &str, folder: &str) -> v1::CreateRunRequest {
    planned(goal, &one_step(), folder)
}

/// A goal alone.
fn goal(goal: &str, folder: &str) -> v1::CreateRunRequest {
    unplanned(goal, folder)
}

/// A request with limits.
fn limited(request: v1::CreateRunRequest, limits: v1::Limits) -> v1::CreateRunRequest {
    v1::CreateRunRequest { limits: Some(limits), ..request }
}

/// A goal with a check of the user, without repairs.
fn judged(goal: &str, folder: &str) -> v1::CreateRunRequest {
    let limits = v1::Limits { max_repairs: Some(0), ..v1::Limits::default() };
    let request = unplanned(goal, folder);
    limited(v1::CreateRunRequest { verify: vec![file_check("answer.txt")], ..request }, limits)
}

/// Two steps, of which the second needs the first.
fn two_steps(goal: &str, folder: &str) -> v1::CreateRunRequest {
    let plan = json!({"title": "Two", "steps": [
        {"id": "a", "description": "write answer.txt"},
        {"id": "b", "description": "look", "dependencies": ["a"]},
    ]});
    planned(goal, &plan, folder)
}

/// Good replies from a number on.
fn well(number: usize) -> Reply {
    if number == 0 { write_answer() } else { next_plan() }
}

/// Something else first, then good replies.
fn after(number: usize, first: impl FnOnce() -> Reply) -> Reply {
    match number.checked_sub(1) {
        None => first(),
        Some(number) => well(number),
    }
}

/// The decisions of a good model, as JSON.
fn decision(number: usize) -> Value {
    match number {
        0 => json!({"action": "continue", "tool_call": {"name": "write_file",
            "arguments": {"path": "answer.txt", "content": "42"}}}),
        _ => json!({"action": "next_plan", "speak": "done", "goal_check": "it is there"}),
    }
}

/// A plan whose step needs no evidence.
fn without_evidence() -> Value {
    json!({"title": "Easy", "steps": [
        {"id": "s", "description": "say that it is done", "evidence": "none"}]})
}

fn look(pattern: &str) -> Reply {
    tool("glob", json!({"pattern": pattern}))
}

fn replan() -> Reply {
    say(&json!({"control": "replan", "reason": "the folder is wrong"}))
}

/// Plays scenarios beside one another.
async fn play_all<'s>(stage: &Stage, scenarios: impl Iterator<Item = &'s Scenario>) -> Result<()> {
    let outcomes = join_all(scenarios.map(|scenario| play(stage, scenario))).await;
    let wrong: Vec<String> =
        outcomes.into_iter().filter_map(|outcome| Some(format!("{:#}", outcome.err()?))).collect();
    ensure!(wrong.is_empty(), "{} scenarios went otherwise:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

async fn play(stage: &Stage, scenario: &Scenario) -> Result<()> {
    let Scenario { name, request, says, ends, calls } = *scenario;
    stage.plays.add(name, says);
    comes_to(stage, name, request, ends, calls).await
}

/// Carries out a run whose play was added, and compares its end and its cost.
async fn comes_to(
    stage: &Stage,
    name: &str,
    request: Request,
    ends: StopReason,
    calls: usize,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let run = stage.deployment.create_run(request(name, &folder.path().to_string_lossy())).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    let reason = stop_reason(&ended)?;
    let said = ended.terminal.as_ref().context("an end")?.user_message.clone();
    ensure!(reason == ends, "{name}: it ended with {reason:?}, not {ends:?}: {said}");
    let made = stage.plays.calls(name);
    ensure!(made == calls, "{name}: it cost {made} calls, not {calls}: {said}");
    Ok(())
}

#[tokio::test]
async fn every_model_comes_to_the_end_that_its_scenario_states_at_the_cost_that_it_states()
-> Result<()> {
    let stage = Stage::start().await?;
    play_all(&stage, replies::SCENARIOS.iter().chain(work::SCENARIOS).chain(plans::SCENARIOS))
        .await?;
    stage.deployment.finish().await
}

#[test]
fn there_are_enough_scenarios_and_each_has_a_name_of_its_own() {
    let tables = [replies::SCENARIOS, work::SCENARIOS, plans::SCENARIOS, faults::SCENARIOS];
    let named = tables.iter().copied().flatten().map(|scenario| scenario.name);
    let names: Vec<&str> = named.chain(faults::ONCE.iter().map(|(name, _)| *name)).collect();
    assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
    assert!(names.len() >= LEAST, "{}", names.len());
}
