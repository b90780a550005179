//! The breaker, the slots, and a caller that gives up.

use super::{Fixture, anthropic, request};
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};
use surety_model::{Blame, ChatError, ChatReply, Endpoints, Phase, Profile, Profiles};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The breaker let no request through yet.
fn assert_is_early(reply: Result<ChatReply, ChatError>) {
    assert!(reply.is_err_and(|error| error.code() == "model_circuit_open"));
}

#[tokio::test]
async fn after_failures_in_a_row_the_endpoint_is_not_asked_until_it_is_back() -> Result<()> {
    let fixture =
        Fixture::start(Settings::default(), Script::function(|_| Reply::status(503)), |it| {
            it.retries = 0;
            it.breaker_failures = 3;
            it.breaker_open = Duration::from_secs(3600);
        });
    let fixture = fixture.await?;
    for _ in 0..3 {
        assert_eq!(fixture.ask().await.expect_err("a failure").code(), "model_overloaded");
    }
    let error = fixture.ask().await.expect_err("an open breaker");
    assert_eq!((error.code(), error.blame()), ("model_circuit_open", Blame::Endpoint));
    assert!(error.retry_after() > Some(Duration::from_secs(3000)), "{error:?}");
    assert_eq!(fixture.requests(), 3);
    // A run that waits asks whether the endpoint is back, which closes the breaker.
    fixture.server.play(Script::list([Reply::text("back")]));
    fixture.model.probe(&CancellationToken::new()).await?;
    assert_eq!(fixture.ask().await?.text, "back");
    Ok(())
}

#[tokio::test]
async fn after_its_time_the_breaker_lets_one_request_try() -> Result<()> {
    let script = Script::list([Reply::status(503), Reply::text("back")]);
    let fixture = Fixture::start(Settings::default(), script, |profile| {
        profile.retries = 0;
        profile.breaker_failures = 1;
        profile.breaker_open = Duration::from_millis(1);
    });
    let fixture = fixture.await?;
    assert_eq!(fixture.ask().await.expect_err("a failure").code(), "model_overloaded");
    loop {
        match fixture.ask().await {
            Ok(reply) => break assert_eq!(reply.text, "back"),
            Err(error) => assert_eq!(error.code(), "model_circuit_open"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_endpoint_has_no_more_requests_at_a_time_than_its_profile_allows() -> Result<()> {
    let slow = |_: &_| Reply::text("ok").head_after(Duration::from_millis(20));
    let fixture = Fixture::start(Settings::default(), Script::function(slow), |profile| {
        profile.concurrency = 2;
    });
    let fixture = Arc::new(fixture.await?);
    let mut asking = JoinSet::new();
    for _ in 0..8 {
        let fixture = Arc::clone(&fixture);
        asking.spawn(async move { fixture.ask().await });
    }
    while let Some(reply) = asking.join_next().await {
        assert_eq!(reply??.text, "ok");
    }
    assert_eq!((fixture.requests(), fixture.server.most_at_once()), (8, 2));
    Ok(())
}

#[tokio::test]
async fn profiles_of_one_endpoint_share_the_least_number_of_requests_that_one_allows() -> Result<()>
{
    let slow = |_: &_| Reply::text("ok").head_after(Duration::from_millis(20));
    let server = ModelServer::start(Settings::default(), Script::function(slow)).await?;
    let profile = |name: &str, more: &str| {
        format!("[model.{name}]\nurl = \"{}\"\nmodel = \"test-model\"\n{more}", server.url())
    };
    let text = format!(
        "[use]\nplan = \"a\"\nstep = \"b\"\n{}{}",
        profile("a", ""),
        profile("b", "concurrency = 3\n")
    );
    let endpoints = Arc::new(Endpoints::open(Profiles::read(&text, Path::new("models.toml"))?)?);
    let mut asking = JoinSet::new();
    for _ in 0..8 {
        let endpoints = Arc::clone(&endpoints);
        asking.spawn(async move {
            let cancel = CancellationToken::new();
            Ok(endpoints.model("a")?.reply(&request(), &mut |_| {}, &cancel).await?)
        });
    }
    while let Some(reply) = asking.join_next().await {
        let reply: Result<_> = reply?;
        assert_eq!(reply?.text, "ok");
    }
    assert_eq!(server.most_at_once(), 3);
    Ok(())
}

#[tokio::test]
async fn waiting_for_a_slot_has_an_end() -> Result<()> {
    let script = Script::list([Reply::text("ok").head_after(Duration::from_secs(3600))]);
    let server = ModelServer::start(Settings::default(), script).await?;
    // Two profiles of one endpoint share its slots.
    let text = format!(
        "[use]\nplan = \"patient\"\nstep = \"hasty\"\n\
         [model.patient]\nurl = \"{url}\"\nmodel = \"test-model\"\nconcurrency = 1\n\
         [model.hasty]\nurl = \"{url}\"\nmodel = \"test-model\"\ntotal_timeout_ms = 50\nretries = 0\n",
        url = server.url()
    );
    let endpoints = Endpoints::open(Profiles::read(&text, Path::new("models.toml"))?)?;
    let (patient, hasty) = (endpoints.model("patient")?, endpoints.model("hasty")?);
    let (holding, cancel) = (CancellationToken::new(), CancellationToken::new());
    let request = request();
    let mut on_part = |_: surety_model::ReplyPart<'_>| {};
    let first = patient.reply(&request, &mut on_part, &holding);
    let second = async {
        server.wait_until(|log| log.len() == 1).await?;
        let mut on_part = |_: surety_model::ReplyPart<'_>| {};
        let late = hasty.reply(&request, &mut on_part, &cancel).await;
        holding.cancel();
        anyhow::Ok(late)
    };
    let (first, late) = tokio::join!(first, second);
    assert_eq!(first.expect_err("it was cancelled").code(), "model_cancelled");
    let late = late?.expect_err("no slot");
    assert!(matches!(late, ChatError::Timeout { phase: Phase::Queue, .. }), "{late:?}");
    assert_eq!(server.recorded().len(), 1);
    Ok(())
}

#[tokio::test]
async fn the_time_in_the_queue_is_not_taken_from_the_reply() -> Result<()> {
    let time = Duration::from_millis(600);
    let slow = move |_: &_| Reply::text("ok").head_after(time);
    let fixture = Fixture::start(Settings::default(), Script::function(slow), |profile| {
        profile.concurrency = 1;
        profile.retries = 0;
        profile.total_timeout = Duration::from_secs(1);
    });
    let fixture = fixture.await?;
    // Together they take longer than one of them may.
    let (first, second) = tokio::join!(fixture.ask(), fixture.ask());
    assert_eq!((first?.text.as_str(), second?.text.as_str()), ("ok", "ok"));
    Ok(())
}

#[tokio::test]
async fn the_first_part_of_a_trial_lets_other_requests_through() -> Result<()> {
    let script = Script::list([
        Reply::status(503),
        Reply::text("a long text ".repeat(900)).every(Duration::from_millis(50)),
        Reply::text("back"),
    ]);
    let fixture = Fixture::start(Settings::default(), script, |profile| {
        profile.retries = 0;
        profile.breaker_failures = 1;
        profile.breaker_open = Duration::from_millis(1);
    });
    let fixture = fixture.await?;
    fixture.ask().await.expect_err("a failure");
    let (on_part, mut first) = tokio::sync::mpsc::unbounded_channel();
    let mut on_part = |_: surety_model::ReplyPart<'_>| on_part.send(()).unwrap_or_default();
    let (request, cancel) = (request(), CancellationToken::new());
    loop {
        let trial = fixture.model.reply(&request, &mut on_part, &cancel);
        tokio::select! {
            reply = trial => assert_is_early(reply),
            other = async {
                first.recv().await;
                fixture.ask().await
            } => break assert_eq!(other?.text, "back"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_caller_that_gives_up_closes_the_connection_at_once() -> Result<()> {
    let long = Duration::from_secs(3600);
    for reply in [
        Reply::text("a").head_after(long),
        Reply::text("a").body_after(long),
        Reply::text("a long text").stall_after(300),
    ] {
        for change in [|_: &mut Profile| {}, anthropic] {
            let script = Script::list([reply.clone()]);
            let fixture = Fixture::start(Settings::default(), script, change).await?;
            let cancel = CancellationToken::new();
            let request = request();
            let mut on_part = |_: surety_model::ReplyPart<'_>| {};
            let asking = fixture.model.reply(&request, &mut on_part, &cancel);
            let giving_up = async {
                fixture.server.wait_until(|log| log.len() == 1).await?;
                cancel.cancel();
                fixture.server.wait_until(|log| log.iter().all(|record| record.closed_early)).await
            };
            let (reply, log) = tokio::join!(asking, giving_up);
            let error = reply.expect_err("it was cancelled");
            assert_eq!((error.code(), error.blame()), ("model_cancelled", Blame::Caller));
            assert_eq!(log?.len(), 1);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_future_that_is_dropped_frees_its_slot_and_the_trial_of_the_breaker() -> Result<()> {
    let script = Script::list([
        Reply::status(503),
        Reply::text("a").head_after(Duration::from_secs(3600)),
        Reply::text("back"),
    ]);
    let fixture = Fixture::start(Settings::default(), script, |profile| {
        profile.retries = 0;
        profile.concurrency = 1;
        profile.breaker_failures = 1;
        profile.breaker_open = Duration::from_millis(1);
    });
    let fixture = fixture.await?;
    fixture.ask().await.expect_err("a failure");
    fixture.server.wait_until(|log| log.len() == 1).await?;
    loop {
        tokio::select! {
            reply = fixture.ask() => assert_is_early(reply),
            log = fixture.server.wait_until(|log| log.len() == 2) => break drop(log?),
        }
    }
    assert_eq!(fixture.ask().await?.text, "back");
    Ok(())
}
