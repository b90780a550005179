//! The clients against a model server of our own, over real sockets.

mod broken;
mod budget;
mod codes;
mod configured;
mod failures;
mod forms;
mod schemas;
mod secrets;
mod waiting;

use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use surety_e2e::model_server::{ModelServer, Reply, Script, Settings};
use surety_model::{
    Api, ChatError, ChatModel, ChatReply, ChatRequest, Endpoints, Message, Profile, Profiles,
    ReplyPart, ReplySchema, Role,
};
use tokio_util::sync::CancellationToken;

/// A server, and a model that asks it.
struct Fixture {
    server: ModelServer,
    model: Arc<dyn ChatModel>,
}

impl Fixture {
    async fn start(
        settings: Settings,
        script: Script,
        change: impl FnOnce(&mut Profile),
    ) -> Result<Self> {
        let server = ModelServer::start(settings, script).await?;
        let mut profile = quick(&server.url());
        change(&mut profile);
        let endpoints = Endpoints::open(Profiles::of([profile], [])?)?;
        let model = endpoints.model("fast")?;
        Ok(Self { server, model })
    }

    async fn with(script: impl IntoIterator<Item = Reply>) -> Result<Self> {
        Self::start(Settings::default(), Script::list(script), |_| {}).await
    }

    async fn ask(&self) -> Result<ChatReply, ChatError> {
        self.ask_for(&request()).await
    }

    async fn ask_for(&self, request: &ChatRequest) -> Result<ChatReply, ChatError> {
        self.model.reply(request, &mut |_| {}, &CancellationToken::new()).await
    }

    /// The reply, and the parts that arrived: text and thinking, with what was void left out.
    async fn parts(&self) -> (Result<ChatReply, ChatError>, String, String, u32) {
        let (mut text, mut thinking, mut restarts) = (String::new(), String::new(), 0);
        let mut on_part = |part: ReplyPart<'_>| match part {
            ReplyPart::Text(piece) => text.push_str(piece),
            ReplyPart::Reasoning(piece) => thinking.push_str(piece),
            ReplyPart::Restart(_) => {
                (text, thinking) = (String::new(), String::new());
                restarts += 1;
            }
        };
        let reply = self.model.reply(&request(), &mut on_part, &CancellationToken::new()).await;
        (reply, text, thinking, restarts)
    }

    /// How many requests for a reply arrived.
    fn requests(&self) -> usize {
        self.server.recorded().iter().filter(|it| it.line.starts_with("POST")).count()
    }
}

/// A profile without long pauses.
fn quick(url: &str) -> Profile {
    let mut profile = Profile::at("fast", url, "test-model");
    profile.retry_pause = Duration::from_millis(5);
    profile.total_timeout = Duration::from_secs(30);
    profile.breaker_failures = 100;
    profile
}

fn anthropic(profile: &mut Profile) {
    profile.api = Api::Anthropic;
}

fn request() -> ChatRequest {
    ChatRequest {
        messages: vec![
            Message::new(Role::System, "Reply with one JSON object."),
            Message::new(Role::User, "Fix the test."),
        ],
        ..ChatRequest::default()
    }
}

fn with_schema() -> ChatRequest {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"action": {"type": "string"}},
        "required": ["action"],
        "additionalProperties": false,
    });
    ChatRequest { schema: Some(ReplySchema { name: "decision".to_owned(), schema }), ..request() }
}
