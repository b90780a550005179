//! What agents are shown and told: the words of people and workers where they belong, what is left of the limits, and
//! the end of a step whose driver does not decide in time.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use surety_common::wire::client::channel;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_common::wire::v1::executor_service_client::ExecutorServiceClient;
use surety_e2e::agent::{
    AGENT, Agent, PERSON, WORKER, Work, call, fence, next_plan, secret, token_file,
};
use surety_e2e::harness::{Database, Deployment};
use surety_e2e::script::{plan, request};
use tempfile::NamedTempFile;

/// The longest time until a step ends whose time is over.
const PATIENCE: Duration = Duration::from_secs(60);

struct Stage {
    deployment: Deployment,
    agent: Agent,
    _tokens: NamedTempFile,
}

impl Stage {
    async fn start() -> Result<Self> {
        let tokens = token_file()?;
        let path = tokens.path().to_string_lossy().into_owned();
        let environment = [("SURETY_TOKEN_FILE", path.as_str())];
        let mut deployment =
            Deployment::start_idle(Database::create().await?, &environment).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        deployment.add_executor(&[]).await?;
        let agent = Agent::new(&deployment.executors[0], AGENT, "agent-1")?;
        Ok(Self { deployment, agent, _tokens: tokens })
    }

    async fn run(&self, plan: &Value, limits: v1::Limits) -> Result<String> {
        let driver = v1::Driver::Remote.into();
        let request = v1::CreateRunRequest { driver, limits: Some(limits), ..request(plan, "") };
        Ok(self.deployment.create_run(request).await?.id)
    }

    async fn report(&self, run_id: &str, summary: &str) -> Result<()> {
        let executor = self.deployment.executors.first().context("an executor")?;
        let channel = channel(&executor.url(), Some(&Token::new(&secret(WORKER))?))?;
        let (run_id, step_id) = (run_id.to_owned(), "s".to_owned());
        let request = v1::RecordReceiptRequest {
            fence: Some(v1::StepFence { run_id, step_id, lease_epoch: 0 }),
            receipt: Some(v1::EvidenceReceipt {
                step_index: Some(0),
                source: v1::EvidenceSource::ToolObservation.into(),
                name: "compile".to_owned(),
                success: true,
                summary: summary.to_owned(),
                ..v1::EvidenceReceipt::default()
            }),
            request_id: summary.to_owned(),
        };
        ExecutorServiceClient::new(channel).record_receipt(request).await?;
        Ok(())
    }
}

fn one_step() -> Value {
    plan(&[json!({"id": "s", "description": "look around", "evidence": "none"})])
}

fn shown(context: &v1::StepContext) -> String {
    context.messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n")
}

async fn next(agent: &Agent, work: &Work, reply: &Value) -> Result<Work> {
    let answer = agent.submit(work, &reply.to_string()).await?;
    let context = answer.next.clone().with_context(|| format!("the lease goes on: {answer:#?}"))?;
    Ok(Work { context, lease: work.lease.clone() })
}

#[tokio::test]
async fn a_driver_is_shown_the_answers_to_its_own_questions_and_the_others_as_earlier_ones()
-> Result<()> {
    let stage = Stage::start().await?;
    let step = |id: &str| json!({"id": id, "description": id, "evidence": "none"});
    let run_id = stage.run(&plan(&[step("a"), step("b")]), v1::Limits::default()).await?;
    let mut asked = Vec::new();
    for _ in 0..2 {
        let work = stage.agent.work(&run_id).await?;
        let question = format!("Who is asked by {}?", work.lease.step_id);
        let ask = json!({"action": "ask_user", "speak": question}).to_string();
        let answer = stage.agent.submit(&work, &ask).await?;
        ensure!(answer.outcome() == v1::TurnOutcome::Waiting, "{answer:#?}");
        asked.push(work.lease.step_id);
    }
    let waits = v1::ListWaitsRequest::default();
    let listed = stage.deployment.runs()?.list_waits(waits).await?.into_inner().waits;
    let of = |step: &str| {
        let wait = listed.iter().find(|wait| wait.question.ends_with(&format!("by {step}?")));
        wait.map(|wait| wait.id.clone()).context("the question waits")
    };
    stage.deployment.answer(&of("a")?, "bob").await?;
    stage.deployment.answer(&of("b")?, "red").await?;
    for _ in 0..2 {
        let work = stage.agent.work(&run_id).await?;
        let (own, other) = match work.lease.step_id.as_str() {
            "a" => ("bob", "red"),
            _ => ("red", "bob"),
        };
        let text = shown(&work.context);
        ensure!(text.contains(&format!("to your question:\n{own}")), "{text}");
        ensure!(!text.contains(&format!("to your question:\n{other}")), "{text}");
        let given = &work.context.answers;
        let said: Vec<&str> = given.iter().map(|given| given.answer.as_str()).collect();
        ensure!(said == ["bob", "red"] || said == ["bob"], "{given:#?}");
        if said.len() == 2 {
            ensure!(text.contains(&format!("Answer of {PERSON}: {other}")), "{text}");
        }
        ensure!(given[0].step_id == "a" && given[0].by == PERSON, "{given:#?}");
        ensure!(given[0].question == "Who is asked by a?", "{given:#?}");
        let ended = stage.agent.submit(&work, &next_plan().to_string()).await?;
        ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    }
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_workers_report_takes_no_observations_place_and_changes_no_stored_answer() -> Result<()> {
    let stage = Stage::start().await?;
    let run_id = stage.run(&one_step(), v1::Limits::default()).await?;
    let work = stage.agent.work(&run_id).await?;
    let fails = call("run_command", json!({"argv": ["sh", "-c", "echo no luck; exit 3"]}));
    let first = stage.agent.submit(&work, &fails.to_string()).await?;
    ensure!(first.receipts.len() == 1 && first.observation.contains("no luck"), "{first:#?}");
    for part in 0..10 {
        stage.report(&run_id, &format!("built part {part}")).await?;
    }
    let again = stage.agent.submit(&work, &fails.to_string()).await?;
    ensure!(again.receipts == first.receipts, "{again:#?}");
    ensure!(again.observation == first.observation, "{again:#?}");
    let text = shown(&again.next.context("the lease goes on")?);
    ensure!(text.contains("no luck"), "{text}");
    ensure!(
        text.contains(&format!("Report of {WORKER} on compile: success: built part 9")),
        "{text}"
    );
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), ..Default::default() };
    stage.deployment.runs()?.cancel_run(cancel).await?;
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_driver_is_told_every_limit_and_what_the_reader_corrected_is_kept_with_the_turn()
-> Result<()> {
    let stage = Stage::start().await?;
    let limits = v1::Limits {
        max_run_rounds: Some(3),
        token_budget: Some(1000),
        max_repairs: Some(2),
        step_deadline: Some(prost_types::Duration { seconds: 100, nanos: 0 }),
        ..v1::Limits::default()
    };
    let run_id = stage.run(&one_step(), limits).await?;
    let work = stage.agent.work(&run_id).await?;
    let work = next(&stage.agent, &work, &call("noop", json!({}))).await?;
    let v1::StepContext { run_rounds_left, corrections_left, repairs_left, .. } = work.context;
    ensure!((run_rounds_left, corrections_left, repairs_left) == (2, 3, 2), "{work:#?}");
    ensure!(work.context.tokens_left == Some(993), "{work:#?}");
    ensure!(work.context.cost_micros_left.is_none(), "{work:#?}");
    let of_step = work.context.step_deadline_at.context("the step's clock runs")?.seconds;
    let of_run = work.context.run_deadline_at.context("the run's clock runs")?.seconds;
    ensure!(of_run > of_step + 3600, "{of_run} {of_step}");
    let text = shown(&work.context);
    ensure!(text.contains("Left in the whole run: 2 turns."), "{text}");
    let ended = stage.agent.submit(&work, "STEP_DONE: looked").await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    let codes = |warnings: &[v1::Warning]| -> Vec<String> {
        warnings.iter().map(|warning| warning.code.clone()).collect()
    };
    ensure!(codes(&ended.warnings) == ["control_protocol_legacy"], "{ended:#?}");
    stage.deployment.wait_for_end(&run_id).await?;
    let events = stage.deployment.events(&run_id).await?;
    let turns: Vec<v1::Turn> = events
        .into_iter()
        .filter_map(|event| match event.kind {
            Some(v1::event::Kind::Turn(turn)) => Some(turn),
            _ => None,
        })
        .collect();
    let last = turns.last().context("a turn")?;
    ensure!(codes(&last.warnings) == ["control_protocol_legacy"], "{last:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_step_whose_driver_only_heartbeats_fails_at_its_deadline() -> Result<()> {
    let stage = Stage::start().await?;
    let limits = v1::Limits {
        max_replans: Some(0),
        step_deadline: Some(prost_types::Duration { seconds: 2, nanos: 0 }),
        ..v1::Limits::default()
    };
    let run_id = stage.run(&one_step(), limits).await?;
    let work = stage.agent.work(&run_id).await?;
    let held = fence(&work.lease);
    let lost = async {
        while stage.agent.heartbeat(std::slice::from_ref(&held)).await?.lost.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, lost).await.context("the lease goes on for ever")??;
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    ensure!(format!("{run:?}").contains("step_deadline_s (2) is reached"), "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn turns_without_a_call_part_the_calls_that_the_repeat_limit_compares() -> Result<()> {
    let stage = Stage::start().await?;
    let limits = v1::Limits { max_repeat_cycle: Some(1), ..v1::Limits::default() };
    let run_id = stage.run(&one_step(), limits).await?;
    let mut work = stage.agent.work(&run_id).await?;
    for _ in 0..4 {
        work = next(&stage.agent, &work, &call("noop", json!({}))).await?;
        work =
            next(&stage.agent, &work, &json!({"action": "continue", "speak": "I think."})).await?;
    }
    let ended = stage.agent.submit(&work, &next_plan().to_string()).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn the_final_text_of_a_driver_is_its_own_for_the_step_and_for_the_run() -> Result<()> {
    let stage = Stage::start().await?;
    let mut described = one_step();
    described["steps"][0]["verify"] = json!([{"kind": "output_only"}]);
    let run_id = stage.run(&described, v1::Limits::default()).await?;
    let work = stage.agent.work(&run_id).await?;
    let work = next(&stage.agent, &work, &call("noop", json!({}))).await?;
    let said = json!({"action": "next_plan", "goal_check": "described in README"});
    let ended = stage.agent.submit(&work, &said.to_string()).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    let run = stage.deployment.wait_for_end(&run_id).await?;
    ensure!(run.final_answer == "described in README", "{run:#?}");

    // A completion signal alone has no text: not for the run, and not for a step.
    let signal = json!({"task_completion": {"completed": true}});
    let mut answer = one_step();
    answer["verify"] = json!([{"kind": "output_only", "owner": "user"}]);
    let limits = v1::Limits { max_repairs: Some(0), ..v1::Limits::default() };
    let run_id = stage.run(&answer, limits).await?;
    let work = stage.agent.work(&run_id).await?;
    let work = next(&stage.agent, &work, &call("noop", json!({}))).await?;
    let ended = stage.agent.submit(&work, &signal.to_string()).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    let run = stage.deployment.wait_for_end(&run_id).await?;
    let verdict = run.verdict.clone().context("a verdict")?;
    ensure!(!verdict.accepted && format!("{verdict:?}").contains("output_empty"), "{run:#?}");
    ensure!(run.final_answer.is_empty(), "{run:#?}");
    let run_id = stage.run(&described, v1::Limits::default()).await?;
    let work = stage.agent.work(&run_id).await?;
    let work = next(&stage.agent, &work, &call("noop", json!({}))).await?;
    let refused = stage.agent.submit(&work, &signal.to_string()).await?;
    ensure!(refused.correction.contains("output_empty"), "{refused:#?}");
    let work = Work { context: refused.next.context("the lease goes on")?, ..work };
    let text = format!("All of it is described. {signal}");
    let ended = stage.agent.submit(&work, &text).await?;
    ensure!(ended.outcome() == v1::TurnOutcome::StepDone, "{ended:#?}");
    stage.deployment.wait_for_end(&run_id).await?;
    stage.deployment.finish().await
}
