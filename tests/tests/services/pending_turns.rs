//! A turn that takes longer than SubmitDecision waits: PENDING, and the repetition follows it to its outcome. And a turn
//! whose run is paused, planned anew or cancelled while its call is under way.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::domain::fault::Reason;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{
    AGENT, Agent, PERSON, WORKER, Work, call, fence, next_plan, secret, token_file,
};
use surety_e2e::harness::{Database, Deployment, wait_until};
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
    Ok(answer_to(agent, work, reply).await??)
}

/// As [`follow`], with what the turn is refused with.
async fn answer_to(
    agent: &Agent,
    work: &Work,
    reply: &str,
) -> Result<Result<v1::SubmitDecisionResponse, Status>> {
    let deadline = std::time::Instant::now() + surety_e2e::harness::PATIENCE;
    loop {
        let answer = agent.submit(work, reply).await;
        if answer.as_ref().map_or(true, |it| it.outcome() != v1::TurnOutcome::Pending) {
            return Ok(answer);
        }
        ensure!(std::time::Instant::now() < deadline, "the turn does not end: {answer:#?}");
    }
}

/// A run whose only step has a command under way, which ends once [`Begun::let_go`] is called.
struct Begun {
    deployment: Deployment,
    agent: Agent,
    run_id: String,
    work: Work,
    workspace: tempfile::TempDir,
    _tokens: tempfile::NamedTempFile,
}

impl Begun {
    const GATED: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo went on";

    async fn start() -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [
            ("SURETY_TOKEN_FILE", path.as_str()),
            ("SURETY_EXECUTOR_TURN_WAIT_MS", "200"),
            ("SURETY_EXECUTOR_DRIVER_LEASE_MS", "300000"),
        ];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        let agent = Agent::new(deployment.executors.first().context("an executor")?, AGENT, "one")?;
        let workspace = tempfile::tempdir()?;
        let only = json!({"id": "s", "description": "wait", "tools_expected": ["run_command"]});
        let driver = v1::Driver::Remote.into();
        let folder = workspace.path().to_string_lossy().into_owned();
        let order = v1::CreateRunRequest { driver, ..request(&plan(&[only]), &folder) };
        let run_id = deployment.create_run(order).await?.id;
        let work = agent.work(&run_id).await?;
        let begun = Self { deployment, agent, run_id, work, workspace, _tokens: tokens };
        let pending = begun.agent.submit(&begun.work, &begun.reply()).await?;
        ensure!(pending.outcome() == v1::TurnOutcome::Pending, "{pending:#?}");
        wait_until("the command begins", || begun.workspace.path().join("begun").exists()).await?;
        Ok(begun)
    }

    fn reply(&self) -> String {
        call("run_command", json!({"argv": ["sh", "-c", Self::GATED]})).to_string()
    }

    fn let_go(&self) -> Result<()> {
        Ok(std::fs::write(self.workspace.path().join("go"), "")?)
    }
}

#[tokio::test]
async fn a_turn_that_ends_in_a_pause_has_its_outcome_and_the_next_one_waits_for_the_resume()
-> Result<()> {
    let begun = Begun::start().await?;
    let Begun { deployment, agent, run_id, work, .. } = &begun;
    let pause = v1::PauseRunRequest { run_id: run_id.clone(), ..Default::default() };
    deployment.runs()?.pause_run(pause).await?;
    begun.let_go()?;
    let ended = follow(agent, work, &begun.reply()).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::Applied && ended.next.is_none(), "{ended:#?}");
    ensure!(ended.observation.contains("went on") && ended.receipts.len() == 1, "{ended:#?}");
    let again = agent.submit(work, &begun.reply()).await?;
    ensure!(again == ended, "the stored outcome: {again:#?}\nnot {ended:#?}");
    let context = v1::StepContext { turn: work.context.turn + 1, ..work.context.clone() };
    let next = Work { context, ..work.clone() };
    let early = agent.submit(&next, &next_plan().to_string()).await.err().context("too early")?;
    ensure!(early.message().contains("while the run is paused"), "{early:?}");
    let resume = v1::ResumeRunRequest { run_id: run_id.clone(), ..Default::default() };
    deployment.runs()?.resume_run(resume).await?;
    // The lease goes on: the next turn is asked for once the run does.
    let deadline = std::time::Instant::now() + surety_e2e::harness::PATIENCE;
    while let Err(refused) = answer_to(agent, &next, &next_plan().to_string()).await? {
        ensure!(refused.message().contains("does not ask for it yet"), "{refused:?}");
        ensure!(std::time::Instant::now() < deadline, "the next turn is not taken: {refused:?}");
    }
    let run = deployment.wait_for_end(run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(run.counters.unwrap_or_default().tool_calls == 1, "the call was made once: {run:#?}");
    begun.deployment.finish().await
}

#[tokio::test]
async fn another_plan_ends_the_lease_of_a_call_that_is_under_way() -> Result<()> {
    let begun = Begun::start().await?;
    let Begun { deployment, agent, run_id, work, .. } = &begun;
    let replan = v1::RequestReplanRequest {
        run_id: run_id.clone(),
        reason: "the command waits for nothing".to_owned(),
        ..Default::default()
    };
    deployment.plans()?.request_replan(replan).await?;
    let lost = reason(answer_to(agent, work, &begun.reply()).await?)?;
    ensure!(lost == "lease_lost", "{lost}");
    let beat = agent.heartbeat(&[fence(&work.lease)]).await?;
    ensure!(beat.lost == [fence(&work.lease)], "{beat:#?}");
    begun.let_go()?;
    begun.deployment.finish().await
}

#[tokio::test]
async fn a_turn_whose_run_is_cancelled_during_its_call_says_that_the_run_ended() -> Result<()> {
    let begun = Begun::start().await?;
    let Begun { deployment, agent, run_id, work, .. } = &begun;
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    deployment.runs()?.cancel_run(cancel).await?;
    let run = deployment.wait_for_end(run_id).await?;
    ensure!(run.state() == v1::RunState::Cancelled, "{run:#?}");
    let ended = follow(agent, work, &begun.reply()).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::RunEnded && ended.next.is_none(), "{ended:#?}");
    begun.deployment.finish().await
}
