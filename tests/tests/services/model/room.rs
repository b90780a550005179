//! Prompts that do not fit the model's context: they are shortened, or the run says so at once. None of it looks like an
//! endpoint that is down.

use crate::model::stage::{
    Plays, Stage, next_plan, one_step, planned, stop_reason, tool, unplanned, write_answer,
};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::model_server::Settings;

fn well(plays: &Plays, goal: &str) {
    plays.add(goal, |number, _| if number == 0 { write_answer() } else { next_plan() });
}

#[tokio::test]
async fn a_long_decision_is_shortened_in_the_next_prompt_and_the_run_goes_on() -> Result<()> {
    let lines = "context_tokens = 24576\nmax_output_tokens = 4096\n";
    let settings = Settings { context_tokens: 24576, ..Settings::default() };
    let stage = Stage::start_profiled(settings, lines).await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("long", |number, _| match number {
        0 => tool("write_file", json!({"path": "answer.txt", "content": "42 ".repeat(4900)})),
        _ => next_plan(),
    });
    let request = planned("long", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    let asked = stage.asked("long");
    let second = asked.get(1).context("a second turn")?;
    let is_marked =
        |(_, text): &(String, String)| text.contains(" bytes of this message are not shown]");
    ensure!(second.messages.iter().any(is_marked), "{second:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_request_that_the_endpoint_finds_too_long_is_sent_again_smaller() -> Result<()> {
    let settings = Settings { context_tokens: 8000, ..Settings::default() };
    let stage = Stage::start_with(settings, &[]).await?;
    let folder = tempfile::tempdir()?;
    well(&stage.plays, "smaller");
    let request = planned("smaller", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn what_an_endpoint_finds_too_long_is_not_sent_to_it_every_turn() -> Result<()> {
    const TURNS: usize = 12;
    let settings = Settings { context_tokens: 8000, ..Settings::default() };
    let stage = Stage::start_with(settings, &[]).await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("many", |number, _| match number {
        0 => write_answer(),
        number if number < TURNS => {
            let content = format!("{number} {}", "words ".repeat(300));
            tool("write_file", json!({"path": format!("{number}.txt"), "content": content}))
        }
        _ => next_plan(),
    });
    let request = planned("many", &one_step(), &folder.path().to_string_lossy());
    let run = stage.deployment.create_run(request).await?;
    let ended = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    ensure!(stage.plays.calls("many") > TURNS, "every turn was asked");
    let refused = stage.server.recorded().iter().filter(|it| it.status == Some(400)).count();
    ensure!((1..=6).contains(&refused), "{refused} requests were refused as too long");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_run_whose_prompt_cannot_fit_ends_at_once_and_says_what_to_set() -> Result<()> {
    let of_endpoint = (Settings { context_tokens: 2000, ..Settings::default() }, "");
    let of_profile = (Settings::default(), "context_tokens = 16384\n");
    for (settings, lines) in [of_endpoint, of_profile] {
        let stage = Stage::start_profiled(settings, lines).await?;
        let folder = tempfile::tempdir()?;
        let folder = folder.path().to_string_lossy();
        for request in [planned("step", &one_step(), &folder), unplanned("goal", &folder)] {
            let goal = request.goal.clone();
            well(&stage.plays, &goal);
            let run = stage.deployment.create_run(request).await?;
            let ended = stage.deployment.wait_for_end(&run.id).await?;
            let terminal = ended.terminal.context("an end")?;
            ensure!(terminal.stop_reason() == v1::StopReason::Aborted, "{terminal:#?}");
            ensure!(terminal.abort_code == "model_context_too_long", "{terminal:#?}");
            for word in ["[model.default]", "context_tokens", "max_output_tokens"] {
                ensure!(terminal.user_message.contains(word), "{terminal:#?}");
            }
            ensure!(stage.plays.calls(&goal) == 0, "no request was taken");
        }
        stage.deployment.finish().await?;
    }
    Ok(())
}
