//! Budgets over the API: reserved before a turn, settled with what it used, and raised by a person.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use surety_common::domain::fault::Reason;
use surety_common::wire::client::channel;
use surety_common::wire::status::from_status;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::run_service_client::RunServiceClient;
use surety_common::wire::v1::submit_decision_request::DecisionSource;
use surety_e2e::agent::{AGENT, Agent, PERSON, Work, call, next_plan, secret, token_file};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;
use tonic::Status;

struct Stage {
    deployment: Deployment,
    agent: Agent,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn start() -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &[("SURETY_TOKEN_FILE", &path)])
                .await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        let executor = deployment.executors.first().context("an executor")?;
        let agent = Agent::new(executor, AGENT, "worker-1")?;
        Ok(Self { deployment, agent, _tokens: tokens })
    }

    /// A run of steps that only look around, so that they run beside one another.
    async fn run(
        &self,
        steps: usize,
        limits: v1::Limits,
        on_budget: v1::OnBudget,
    ) -> Result<String> {
        let steps: Vec<Value> = (0..steps)
            .map(|number| {
                json!({"id": format!("s{number}"), "description": "look", "evidence": "none",
                       "tools_expected": ["glob"]})
            })
            .collect();
        let request = v1::CreateRunRequest {
            driver: v1::Driver::Remote.into(),
            limits: Some(limits),
            policy: Some(v1::Policy { on_budget: on_budget.into(), ..v1::Policy::default() }),
            ..request(&plan(&steps), "")
        };
        Ok(self.deployment.create_run(request).await?.id)
    }

    async fn submit(
        &self,
        work: &Work,
        reply: &Value,
        tokens: Option<u64>,
    ) -> Result<v1::SubmitDecisionResponse> {
        let source = DecisionSource::Raw(reply.to_string());
        let usage = tokens.map(|input_tokens| v1::Usage { input_tokens, ..Default::default() });
        Ok(self.agent.send_with(work, source, usage).await?)
    }

    async fn counters(&self, run_id: &str) -> Result<v1::RunCounters> {
        Ok(self.deployment.run(run_id).await?.counters.unwrap_or_default())
    }

    async fn blocked(&self, run_id: &str) -> Result<v1::Blocked> {
        let blocked = self.deployment.question(run_id).await?;
        ensure!(blocked.kind() == v1::WaitKind::Budget, "{blocked:#?}");
        ensure!(blocked.waiting_on() == v1::WaitingOn::User, "{blocked:#?}");
        Ok(blocked)
    }

    async fn extend(&self, request: v1::ExtendBudgetRequest) -> Result<v1::Run, Status> {
        let runs = self.deployment.runs();
        let mut runs = runs.map_err(|error| Status::internal(error.to_string()))?;
        Ok(runs.extend_budget(request).await?.into_inner().run.unwrap_or_default())
    }
}

fn look(pattern: &str) -> Value {
    call("glob", json!({"pattern": pattern}))
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> Result<String> {
    let status = answer.err().context("the call was answered")?;
    Ok(match from_status(&status).reason {
        Reason::Input(code) => code.as_str().to_owned(),
        Reason::Service(code) => code.as_str().to_owned(),
    })
}

fn next(work: &Work, answer: v1::SubmitDecisionResponse) -> Result<Work> {
    let context = answer.next.with_context(|| format!("the lease ended: {:?}", answer.outcome))?;
    Ok(Work { lease: work.lease.clone(), context })
}

#[tokio::test]
async fn parallel_steps_never_spend_more_than_the_budget_together_and_a_larger_one_lets_them_go_on()
-> Result<()> {
    let stage = Stage::start().await?;
    let limits =
        v1::Limits { token_budget: Some(100), max_turn_tokens: Some(40), ..v1::Limits::default() };
    let run_id = stage.run(3, limits, v1::OnBudget::Unspecified).await?;
    let mut works = Vec::new();
    for _ in 0..3 {
        works.push(stage.agent.work(&run_id).await?);
    }
    let mut reserved: Vec<u64> = works.iter().filter_map(|it| it.context.turn_tokens).collect();
    reserved.sort_unstable();
    ensure!(reserved == [20, 40, 40], "the last turn gets what is left: {reserved:?}");
    let counters = stage.counters(&run_id).await?;
    ensure!((counters.tokens, counters.reserved_tokens) == (0, 100), "{counters:?}");
    works.sort_by_key(|work| std::cmp::Reverse(work.context.turn_tokens));
    let [one, two, three] = &works[..] else { anyhow::bail!("three steps: {works:#?}") };
    // One reports all of its turn, another nothing at all: it is charged with its reservation.
    let first = stage.submit(one, &look("a"), Some(40)).await?;
    ensure!(first.next.is_none(), "others have the rest reserved: {first:#?}");
    let second = stage.submit(two, &look("b"), None).await?;
    ensure!(second.next.is_none(), "others have the rest reserved: {second:#?}");
    let counters = stage.counters(&run_id).await?;
    ensure!((counters.tokens, counters.reserved_tokens) == (80, 20), "{counters:?}");
    // The third used less than was reserved: what is left is its next turn's.
    let third = next(three, stage.submit(three, &look("c"), Some(5)).await?)?;
    ensure!(third.context.turn_tokens == Some(15), "{third:#?}");
    let ended = stage.submit(&third, &next_plan(), Some(15)).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    let blocked = stage.blocked(&run_id).await?;
    ensure!(blocked.question.contains("token_budget (100) is used up"), "{blocked:#?}");
    let counters = stage.counters(&run_id).await?;
    ensure!((counters.tokens, counters.reserved_tokens) == (100, 0), "{counters:?}");
    let refused = refusal(
        stage
            .deployment
            .runs()?
            .answer_question(v1::AnswerQuestionRequest {
                wait_id: blocked.wait_id,
                answer: "more".to_owned(),
                ..Default::default()
            })
            .await,
    )?;
    ensure!(refused == "wait_closed", "words raise no budget: {refused}");
    refusals_of_extensions(&stage, &run_id).await?;
    let shown = stage.deployment.command_line(&["show", &run_id]).await?;
    let used = "100 of 100 tokens used (60 reported, 40 charged at the reservation)";
    ensure!(shown.contains(used), "{shown}");
    let counters = stage.counters(&run_id).await?;
    ensure!((counters.reported_tokens, counters.charged_tokens) == (60, 40), "{counters:?}");
    ensure!(shown.contains("used: 40 tokens (charged at the reservation)"), "{shown}");
    ensure!(shown.contains(&format!("surety budget extend {run_id}")), "{shown}");
    let said = stage.deployment.command_line(&["budget", "extend", &run_id]).await?;
    ensure!(said.contains("200 tokens"), "one word doubles the budget: {said}");
    for _ in 0..2 {
        let work = stage.agent.work(&run_id).await?;
        ensure!(work.context.turn == 2, "{work:#?}");
        stage.submit(&work, &next_plan(), Some(1)).await?;
    }
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(run.limits.unwrap_or_default().token_budget == Some(200), "{run:#?}");
    let events = stage.deployment.events(&run_id).await?;
    let sources: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            Some(v1::event::Kind::Turn(turn)) => Some((turn.tokens, turn.usage_source())),
            _ => None,
        })
        .collect();
    ensure!(sources.contains(&(40, v1::UsageSource::Reserved)), "{sources:?}");
    ensure!(sources.contains(&(40, v1::UsageSource::Reported)), "{sources:?}");
    stage.deployment.finish().await
}

async fn refusals_of_extensions(stage: &Stage, run_id: &str) -> Result<()> {
    let run_id = run_id.to_owned();
    let more = |add_tokens, add_cost_micros, stop| v1::ExtendBudgetRequest {
        run_id: run_id.clone(),
        add_tokens,
        add_cost_micros,
        stop,
        ..Default::default()
    };
    for (request, expected) in [
        (more(0, 0, false), "field_missing"),
        (more(1, 0, true), "type_mismatch"),
        (more(0, 5, false), "key_without_effect"),
        (more(u64::MAX, 0, false), "limit_out_of_range"),
        (
            v1::ExtendBudgetRequest { expected_version: Some(1), ..more(5, 0, false) },
            "version_conflict",
        ),
    ] {
        let refused = refusal(stage.extend(request.clone()).await)?;
        ensure!(refused == expected, "{request:?}: {refused}");
    }
    let url = stage.deployment.planner.url();
    let channel = channel(&url, Some(&Token::new(&secret(AGENT))?))?;
    let refused = refusal(RunServiceClient::new(channel).extend_budget(more(5, 0, false)).await)?;
    ensure!(refused == "permission_denied", "an agent raised its own budget: {refused}");
    Ok(())
}

#[tokio::test]
async fn a_used_up_budget_ends_the_run_by_its_policy_or_by_a_person() -> Result<()> {
    let stage = Stage::start().await?;
    let limits = || v1::Limits { cost_budget_micros: Some(10), ..v1::Limits::default() };
    let spend = async |run_id: &str| -> Result<v1::SubmitDecisionResponse> {
        let work = stage.agent.work(run_id).await?;
        ensure!(work.context.turn_cost_micros == Some(2), "a quarter of 10: {work:#?}");
        let usage = Some(v1::Usage { cost_micros: 10, ..Default::default() });
        let source = DecisionSource::Raw(look("a").to_string());
        Ok(stage.agent.send_with(&work, source, usage).await?)
    };
    let failing = stage.run(1, limits(), v1::OnBudget::Fail).await?;
    spend(&failing).await?;
    let run = stage.deployment.wait_for_end(&failing).await?;
    let terminal = run.terminal.clone().context("an end")?;
    ensure!(terminal.stop_reason() == v1::StopReason::BudgetExceeded, "{run:#?}");
    ensure!(run.counters.unwrap_or_default().cost_micros == 10, "{run:#?}");
    let waiting = stage.run(1, limits(), v1::OnBudget::Block).await?;
    let early =
        v1::ExtendBudgetRequest { run_id: waiting.clone(), stop: true, ..Default::default() };
    let refused = refusal(stage.extend(early).await)?;
    ensure!(refused == "wait_closed", "it waits for no budget: {refused}");
    spend(&waiting).await?;
    stage.blocked(&waiting).await?;
    stage.deployment.command_line(&["budget", "stop", &waiting]).await?;
    let run = stage.deployment.wait_for_end(&waiting).await?;
    let terminal = run.terminal.clone().context("an end")?;
    ensure!(terminal.stop_reason() == v1::StopReason::BudgetExceeded, "{run:#?}");
    let late =
        v1::ExtendBudgetRequest { run_id: waiting, add_cost_micros: 1, ..Default::default() };
    ensure!(refusal(stage.extend(late).await)? == "run_terminal");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_turn_that_never_ends_is_charged_with_what_was_reserved_for_it() -> Result<()> {
    let stage = Stage::start().await?;
    let limits = v1::Limits { token_budget: Some(100), ..v1::Limits::default() };
    let run_id = stage.run(1, limits, v1::OnBudget::Unspecified).await?;
    let work = stage.agent.work(&run_id).await?;
    ensure!(work.context.turn_tokens == Some(25), "{work:#?}");
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.cancel_run(cancel).await?;
    let counters = stage.counters(&run_id).await?;
    ensure!((counters.tokens, counters.reserved_tokens) == (25, 0), "{counters:?}");
    stage.deployment.finish().await
}
