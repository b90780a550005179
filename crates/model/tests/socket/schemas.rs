//! How a model is held to the form of its reply, and what is done where an endpoint cannot.

use super::{Fixture, anthropic, with_schema};
use anyhow::Result;
use surety_e2e::model_server::{Offers, Reply, Script, Settings};
use surety_model::{Profile, SchemaMode};

const DONE: &str = "{\"action\":\"done\"}";

fn offering(offers: Offers) -> Settings {
    Settings { offers, ..Settings::default() }
}

fn always() -> Script {
    Script::function(|_| Reply::text(DONE))
}

/// The ways that were tried, by the fields of the requests.
fn ways(fixture: &Fixture) -> Vec<&'static str> {
    let way = |body: &serde_json::Value| match (body.get("response_format"), body.get("tools")) {
        (Some(_), _) => "format",
        (None, Some(_)) => "function",
        (None, None) => "nothing",
    };
    fixture.server.recorded().iter().map(|record| way(&record.body)).collect()
}

#[tokio::test]
async fn the_first_way_that_the_endpoint_takes_is_found_once_and_remembered() -> Result<()> {
    let plain: fn(&mut Profile) = |_| {};
    for (offers, change, expected) in [
        (Offers::Everything, plain, vec!["format", "format"]),
        (Offers::Functions(400), plain, vec!["format", "function", "function"]),
        (Offers::Functions(404), plain, vec!["format", "function", "function"]),
        // HTTP 500 counts when it comes again.
        (Offers::Functions(500), plain, vec!["format", "format", "function", "function"]),
        (Offers::Nothing(400), plain, vec!["format", "function", "nothing", "nothing"]),
        (Offers::Everything, anthropic, vec!["function", "function"]),
        (Offers::Nothing(400), anthropic, vec!["function", "nothing", "nothing"]),
    ] {
        for stream in [true, false] {
            let fixture = Fixture::start(offering(offers), always(), |profile| {
                change(profile);
                profile.stream = stream;
            });
            let fixture = fixture.await?;
            for _ in 0..2 {
                assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE, "{offers:?}");
            }
            assert_eq!(ways(&fixture), expected, "{offers:?} {stream}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_way_that_was_remembered_gives_way_once_the_endpoint_refuses_it() -> Result<()> {
    for (later, expected) in [
        (Offers::Functions(400), ["format", "format", "function", "function"].as_slice()),
        // A failure is answered by the next way, and forgotten: it may be one of the moment.
        (
            Offers::Functions(500),
            ["format", "format", "format", "function", "format", "format", "function"].as_slice(),
        ),
    ] {
        let fixture = Fixture::start(offering(Offers::Everything), always(), |_| {}).await?;
        assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE);
        fixture.server.change(|settings| settings.offers = later);
        for _ in 0..2 {
            assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE, "{later:?}");
        }
        assert_eq!(ways(&fixture), expected, "{later:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_way_that_the_profile_names_is_the_only_one() -> Result<()> {
    for (schema, way) in [
        (SchemaMode::Format, "format"),
        (SchemaMode::Function, "function"),
        (SchemaMode::Never, "nothing"),
    ] {
        let settings = offering(Offers::Everything);
        let fixture = Fixture::start(settings, always(), |profile| profile.schema = schema).await?;
        assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE);
        assert_eq!(ways(&fixture), [way]);
    }
    let settings = offering(Offers::Functions(400));
    let change = |profile: &mut Profile| profile.schema = SchemaMode::Format;
    let fixture = Fixture::start(settings, always(), change).await?;
    let error = fixture.ask_for(&with_schema()).await.expect_err("a refusal");
    assert_eq!((error.code(), ways(&fixture).len()), ("model_bad_request", 1));
    Ok(())
}

#[tokio::test]
async fn a_request_that_is_refused_for_another_reason_changes_nothing() -> Result<()> {
    let refused = || Reply::status(400).saying("temperature is not supported");
    let mut replies = vec![refused(), refused(), refused()];
    replies.push(Reply::text(DONE));
    let fixture = Fixture::with(replies).await?;
    let error = fixture.ask_for(&with_schema()).await.expect_err("a refusal");
    assert_eq!(error.code(), "model_bad_request");
    assert!(error.to_string().contains("temperature is not supported"), "{error}");
    assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE);
    assert_eq!(ways(&fixture), ["format", "function", "nothing", "format"]);
    Ok(())
}

#[tokio::test]
async fn a_refusal_inside_a_stream_or_an_answer_of_200_is_one_of_the_schema() -> Result<()> {
    let said = "response_format is not supported";
    for error in [
        serde_json::json!({"message": said, "type": "invalid_request_error", "code": 400}),
        serde_json::json!({"message": said, "code": 400}),
        serde_json::json!({"message": said, "type": "BadRequestError"}),
    ] {
        let error = serde_json::json!({ "error": error });
        for (body, kind) in [
            (format!("data: {error}\n\n"), "text/event-stream"),
            (error.to_string(), "application/json"),
        ] {
            let refused = Reply::raw(200, &body).header("content-type", kind);
            let fixture = Fixture::with([refused, Reply::text(DONE), Reply::text(DONE)]).await?;
            for _ in 0..2 {
                assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE, "{body}");
            }
            assert_eq!(ways(&fixture), ["format", "function", "function"], "{body}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn one_failure_of_a_moment_does_not_lose_the_schema() -> Result<()> {
    let replies = [Reply::status(500), Reply::text(DONE), Reply::text(DONE)];
    let fixture = Fixture::with(replies).await?;
    for _ in 0..2 {
        assert_eq!(fixture.ask_for(&with_schema()).await?.text, DONE);
    }
    assert_eq!(ways(&fixture), ["format", "format", "format"]);
    Ok(())
}
