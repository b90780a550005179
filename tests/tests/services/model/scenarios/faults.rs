//! Endpoints that fail in the middle of a run: a failure costs the calls that are stated, and no turn.

use super::{Scenario, after, comes_to, decision, goal, play_all, step, well};
use crate::model::stage::{Stage, is_planning, one_step, say};
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use std::time::Duration;
use surety_common::wire::v1::StopReason;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::model_server::{Asked, Reply, Settings};

/// Short pauses, and a breaker that no other scenario opens. No schemas: an error could be about one.
const PROFILE: &str = "schema = \"none\"\nretry_pause_ms = 20\nbreaker_failures = 1000\n\
                       first_byte_timeout_ms = 4000\nidle_timeout_ms = 4000\n";
/// Longer than a run takes.
const NEVER: Duration = Duration::from_secs(600);

/// The first decision of a good model, on its way.
fn begun() -> Reply {
    Reply::text(decision(0).to_string())
}

/// Its name, and the reply that fails.
type Failure = (&'static str, fn() -> Reply);

/// The first reply to a step; the others are good. Each costs one call.
pub(super) const ONCE: &[Failure] = &[
    ("429 with Retry-After", || Reply::status(429).header("retry-after", "1")),
    ("429 without it", || Reply::status(429)),
    ("a quota that is used up", || {
        let body = r#"{"error": {"message": "no credit", "code": "insufficient_quota"}}"#;
        Reply::raw(429, body)
    }),
    ("500", || Reply::status(500)),
    ("502 with a page", || Reply::raw(502, "<html>bad gateway</html>")),
    ("503 with Retry-After", || Reply::status(503).header("retry-after", "1")),
    ("a head that does not come", || begun().head_after(NEVER)),
    ("a first byte that does not come", || begun().body_after(NEVER)),
    ("a stream that stops", || begun().stall_after(300)),
    ("a stream that is cut", || begun().cut_after(300)),
    ("a stream without its end", || begun().without_end()),
    ("a chunk that is no JSON", || begun().malformed()),
    ("an error in the stream", || begun().error_event("overloaded")),
    ("an answer without a body", || Reply::raw(200, "")),
    ("a page in the place of a stream", || Reply::raw(200, "<html>hello</html>")),
    ("a refused key", || Reply::status(401)),
    ("a model that is unknown for a moment", || {
        Reply::raw(404, r#"{"error": {"message": "The model `x` does not exist."}}"#)
    }),
    ("a template that refuses the roles", || {
        let said = "Conversation roles must alternate user/assistant/user/assistant/...";
        Reply::status(400).saying(said)
    }),
    ("a template that raises", || {
        Reply::status(500).saying("Jinja Exception: Conversation roles must alternate")
    }),
];

fn planned_after(number: usize, asked: &Asked, failure: impl FnOnce() -> Reply) -> Reply {
    match (is_planning(asked), number) {
        (true, 0) => failure(),
        (true, _) => say(&one_step()),
        (false, number) => well(number - 2),
    }
}

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "500 for longer than a request is sent again",
        request: step,
        says: |number, _| match number.checked_sub(4) {
            None => Reply::status(500),
            Some(number) => well(number),
        },
        ends: StopReason::Accepted,
        calls: 6,
    },
    Scenario {
        name: "429 in the place of a plan",
        request: goal,
        says: |number, asked| {
            planned_after(number, asked, || Reply::status(429).header("retry-after", "1"))
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a plan whose stream is cut",
        request: goal,
        says: |number, asked| {
            planned_after(number, asked, || Reply::text(one_step().to_string()).cut_after(300))
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
    Scenario {
        name: "a template that refuses the roles of a plan",
        request: goal,
        says: |number, asked| {
            planned_after(number, asked, || Reply::status(400).saying("roles must alternate"))
        },
        ends: StopReason::Accepted,
        calls: 4,
    },
];

#[tokio::test]
async fn a_failure_of_the_endpoint_costs_the_calls_that_are_stated_and_the_run_goes_on()
-> Result<()> {
    let stage = Stage::start_profiled(Settings::default(), PROFILE).await?;
    for (name, failure) in ONCE {
        stage.plays.add(name, move |number, _| after(number, failure));
    }
    let once = ONCE.iter().map(|(name, _)| comes_to(&stage, name, step, StopReason::Accepted, 3));
    let (once, others) = futures::join!(try_join_all(once), play_all(&stage, SCENARIOS.iter()));
    once?;
    others?;
    stage.deployment.finish().await
}

#[tokio::test]
async fn streams_of_http_2_that_are_reset_cost_one_call_each() -> Result<()> {
    let authority = Authority::new()?;
    authority.issue("model", "127.0.0.1", VALID)?;
    let tls = Some((authority.path("model.pem"), authority.path("model.key")));
    let profile = format!("{PROFILE}ca_file = {:?}\n", authority.path("ca.pem"));
    let settings = Settings { tls, ..Settings::default() };
    let stage = Stage::start_profiled(settings, &profile).await?;
    let names = ["reset before the reply", "reset in the middle of it"];
    for (name, bytes) in names.into_iter().zip([0, 300]) {
        stage.plays.add(name, move |number, _| after(number, || begun().cut_after(bytes)));
        comes_to(&stage, name, step, StopReason::Accepted, 3).await?;
    }
    let recorded = stage.server.recorded();
    ensure!(recorded.iter().all(|request| request.version == "HTTP/2.0"), "{recorded:#?}");
    stage.deployment.finish().await
}
