//! Participants in a storm: agents that are killed beside executors, and people whose answers come while every
//! service is replaced.

use super::QUICK;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::Duration;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{noop, plan, request, step};
use tempfile::NamedTempFile;
use tokio::task::{AbortHandle, JoinSet};

/// Agents at work in a storm.
const AGENTS: usize = 4;
/// Runs of a storm, and how often it strikes.
const RUNS: usize = 12;
const BLOWS: usize = 6;

async fn deployed() -> Result<(Deployment, NamedTempFile)> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let [age_limit, interval] = QUICK;
    let environment = [
        ("SURETY_TOKEN_FILE", path.as_str()),
        ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "1000"),
        // A storm kills executors more often than any call of its runs is given.
        ("SURETY_EXECUTOR_MAX_DEATHS", "1000000"),
        age_limit,
        interval,
    ];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    Ok((deployment, tokens))
}

async fn driven(deployment: &Deployment) -> Result<String> {
    let plan = plan(&[json!({"id": "s", "description": "write"})]);
    let driver = v1::Driver::Remote.into();
    Ok(deployment.create_run(v1::CreateRunRequest { driver, ..request(&plan, "") }).await?.id)
}

/// What an agent replies in a turn of its step: two writes, then the end.
fn reply(turn: u32) -> String {
    match turn {
        1 | 2 => {
            let path = format!("{turn}.txt");
            call("write_file", json!({"path": path, "content": "written\n"})).to_string()
        }
        _ => next_plan().to_string(),
    }
}

/// Leases steps and decides them, at any executor that answers, until it is killed.
async fn work(urls: Vec<String>) {
    for url in urls.iter().cycle() {
        let Ok(agent) = Agent::at(url, AGENT, "agent") else { return };
        let Ok(Some(mut work)) = agent.lease("", 1).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Ok(answer) = agent.submit(&work, &reply(work.context.turn)).await {
            let Some(context) = answer.next else { break };
            work = Work { context, ..work };
        }
    }
}

fn start_agents(deployment: &Deployment, agents: &mut JoinSet<()>) -> Vec<AbortHandle> {
    let urls: Vec<String> = deployment.executors.iter().map(|executor| executor.url()).collect();
    (0..AGENTS).map(|_| agents.spawn(work(urls.clone()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_executors_are_killed_by_turns_and_every_run_reaches_its_verdict() -> Result<()>
{
    let (mut deployment, _tokens) = deployed().await?;
    deployment.add_executor(&[]).await?;
    let mut agents = JoinSet::new();
    let mut alive = start_agents(&deployment, &mut agents);
    let mut runs = Vec::new();
    for blow in 0..BLOWS {
        for _ in 0..RUNS / BLOWS {
            runs.push(driven(&deployment).await?);
        }
        // In the midst of their work: some turns were taken since the last blow.
        let last = runs.last().context("a run")?;
        let begun = |run: &v1::Run| run.counters.is_some_and(|used| used.rounds > 0);
        deployment.wait_for(last, "under way", begun).await?;
        alive.drain(..).for_each(|agent| agent.abort());
        if blow % 2 == 0 {
            deployment.executors.remove(0).kill().await?;
            deployment.add_executor(&[]).await?;
        }
        alive = start_agents(&deployment, &mut agents);
    }
    for run_id in &runs {
        let run = deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        let calls = run.counters.map(|used| used.tool_calls);
        ensure!(calls == Some(2), "each call was made once: {run:#?}");
    }
    agents.abort_all();
    deployment.finish().await
}

/// `make chaos` takes the whole number.
fn many(short: usize, whole: usize) -> usize {
    if std::env::var_os("SURETY_CHAOS_SECONDS").is_some() { whole } else { short }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_for_people_hold_nothing_up_and_answers_come_while_every_service_restarts()
-> Result<()> {
    let (mut deployment, _tokens) = deployed().await?;
    let (waiting, others) = (many(60, 10_000), many(30, 1000));
    for _ in 0..waiting {
        driven(&deployment).await?;
    }
    let agent = Agent::new(&deployment.executors[0], AGENT, "asks")?;
    let ask = json!({"action": "ask_user", "speak": "May I go on?"}).to_string();
    let mut asked = Vec::new();
    for _ in 0..waiting {
        let work = agent.lease("", 30).await?.context("no step was offered")?;
        let answer = agent.submit(&work, &ask).await?;
        ensure!(answer.outcome() == v1::TurnOutcome::Waiting, "{answer:#?}");
        asked.push(work.lease.run_id);
    }
    let mut working = Vec::new();
    for _ in 0..others {
        working.push(deployment.create(&plan(&[step("a", &[], &[noop()])]), "").await?.id);
    }
    for run_id in &working {
        let run = deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    }
    // Some of the people answer while everything is replaced.
    let questions = many(6, 100);
    let mut answering = Vec::new();
    for run_id in asked.iter().take(questions) {
        answering.push((run_id.clone(), deployment.question(run_id).await?.wait_id));
    }
    deployment.executors.clear();
    deployment.gate.kill().await?;
    let (first, rest) = answering.split_first().context("a question")?;
    deployment.answer(&first.1, "yes").await?;
    deployment.replace_planner().await?;
    for (_, wait_id) in rest {
        deployment.answer(wait_id, "yes").await?;
    }
    deployment.start_gate_with(&[]).await?;
    deployment.add_executor(&[]).await?;
    let agent = Agent::new(&deployment.executors[0], AGENT, "goes-on")?;
    for (run_id, _) in &answering {
        let work = agent.work(run_id).await?;
        let told = work.context.messages.iter().any(|message| message.text.contains("yes"));
        ensure!(told, "the answer is shown: {:#?}", work.context);
        let write = call("write_file", json!({"path": "a.txt", "content": "a\n"}));
        agent.take_turns(work, &[write, next_plan()]).await?;
        let run = deployment.wait_for_end(run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    }
    for run_id in asked.iter().skip(questions).take(questions) {
        let run = deployment.run(run_id).await?;
        ensure!(run.state() == v1::RunState::Blocked && run.lease.is_none(), "{run:#?}");
    }
    deployment.finish().await
}
