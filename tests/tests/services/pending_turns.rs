//! A turn that takes longer than SubmitDecision waits: PENDING, and the repetition follows it to its outcome.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::domain::fault::Reason;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{AGENT, Agent, PERSON, WORKER, Work, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use surety_e2e::worker::{Worker, admit, announce, entry, result, tool};
use tonic::Status;

const TOOL: &str = "translate";

fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}

#[tokio::test]
async fn a_turn_that_takes_long_is_pending_and_the_same_turn_again_has_its_outcome_at_any_executor()
-> Result<()> {
    let tokens = token_file()?;
    let path = tokens.path().to_string_lossy().into_owned();
    let environment = [
        ("SURETY_TOKEN_FILE", path.as_str()),
        ("SURETY_EXECUTOR_TURN_WAIT_MS", "200"),
        // None expires, however slow the machine is.
        ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "300000"),
        ("SURETY_EXECUTOR_WORKER_LEASE_MS", "300000"),
    ];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    for _ in 0..2 {
        deployment.add_executor(&[]).await?;
    }
    admit(&deployment, &[entry(TOOL, WORKER)]).await?;
    let [first, second] = &deployment.executors[..] else { anyhow::bail!("two executors") };
    let mut worker = Worker::connect(first, WORKER, announce("one", &[tool(TOOL)])).await?;
    let (agent, elsewhere) = (Agent::new(first, AGENT, "one")?, Agent::new(second, AGENT, "one")?);
    let only = json!({"id": "s", "description": "translate", "tools_expected": [TOOL]});
    let driver = v1::Driver::Remote.into();
    let order = v1::CreateRunRequest { driver, ..request(&plan(&[only]), "") };
    let run_id = deployment.create_run(order).await?.id;

    let work = agent.work(&run_id).await?;
    let reply = call(TOOL, json!({"text": "a word"})).to_string();
    let other = call(TOOL, json!({"text": "another word"})).to_string();
    let pending = agent.submit(&work, &reply).await?;
    ensure!(
        pending.outcome() == v1::TurnOutcome::Pending && pending.next.is_none(),
        "{pending:#?}"
    );
    let called = worker.call().await?;
    for agent in [&agent, &elsewhere] {
        let pending = agent.submit(&work, &reply).await?;
        ensure!(pending.outcome() == v1::TurnOutcome::Pending, "{pending:#?}");
        let refused = reason(agent.submit(&work, &other).await)?;
        ensure!(refused == "turn_conflict", "another decision while it is under way: {refused}");
    }

    worker.store(result(&called, "ein Wort")).await?;
    let ended = follow(&agent, &work, &reply).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::Applied, "{ended:#?}");
    ensure!(ended.observation.contains("ein Wort") && ended.receipts.len() == 1, "{ended:#?}");
    for agent in [&agent, &elsewhere] {
        let again = agent.submit(&work, &reply).await?;
        ensure!(again == ended, "the stored outcome: {again:#?}\nnot {ended:#?}");
        let refused = reason(agent.submit(&work, &other).await)?;
        ensure!(refused == "turn_conflict", "another decision after its end: {refused}");
    }
    let next = Work { context: ended.next.context("the lease goes on")?, ..work };
    follow(&elsewhere, &next, &next_plan().to_string()).await?;
    let run = deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(run.counters.unwrap_or_default().tool_calls == 1, "the call was made once: {run:#?}");
    deployment.finish().await
}

/// Submits a turn until it is not pending any more.
async fn follow(agent: &Agent, work: &Work, reply: &str) -> Result<v1::SubmitDecisionResponse> {
    let deadline = std::time::Instant::now() + surety_e2e::harness::PATIENCE;
    loop {
        let answer = agent.submit(work, reply).await?;
        if answer.outcome() != v1::TurnOutcome::Pending {
            return Ok(answer);
        }
        ensure!(std::time::Instant::now() < deadline, "the turn does not end: {answer:#?}");
    }
}
