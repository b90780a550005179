//! What an agent says is kept where people look for it: its speech before a call, its answer, its code.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::agent::{AGENT, Agent, PERSON, call, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;

async fn deployed() -> Result<(Deployment, Agent, NamedTempFile)> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", path.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let agent = Agent::new(&deployment.executors[0], AGENT, "agent-1")?;
    Ok((deployment, agent, tokens))
}

async fn driven_run(deployment: &Deployment, steps: &[serde_json::Value]) -> Result<String> {
    let driver = v1::Driver::Remote.into();
    let request = v1::CreateRunRequest { driver, ..request(&plan(steps), "") };
    Ok(deployment.create_run(request).await?.id)
}

#[tokio::test]
async fn what_an_agent_says_is_shown_while_the_call_that_it_goes_with_still_runs() -> Result<()> {
    let (deployment, agent, _tokens) = deployed().await?;
    for key in ["speak", "reason"] {
        is_shown_during_the_call(&deployment, agent.clone(), key).await?;
    }
    deployment.finish().await
}

async fn is_shown_during_the_call(deployment: &Deployment, agent: Agent, key: &str) -> Result<()> {
    let run_id = driven_run(deployment, &[json!({"id": "s", "description": "look"})]).await?;
    let work = agent.work(&run_id).await?;
    let mut reply = call("noop", json!({"wait_ms": 10_000}));
    reply[key] = json!("I will look for a while.");
    let submitting = tokio::spawn(async move { agent.submit(&work, &reply.to_string()).await });
    let watch = v1::WatchRunRequest {
        run_id: run_id.clone(),
        from_sequence: 1,
        follow: true,
        progress: false,
    };
    let mut events = deployment.runs()?.watch_run(watch).await?.into_inner();
    let said = loop {
        let response = events.message().await?.context("the stream goes on")?;
        match response.event.and_then(|event| event.kind) {
            Some(Kind::Receipt(receipt)) => anyhow::bail!("the call ended first: {receipt:#?}"),
            Some(Kind::Turn(turn)) => {
                let decision = turn.decision.context("a decision")?;
                break format!("{}{}", decision.speak, decision.reason);
            }
            _ => {}
        }
    };
    ensure!(said == "I will look for a while.", "{said}");
    ensure!(!submitting.is_finished(), "the call takes longer than its words");
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    deployment.wait_for_end(&run_id).await?;
    // The turn was stored, so its outcome is that the run ended.
    let answer = submitting.await?;
    ensure!(answer.is_err() || answer.is_ok_and(|answer| answer.next.is_none()));
    Ok(())
}

#[tokio::test]
async fn the_words_of_the_last_done_are_the_answer_of_the_run_and_an_abort_keeps_its_code()
-> Result<()> {
    let (deployment, agent, _tokens) = deployed().await?;
    let none = |id: &str| json!({"id": id, "description": id, "evidence": "none"});
    let mut second = none("b");
    second["dependencies"] = json!(["a"]);
    let run_id = driven_run(&deployment, &[none("a"), second]).await?;
    let work = agent.work(&run_id).await?;
    let next = json!({"action": "next_plan", "speak": "halfway", "goal_check": "a is done"});
    agent.submit(&work, &next.to_string()).await?;
    let work = agent.work(&run_id).await?;
    ensure!(deployment.run(&run_id).await?.final_answer.is_empty(), "a step is no answer");
    let done = json!({"action": "done", "speak": "Forty-two.", "goal_check": "both are done"});
    agent.submit(&work, &done.to_string()).await?;
    let run = deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done && run.final_answer == "Forty-two.", "{run:#?}");

    let run_id = driven_run(&deployment, &[none("a")]).await?;
    let work = agent.work(&run_id).await?;
    let abort = json!({"action": "abort", "abort": {"code": "no_access",
        "user_message": "The folder cannot be read.", "internal_reason": "EACCES"}});
    let answer = agent.submit(&work, &abort.to_string()).await?;
    ensure!(answer.outcome() == v1::TurnOutcome::RunEnded, "{answer:#?}");
    let terminal = deployment.wait_for_end(&run_id).await?.terminal.context("an end")?;
    let kept = (terminal.abort_code.as_str(), terminal.internal_reason.as_str());
    ensure!(kept == ("no_access", "EACCES"), "{terminal:#?}");
    ensure!(terminal.user_message == "The folder cannot be read.", "{terminal:#?}");
    let events = deployment.events(&run_id).await?;
    let codes = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::Turn(turn)) => turn.decision.as_ref()?.abort.as_ref(),
        _ => None,
    });
    ensure!(codes.map(|abort| abort.code.as_str()).collect::<Vec<_>>() == ["no_access"]);
    deployment.finish().await
}
