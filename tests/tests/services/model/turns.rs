//! What a model is asked, what is recorded of it, and what a person adds.

use crate::model::stage::{
    MODEL, Stage, file_check, goal_of, is_planning, next_plan, one_step, planned, say, stop_reason,
    unplanned, write_answer,
};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;
use surety_e2e::harness::PATIENCE;
use surety_e2e::model_server::{Finish, Reply, Settings};
use surety_e2e::otlp::{OtlpReceiver, ReceivedSpan};

fn turns(events: Vec<v1::Event>) -> Vec<v1::Turn> {
    let turn = |event: v1::Event| match event.kind {
        Some(Kind::Turn(turn)) => Some(turn),
        _ => None,
    };
    events.into_iter().filter_map(turn).collect()
}

#[tokio::test]
async fn a_turn_names_its_model_its_prompt_and_the_tokens_that_the_service_counted() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("recorded", |number, asked| match number {
        0 => say(&one_step()),
        1 => Reply::text("{\"action\": \"contin").finish(Finish::Length),
        2 => {
            assert!(asked.last().contains("reply_cut") && asked.last().contains("shorter"));
            write_answer()
        }
        _ => next_plan(),
    });
    let limits = v1::Limits { token_budget: Some(1_000_000), ..v1::Limits::default() };
    let request = v1::CreateRunRequest {
        limits: Some(limits),
        ..unplanned("recorded", &folder.path().to_string_lossy())
    };
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    let events = stage.deployment.events(&run.id).await?;
    let plans = events.iter().filter_map(|event| match &event.kind {
        Some(Kind::PlanStored(plan)) => plan.model.clone(),
        _ => None,
    });
    let plans: Vec<_> = plans.collect();
    ensure!(plans.len() == 1 && plans[0].prompt == "plan/v1", "{plans:#?}");
    let turns = turns(events);
    ensure!(turns.len() == 3, "{turns:#?}");
    for (place, turn) in turns.iter().enumerate() {
        let model = turn.model.as_ref().context("a turn names its model")?;
        ensure!(model.endpoint == "default" && model.model == MODEL, "{model:#?}");
        ensure!(model.prompt == "step/v1" && model.prompt_digest.len() == 64, "{model:#?}");
        ensure!(model.cut == (place == 0), "{model:#?}");
        ensure!(turn.usage_source() == v1::UsageSource::Measured && turn.tokens > 0, "{turn:#?}");
    }
    let of_turns: u64 = turns.iter().map(|turn| turn.tokens).sum();
    let usage = ended.counters.context("counters")?;
    ensure!(usage.tokens > of_turns, "the plan cost something, too: {usage:#?}");
    let others = (usage.reported_tokens, usage.charged_tokens);
    ensure!(others == (0, 0), "the services measured all of it: {usage:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_refused_verdict_is_repaired_with_its_failed_checks_as_the_hint() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("repaired", |number, asked| match number {
        0 => say(
            &json!({"title": "t", "steps": [{"id": "s", "description": "x", "evidence": "none"}]}),
        ),
        1 => next_plan(),
        2 => {
            let said = asked.last();
            assert!(said.contains("The verdict on your work was refused"), "{said}");
            assert!(said.contains("users needs a regular file at `answer.txt`"), "{said}");
            write_answer()
        }
        _ => next_plan(),
    });
    let request = v1::CreateRunRequest {
        verify: vec![file_check("answer.txt")],
        ..unplanned("repaired", &folder.path().to_string_lossy())
    };
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("repaired") == 4, "{}", stage.plays.calls("repaired"));
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_model_asks_a_person_and_goes_on_with_the_answer() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("asks", |number, asked| match number {
        0 => say(&json!({"action": "ask_user", "speak": "Which number?"})),
        1 => {
            assert!(asked.last().contains("forty-two"), "{}", asked.last());
            write_answer()
        }
        _ => next_plan(),
    });
    let request = planned("asks", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let blocked = stage.deployment.question(&run.id).await?;
    ensure!(blocked.question == "Which number?", "{blocked:#?}");
    stage.deployment.answer(&blocked.wait_id, "forty-two").await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn users_checks_are_shown_as_fixed_and_hidden_ones_nowhere() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("fixed", |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let hidden = v1::AcceptCheck {
        id: "exam".to_owned(),
        kind: "command_success".to_owned(),
        target: "sh exam-of-the-user.sh".to_owned(),
        overlay: [("exam-of-the-user.sh".to_owned(), b"test -f answer.txt\n".to_vec())].into(),
        ..v1::AcceptCheck::default()
    };
    let request = v1::CreateRunRequest {
        verify: vec![file_check("answer.txt"), hidden],
        ..unplanned("fixed", &folder.path().to_string_lossy())
    };
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    let asked = stage.asked("fixed");
    let first = asked.first().context("a question")?;
    ensure!(
        first.last().contains("which are fixed") && first.last().contains("answer.txt"),
        "{first:#?}"
    );
    for asked in &asked {
        let all = asked.body.to_string();
        ensure!(!all.contains("exam"), "a hidden check is shown: {all}");
    }
    let results = ended.verdict.context("a verdict")?.results;
    ensure!(results.iter().any(|result| result.name == "exam" && result.passed), "{results:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_call_of_a_model_is_a_span_of_its_run() -> Result<()> {
    let receiver = OtlpReceiver::start().await?;
    let url = receiver.endpoint();
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())];
    let mut stage = Stage::start_with(Settings::default(), &environment).await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("traced", |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let request = unplanned("traced", &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stage.server.asked().iter().all(|asked| goal_of(asked) == "traced"), "another run");
    // Spans are sent when the processes end.
    stage.deployment.first_executor()?.stop().await?;
    stage.deployment.planner.stop().await?;
    let name = format!("chat {MODEL}");
    let arrived =
        |spans: &[ReceivedSpan]| spans.iter().filter(|span| span.name == name).count() == 3;
    let spans = receiver.wait_for(arrived, PATIENCE).await;
    let spans = spans.map_err(|spans| anyhow!("the calls are not among {spans:#?}"))?;
    let chats: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    for chat in &chats {
        let text = |key: &str| chat.attribute(key).unwrap_or_default();
        ensure!(text("gen_ai.operation.name") == "chat", "{chat:#?}");
        ensure!(text("gen_ai.request.model") == MODEL, "{chat:#?}");
        ensure!(text("gen_ai.response.model") == MODEL, "{chat:#?}");
        ensure!(text("gen_ai.conversation.id") == run.id, "{chat:#?}");
        ensure!(chat.trace_id == chats[0].trace_id, "one trace: {chat:#?}");
    }
    let turns = spans.iter().filter(|span| span.name == "turn");
    let under = turns.filter(|turn| chats.iter().any(|chat| chat.span_id == turn.parent_span_id));
    ensure!(under.count() == 2, "the turns stand under the calls that made them");
    stage.deployment.finish().await
}
