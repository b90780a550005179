//! Endpoints that fail, and what a caller is told of it.

use super::{Fixture, anthropic, quick};
use anyhow::{Context, Result};
use std::time::{Duration, Instant};
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};
use surety_model::{Blame, ChatError, Endpoints, Phase, Profile, Profiles};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn failures_of_a_moment_are_sent_again_and_the_parts_that_arrived_are_void() -> Result<()> {
    for failure in [
        Reply::status(500),
        Reply::status(502),
        Reply::status(503),
        Reply::status(529),
        Reply::status(429).header("retry-after", "0"),
        Reply::text("{\"action\": \"done\"}").malformed(),
        Reply::text("{\"action\": \"done\"}").cut_after(600),
        Reply::text("{\"action\": \"done\"}").error_event("overloaded"),
        Reply::text("{\"action\": \"done\"}").without_end(),
        Reply::raw(200, "<html>").header("content-type", "text/html"),
    ] {
        for change in [|_: &mut Profile| {}, anthropic] {
            let script = Script::list([failure.clone(), Reply::text("whole")]);
            let fixture = Fixture::start(Settings::default(), script, change).await?;
            let (reply, text, _, _) = fixture.parts().await;
            let reply = reply.with_context(|| format!("{failure:?}"))?;
            assert_eq!((reply.text.as_str(), text.as_str()), ("whole", "whole"), "{failure:?}");
            assert_eq!((reply.retries, fixture.requests()), (1, 2), "{failure:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_that_breaks_after_text_restarts() -> Result<()> {
    let fixture =
        Fixture::with([Reply::text("a long text").malformed(), Reply::text("whole")]).await?;
    let (reply, text, _, restarts) = fixture.parts().await;
    assert_eq!((reply?.text.as_str(), text.as_str(), restarts), ("whole", "whole", 1));
    Ok(())
}

#[tokio::test]
async fn each_failure_that_lasts_has_its_code_and_says_who_is_to_act() -> Result<()> {
    for (failure, code, blame, requests) in [
        (Reply::status(500), "model_overloaded", Blame::Endpoint, 3),
        (Reply::status(429), "model_rate_limited", Blame::Endpoint, 3),
        (Reply::text("a").cut_after(40), "model_unreachable", Blame::Endpoint, 3),
        (Reply::text("a").without_end(), "model_unreachable", Blame::Endpoint, 3),
        (Reply::text("a").malformed(), "model_bad_reply", Blame::Request, 3),
        (Reply::raw(400, "{\"error\": \"no\"}"), "model_bad_request", Blame::Request, 1),
        (Reply::raw(402, ""), "model_rate_limited", Blame::Endpoint, 1),
        (Reply::raw(403, ""), "model_unauthorized", Blame::Configuration, 1),
        (
            Reply::raw(308, "").header("location", "https://elsewhere/v1"),
            "model_unknown",
            Blame::Configuration,
            1,
        ),
    ] {
        let again = failure.clone();
        let script = Script::function(move |_| again.clone());
        let fixture =
            Fixture::start(Settings::default(), script, |profile| profile.retries = 2).await?;
        let error = fixture.ask().await.expect_err("a failure");
        assert_eq!((error.code(), error.blame()), (code, blame), "{failure:?}: {error}");
        assert_eq!(fixture.requests(), requests, "{failure:?}");
        assert_eq!(error.endpoint(), format!("{}/v1", fixture.server.address()));
    }
    Ok(())
}

#[tokio::test]
async fn a_stream_of_http_2_that_is_reset_is_sent_again() -> Result<()> {
    let authority = Authority::new()?;
    authority.issue("model", "127.0.0.1", VALID)?;
    let tls = Some((authority.path("model.pem"), authority.path("model.key")));
    let settings = Settings { tls, ..Settings::default() };
    let script = Script::list([Reply::text("a long text").cut_after(500), Reply::text("whole")]);
    let fixture = Fixture::start(settings, script, |profile| {
        profile.ca_file = Some(authority.path("ca.pem"));
    });
    let fixture = fixture.await?;
    let reply = fixture.ask().await?;
    assert_eq!((reply.text.as_str(), reply.retries), ("whole", 1));
    let versions = fixture.server.recorded().into_iter().map(|record| record.version);
    assert_eq!(versions.collect::<Vec<_>>(), ["HTTP/2.0", "HTTP/2.0"]);
    Ok(())
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() -> Result<()> {
    let authority = Authority::new()?;
    authority.issue("model", "127.0.0.1", VALID)?;
    let tls = Some((authority.path("model.pem"), authority.path("model.key")));
    let settings = Settings { tls, ..Settings::default() };
    let fixture = Fixture::start(settings, Script::list([]), |profile| profile.retries = 0).await?;
    let error = fixture.ask().await.expect_err("a refusal");
    assert_eq!((error.code(), fixture.requests()), ("model_unreachable", 0), "{error}");
    Ok(())
}

#[tokio::test]
async fn the_pause_that_the_endpoint_asks_for_is_kept() -> Result<()> {
    let limited = Reply::status(429).header("retry-after", "1");
    let fixture = Fixture::with([limited, Reply::text("whole")]).await?;
    let start = Instant::now();
    assert_eq!(fixture.ask().await?.text, "whole");
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    // A longer one than the request has time for is the caller's to wait for.
    let limited = Reply::status(429).header("retry-after", "Wed, 21 Oct 2099 07:28:00 GMT");
    let fixture = Fixture::with([limited]).await?;
    let error = fixture.ask().await.expect_err("a limit");
    assert_eq!((error.code(), fixture.requests()), ("model_rate_limited", 1));
    // Nor is it taken at its word for years.
    assert_eq!(error.retry_after(), Some(Duration::from_secs(900)));
    // It holds for the endpoint, not for one request: no other run asks before that time.
    let error = fixture.ask().await.expect_err("a limit");
    assert_eq!((error.code(), fixture.requests()), ("model_rate_limited", 1));
    assert!(error.retry_after() > Some(Duration::from_secs(800)), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_is_back_before_its_time_is_asked_again() -> Result<()> {
    let down = || Reply::status(503).saying("maintenance").header("retry-after", "3600");
    let fixture = Fixture::with([down(), Reply::text("back")]).await?;
    let error = fixture.ask().await.expect_err("it is down");
    assert_eq!((error.code(), fixture.requests()), ("model_overloaded", 1));
    // The list of models shows that it is back.
    assert_eq!(fixture.ask().await?.text, "back");
    // One that lists its models and still fails is taken at its word.
    let fixture = Fixture::with([down(), down(), Reply::text("never")]).await?;
    for (asked, requests) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
        let error = fixture.ask().await.expect_err("it is down");
        assert_eq!((error.code(), fixture.requests()), ("model_overloaded", requests), "{asked}");
        assert!(error.to_string().contains("maintenance"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn each_clock_ends_a_request_and_is_named() -> Result<()> {
    let long = Duration::from_secs(60);
    let short = Duration::from_millis(80);
    type Change = fn(&mut Profile, Duration);
    let first: Change = |profile, limit| profile.first_byte_timeout = limit;
    let idle: Change = |profile, limit| profile.idle_timeout = limit;
    let total: Change = |profile, limit| profile.total_timeout = limit;
    for (reply, change, phase) in [
        (Reply::text("a").head_after(long), first, Phase::FirstByte),
        (Reply::text("a").body_after(long), first, Phase::FirstByte),
        (Reply::text("a long text").stall_after(400), idle, Phase::Idle),
        (Reply::text("a").head_after(long), total, Phase::Total),
        (
            Reply::text("a long text ".repeat(900)).every(Duration::from_millis(2)),
            total,
            Phase::Total,
        ),
    ] {
        let fixture = Fixture::start(Settings::default(), Script::list([reply]), |profile| {
            change(profile, short);
            profile.retries = 0;
        });
        let fixture = fixture.await?;
        let error = fixture.ask().await.expect_err("a timeout");
        assert_eq!(error.code(), "model_timeout");
        let ChatError::Timeout { phase: found, limit, .. } = error else { panic!("{error:?}") };
        assert_eq!((found, limit), (phase, short));
        fixture.server.wait_until(|log| log.iter().all(|record| record.closed_early)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_address_without_an_answer_is_a_timeout_of_the_connection_or_unreachable() -> Result<()>
{
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    drop(listener);
    let mut profile = quick(&format!("http://{address}/v1"));
    profile.retries = 1;
    let endpoints = Endpoints::open(Profiles::of([profile], [])?)?;
    let model = endpoints.model("fast")?;
    let error = model.reply(&super::request(), &mut |_| {}, &CancellationToken::new()).await;
    let error = error.expect_err("nothing listens");
    assert_eq!((error.code(), error.blame()), ("model_unreachable", Blame::Endpoint));
    // The endpoint comes back: the same model answers.
    let settings = Settings::default();
    let server =
        ModelServer::start_on(address, settings, Script::list([Reply::text("back")])).await?;
    let cancel = CancellationToken::new();
    model.probe(&cancel).await?;
    assert_eq!(model.reply(&super::request(), &mut |_| {}, &cancel).await?.text, "back");
    drop(server);
    Ok(())
}

#[tokio::test]
async fn a_full_backlog_is_a_timeout_of_the_connection() -> Result<()> {
    // A listener with room for one connection that nothing accepts: the next ones are not answered.
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let listener = socket.listen(0)?;
    let address = listener.local_addr()?;
    let mut held = Vec::new();
    loop {
        let connect = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(300), connect).await {
            Ok(stream) => held.push(stream?),
            Err(_) => break,
        }
    }
    let mut profile = quick(&format!("http://{address}/v1"));
    profile.connect_timeout = Duration::from_millis(200);
    profile.retries = 0;
    let model = Endpoints::open(Profiles::of([profile], [])?)?.model("fast")?;
    let error = model.reply(&super::request(), &mut |_| {}, &CancellationToken::new()).await;
    let error = error.expect_err("no connection");
    let ChatError::Timeout { phase, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*phase, error.blame()), (Phase::Connect, Blame::Endpoint));
    Ok(())
}

#[tokio::test]
async fn a_prompt_that_is_too_long_says_so_in_both_forms() -> Result<()> {
    for change in [|_: &mut Profile| {}, anthropic] {
        let settings = Settings { context_tokens: 20, ..Settings::default() };
        let fixture = Fixture::start(settings, Script::list([]), change).await?;
        let error = fixture.ask_for(&super::with_schema()).await.expect_err("too long");
        assert_eq!((error.code(), error.blame()), ("model_context_too_long", Blame::Request));
        assert_eq!(fixture.requests(), 1);
    }
    Ok(())
}
