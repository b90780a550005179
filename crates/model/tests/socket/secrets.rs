//! A key is searched for in everything that leaves the client: errors, parts, replies, what is shown of the
//! configuration, and logs of all libraries at their finest level.

use super::quick;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use surety_common::config::Secret;
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};
use surety_model::{Api, Endpoints, Profile, Profiles, ReplyPart};
use tokio_util::sync::CancellationToken;
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::fmt::MakeWriter;

const CANARY: &str = "sk-canary-5f0c9d7e1b";
const HEADER_CANARY: &str = "gw-canary-77aa41c2d9";

/// Keeps every log line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Replies and failures of an endpoint that repeats the key wherever it can.
fn repeating() -> Vec<Reply> {
    let said = format!("your key is {CANARY}, your header is {HEADER_CANARY}");
    vec![
        Reply::text(&said).thinking(&said),
        Reply::status(500).saying(&said),
        Reply::status(429).saying(&said),
        Reply::status(400).saying(&said),
        Reply::status(404).saying(&said),
        Reply::status(403).saying(&said),
        Reply::raw(502, &said),
        Reply::raw(200, &said),
        Reply::raw(308, "").header("location", &format!("https://elsewhere/{CANARY}")),
        Reply::raw(200, "x").header("content-type", &format!("text/{CANARY}")),
        Reply::text("a").error_event(&said),
        Reply::text(&said).cut_after(500),
        Reply::text(&said).malformed(),
    ]
}

async fn ask(profile: Profile, seen: &mut String) -> Result<()> {
    let profiles = Profiles::of([profile], [])?;
    write!(seen, "{profiles:?}")?;
    let endpoints = Endpoints::open(profiles)?;
    let model = endpoints.model("fast")?;
    let mut parts = String::new();
    let mut on_part = |part: ReplyPart<'_>| match part {
        ReplyPart::Text(piece) | ReplyPart::Reasoning(piece) => parts.push_str(piece),
        ReplyPart::Restart(_) => parts.push('\n'),
    };
    let cancel = CancellationToken::new();
    let reply = model.reply(&super::with_schema(), &mut on_part, &cancel).await;
    match reply {
        Ok(reply) => write!(seen, "{reply:?}")?,
        Err(error) => write!(seen, "{error} {error:?}")?,
    }
    if let Err(error) = model.probe(&cancel).await {
        write!(seen, "{error} {error:?}")?;
    }
    seen.push_str(&parts);
    Ok(())
}

#[tokio::test]
async fn a_key_is_in_no_error_no_reply_no_part_and_no_log() -> Result<()> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    // With a single subscriber, tracing asks only the thread that first passes a place that logs. Where that is
    // the thread of another test, without a subscriber, the place would stay off here as well; with two it asks both.
    let other_threads = Dispatch::new(NoSubscriber::default());
    let logging = tracing::subscriber::set_default(subscriber);
    let authority = Authority::new()?;
    authority.issue("model", "127.0.0.1", VALID)?;
    let mut seen = String::new();
    let mut count = 0;
    for api in [Api::OpenAi, Api::Anthropic] {
        for tls in [false, true] {
            // The last server takes another key, and says which one it was shown.
            for reply in repeating().into_iter().map(Some).chain([None]) {
                let key = if reply.is_some() { CANARY } else { "another" };
                let settings = Settings {
                    key: Some(key.to_owned()),
                    tls: tls.then(|| (authority.path("model.pem"), authority.path("model.key"))),
                    ..Settings::default()
                };
                let again = reply.unwrap_or_else(|| Reply::text("never"));
                let server =
                    ModelServer::start(settings, Script::function(move |_| again.clone())).await?;
                let mut profile = quick(&server.url());
                profile.api = api;
                profile.retries = 1;
                profile.key = Some(Secret::new(CANARY));
                let header =
                    ("x-gateway".to_owned(), Secret::new(format!("Bearer {HEADER_CANARY}")));
                profile.secret_headers = [header].into();
                profile.ca_file = tls.then(|| authority.path("ca.pem"));
                ask(profile, &mut seen).await?;
                let shown = server.recorded();
                let name = if api == Api::OpenAi { "authorization" } else { "x-api-key" };
                assert!(shown.iter().all(|it| it.headers[name].contains(CANARY)), "{shown:?}");
                count += shown.len();
            }
        }
    }
    drop((logging, other_threads));
    assert!(count >= 56, "{count} requests");
    let logs = lines.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let logs = String::from_utf8_lossy(&logs).into_owned();
    assert!(logs.contains("sent again"), "the client logs");
    assert!(logs.contains("h2::"), "its libraries log");
    // What the server of the test logs of itself is not the client's.
    let logs: Vec<&str> = logs.lines().filter(|line| !is_of_the_server(line)).collect();
    for canary in [CANARY, HEADER_CANARY] {
        assert!(!seen.contains(canary), "{}", around(&seen, canary));
        let logs = logs.join("\n");
        assert!(!logs.contains(canary), "{}", around(&logs, canary));
    }
    assert!(seen.contains("[secret:model-key]"), "what was repeated is marked");
    Ok(())
}

/// The server reads headers and bodies with the same libraries.
fn is_of_the_server(line: &str) -> bool {
    line.contains("server") || line.contains("Server")
}

fn around(text: &str, canary: &str) -> String {
    let at = text.find(canary).unwrap_or_default();
    let from =
        text.char_indices().map(|(place, _)| place).take_while(|place| *place + 300 < at).last();
    text[from.unwrap_or_default()..].chars().take(500).collect()
}
