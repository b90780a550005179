//! Endpoints that do not answer: the run waits on `model`, goes on when they are back, or ends.

use crate::model::stage::{
    MODEL, Plays, is_planning, next_plan, one_step, planned, say, stop_reason, unplanned,
    write_answer,
};
use anyhow::{Context, Result, ensure};
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::model_server::{ModelServer, Settings};

/// An address at which nothing listens, until a server is started there.
async fn away(environment: &[(&str, &str)]) -> Result<(Deployment, std::net::SocketAddr, Plays)> {
    let plays = Plays::default();
    let server = ModelServer::start(Settings::default(), plays.script()).await?;
    let (url, address) = (server.url(), server.address());
    drop(server);
    let mut all = vec![("SURETY_MODEL_URL", url.as_str()), ("SURETY_MODEL_NAME", MODEL)];
    all.extend_from_slice(environment);
    Ok((Deployment::start_with(&all).await?, address, plays))
}

fn waits_on_model(run: &v1::Run) -> bool {
    let blocked = run.blocked.as_ref();
    blocked.is_some_and(|blocked| {
        blocked.waiting_on() == v1::WaitingOn::Model && blocked.unblocks.contains("answers again")
    })
}

#[tokio::test]
async fn a_run_waits_for_an_endpoint_by_its_name_and_goes_on_when_it_is_back() -> Result<()> {
    let (deployment, address, plays) = away(&[]).await?;
    let folders = (tempfile::tempdir()?, tempfile::tempdir()?);
    plays.add("planned", |number, _| if number == 0 { write_answer() } else { next_plan() });
    plays.add("unplanned", |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let step = planned("planned", &one_step(), &folders.0.path().to_string_lossy());
    let goal = unplanned("unplanned", &folders.1.path().to_string_lossy());
    let runs = [deployment.create_run(step).await?, deployment.create_run(goal).await?];
    for run in &runs {
        let waiting = deployment.wait_for(&run.id, "waiting for the model", waits_on_model).await?;
        let blocked = waiting.blocked.context("it is blocked")?;
        ensure!(blocked.unblocks.contains("endpoint default"), "{blocked:#?}");
        let shown = deployment.command_line(&["show", &run.id]).await?;
        ensure!(shown.contains("model") && shown.contains("endpoint default"), "{shown}");
    }
    let waits = deployment.command_line(&["waits"]).await?;
    ensure!(waits.matches("endpoint default").count() == 2, "{waits}");
    let server = ModelServer::start_on(address, Settings::default(), plays.script()).await?;
    for run in &runs {
        let ended = deployment.wait_for_end(&run.id).await?;
        ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    }
    ensure!(plays.calls("planned") == 2 && plays.calls("unplanned") == 3, "calls are repeated");
    drop(server);
    deployment.finish().await
}

#[tokio::test]
async fn a_run_whose_endpoint_stays_away_ends_as_model_unavailable() -> Result<()> {
    let (deployment, _, _) = away(&[("SURETY_MODEL_WAIT_S", "2")]).await?;
    let folder = tempfile::tempdir()?;
    let step = planned("planned", &one_step(), &folder.path().to_string_lossy());
    let runs =
        [deployment.create_run(step).await?, deployment.create_run(unplanned("goal", "")).await?];
    for run in runs {
        let ended = deployment.wait_for_end(&run.id).await?;
        ensure!(stop_reason(&ended)? == v1::StopReason::ModelUnavailable, "{ended:#?}");
        let said = ended.terminal.context("an end")?.user_message;
        ensure!(said.contains("default") && said.contains("did not answer"), "{said}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_waiting_run_says_what_keeps_the_endpoint_away_now() -> Result<()> {
    let (deployment, address, plays) = away(&[]).await?;
    let folders = (tempfile::tempdir()?, tempfile::tempdir()?);
    plays.add("planned", |number, _| if number == 0 { write_answer() } else { next_plan() });
    plays.add("unplanned", |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let step = planned("planned", &one_step(), &folders.0.path().to_string_lossy());
    let goal = unplanned("unplanned", &folders.1.path().to_string_lossy());
    let runs = [deployment.create_run(step).await?, deployment.create_run(goal).await?];
    let says = |run: &v1::Run, word: &str| {
        run.blocked.as_ref().is_some_and(|blocked| blocked.unblocks.contains(word))
    };
    let mut until = Vec::new();
    for run in &runs {
        let found = |run: &v1::Run| says(run, "model_unreachable");
        let waiting = deployment.wait_for(&run.id, "an endpoint that is away", found).await?;
        let text = waiting.blocked.context("it is blocked")?.unblocks;
        until.push(text.rsplit(' ').next().map(str::to_owned));
    }
    // It is up, and lacks the model.
    let without = Settings { models: vec!["another".to_owned()], ..Settings::default() };
    let server = ModelServer::start_on(address, without, plays.script()).await?;
    for (run, until) in runs.iter().zip(until) {
        let found = |run: &v1::Run| says(run, "model_unknown");
        let waiting = deployment.wait_for(&run.id, "an endpoint without the model", found).await?;
        let text = waiting.blocked.context("it is blocked")?.unblocks;
        ensure!(!text.contains("model_unreachable"), "{text}");
        ensure!(text.rsplit(' ').next().map(str::to_owned) == until, "the wait goes on: {text}");
    }
    server.change(|it| it.models = vec![MODEL.to_owned()]);
    for run in &runs {
        let ended = deployment.wait_for_end(&run.id).await?;
        ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    }
    deployment.finish().await
}

#[tokio::test]
async fn a_waiting_run_can_be_cancelled_and_paused() -> Result<()> {
    let (deployment, address, plays) = away(&[]).await?;
    plays.add("paused", |number, _| if number == 0 { write_answer() } else { next_plan() });
    let folder = tempfile::tempdir()?;
    let step = |goal: &str| planned(goal, &one_step(), &folder.path().to_string_lossy());
    let cancelled = deployment.create_run(step("cancelled")).await?.id;
    deployment.wait_for(&cancelled, "waiting for the model", waits_on_model).await?;
    deployment.command_line(&["cancel", &cancelled]).await?;
    let ended = deployment.wait_for_end(&cancelled).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Cancelled, "{ended:#?}");
    let paused = deployment.create_run(step("paused")).await?.id;
    deployment.wait_for(&paused, "waiting for the model", waits_on_model).await?;
    deployment.command_line(&["pause", &paused]).await?;
    let server = ModelServer::start_on(address, Settings::default(), plays.script()).await?;
    deployment.command_line(&["resume", &paused]).await?;
    let ended = deployment.wait_for_end(&paused).await?;
    ensure!(stop_reason(&ended)? == v1::StopReason::Accepted, "{ended:#?}");
    drop(server);
    deployment.finish().await
}
