//! The same rules over the API: an agent with a token leases each turn and submits its text.

use crate::drivers::scenarios::{Scenario, scenarios};
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::request;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_for_replies_acts_for_an_agent_that_submits_over_the_api() -> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    let folder = tempfile::tempdir()?;
    let mut runs = Vec::new();
    for scenario in scenarios() {
        let workspace = folder.path().join(scenario.name.replace(' ', "-"));
        std::fs::create_dir(&workspace)?;
        let limits = v1::Limits { max_replans: Some(0), max_repairs: Some(0), ..scenario.limits };
        let request = v1::CreateRunRequest {
            limits: Some(limits),
            ..request(&scenario.plan, &workspace.to_string_lossy())
        };
        let run_id = crate::drivers::create_driven(&deployment, request).await?.to_string();
        runs.push((scenario, run_id, workspace));
    }
    deployment.add_executor(&[]).await?;
    let agent = Agent::new(&deployment.executors[0], AGENT, "agent-1")?;
    for (scenario, run_id, workspace) in &runs {
        let played = play(&deployment, &agent, scenario, run_id).await;
        played.with_context(|| format!("scenario {:?}", scenario.name))?;
        let written = workspace.join("out.txt").exists();
        ensure!(written == scenario.writes, "{:?}: the file is there: {written}", scenario.name);
    }
    deployment.finish().await
}

async fn play(
    deployment: &Deployment,
    agent: &Agent,
    scenario: &Scenario,
    run_id: &str,
) -> Result<()> {
    let mut work = Some(agent.work(run_id).await?);
    for (turn, says) in scenario.says.iter().enumerate() {
        let present = match work.take() {
            Some(present) => present,
            // A question or the end of a step ended the lease.
            None => {
                if let Some(answer) = scenario.answer {
                    let question = deployment.question(run_id).await?;
                    deployment.answer(&question.wait_id, answer).await?;
                }
                agent.work(run_id).await?
            }
        };
        let notices = scenario.notices.iter().filter(|(of, _)| *of == turn);
        let newest = present.context.messages.last().context("a message")?;
        for word in notices.flat_map(|(_, words)| *words) {
            ensure!(newest.text.contains(word), "turn {turn} was told {newest:?}");
        }
        if scenario.slow_reply == Some(turn) {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let answer = agent.submit(&present, says).await?;
        let corrected = answer.outcome() == v1::TurnOutcome::Corrected;
        ensure!(!corrected || !answer.correction.is_empty(), "{answer:#?}");
        work = answer.next.map(|context| Work { context, ..present });
    }
    if let Some(waits_for) = scenario.blocks_on {
        let blocked = deployment.question(run_id).await?;
        ensure!(blocked.waiting_on() == waits_for, "{blocked:#?}");
        let run_id = run_id.to_owned();
        let cancel = v1::CancelRunRequest { run_id, ..v1::CancelRunRequest::default() };
        deployment.runs()?.cancel_run(cancel).await?;
    }
    let run = deployment.wait_for_end(run_id).await?;
    let terminal = run.terminal.clone().context("no terminal")?;
    ensure!(terminal.stop_reason() == scenario.ends, "{terminal:#?}");
    let is_abort = scenario.ends == v1::StopReason::Aborted;
    ensure!((terminal.abort_code == "no_way") == is_abort, "{terminal:#?}");
    let is_done = scenario.ends == v1::StopReason::Accepted;
    ensure!(run.final_answer.is_empty() != is_done, "the final answer: {run:#?}");
    let events = deployment.events(run_id).await?;
    let turns = events.iter().filter(|event| matches!(event.kind, Some(v1::event::Kind::Turn(_))));
    ensure!(u64::try_from(turns.count())? == scenario.recorded, "each reply is one turn");
    crate::drivers::check_calls(scenario, &events)
}
