//! One question of a run to a model: the conversation, bounded by the model's context, and what became of it.

use crate::chat::{ChatModel, ChatReply, ChatRequest, OnPart, ReplySchema};
use crate::context::bound;
use crate::error::ChatError;
use crate::profile::Api;
use crate::usage::TokenUsage;
use surety_common::config::Prompt;
use surety_common::domain::decision::Usage;
use surety_common::domain::messages::Message;
use surety_common::domain::model::ModelReply;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_common::domain::run::RunSpec;
use surety_common::telemetry::{self, ChatSpan};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// The most bytes that are kept of a reply which is not read, and of what an endpoint says in its place.
const UNREAD_BYTES: usize = 4096;
/// The fewest tokens of a reply, however little of a budget is left.
const FEWEST_TOKENS: u64 = 256;
/// What stands for a reply of thinking alone.
const THINKING: &str = "<think>the endpoint returned thinking and no text</think>";
/// The code of a conversation that does not fit the model's context.
const TOO_LONG: &str = "model_context_too_long";

/// What a model is asked, and for which run.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The service that asks, for the span.
    pub service: &'static str,
    /// The run.
    pub spec: &'a RunSpec,
    /// The prompt that the conversation begins with.
    pub prompt: &'a Prompt,
    /// The conversation.
    pub messages: &'a [Message],
    /// The form of the reply.
    pub schema: Option<&'a ReplySchema>,
    /// The tokens that the run's budget has reserved for prompt and reply; none without a budget.
    pub reserved: Option<u64>,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The text; its beginning where its token limit cut it, or it is too large.
    pub text: String,
    /// What it cost; none where the endpoint says nothing of it.
    pub usage: Option<Usage>,
    /// The `traceparent` of the call's span; empty when nothing is exported.
    pub trace_parent: String,
    /// Which model said it.
    pub model: ModelReply,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// There is a reply, whole or cut.
    Said(Said),
    /// The endpoint gives none: the run waits for it.
    Away(Away),
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The profile.
    pub profile: String,
    /// The error's code.
    pub code: &'static str,
    /// The error in words, its code first.
    pub why: String,
}

/// Asks a model; `on_part` is told of the parts of its reply as they arrive. A cut reply and a refusal are replies, which the run answers; every other error makes it wait.
pub async fn ask(
    model: &dyn ChatModel,
    question: &Question<'_>,
    on_part: OnPart<'_>,
    cancel: &CancellationToken,
) -> Answer {
    let profile = model.profile();
    let Question { service, spec, prompt, .. } = *question;
    let made = ModelReply {
        endpoint: profile.name.clone(),
        model: profile.model.clone(),
        prompt: prompt.name.clone(),
        prompt_digest: prompt.digest.clone(),
        cut: false,
    };
    let request = match request(model, question) {
        Ok(request) => request,
        Err(why) => return Answer::Away(away(made.endpoint, TOO_LONG, &why)),
    };
    let run_id = spec.id.to_string();
    let chat = ChatSpan {
        run_id: &run_id,
        provider: match profile.api {
            Api::OpenAi => "openai",
            Api::Anthropic => "anthropic",
        },
        model: &profile.model,
        profile: &profile.name,
        prompt: &prompt.name,
    };
    let span = telemetry::chat_span(service, &chat, &spec.trace_parent);
    let replied = model.reply(&request, on_part, cancel).instrument(span.clone()).await;
    match replied {
        Ok(reply) => Answer::Said(said(reply, made, &span)),
        Err(error) => of_error(error, made, &span),
    }
}

/// The conversation as far as the model's context takes it. What is left out is said in it.
fn request(model: &dyn ChatModel, question: &Question<'_>) -> Result<ChatRequest, String> {
    let Question { messages, schema, reserved, .. } = *question;
    let profile = model.profile();
    let room = profile.prompt_room().unwrap_or(u64::MAX);
    let bounded = bound(messages, profile.tokenizer, room).map_err(|error| error.to_string())?;
    let most = u64::from(profile.max_output_tokens);
    let left = reserved.map(|reserved| reserved.saturating_sub(bounded.tokens).max(FEWEST_TOKENS));
    Ok(ChatRequest {
        messages: bounded.messages,
        schema: schema.cloned(),
        max_output_tokens: left.map(|left| u32::try_from(left.min(most)).unwrap_or(u32::MAX)),
        temperature: None,
    })
}

fn said(reply: ChatReply, made: ModelReply, span: &Span) -> Said {
    let ChatReply { text, reasoning, usage, cost_micros, model, .. } = reply;
    record_usage(span, usage);
    span.record("gen_ai.response.model", model.as_str());
    let thought = reasoning.is_some_and(|reasoning| !reasoning.trim().is_empty());
    let text = if text.trim().is_empty() && thought { THINKING.to_owned() } else { text };
    // Far longer than any plan or decision: it is answered like a reply that its limit cut.
    let cut = text.len() > MAX_TEXT_BYTES;
    Said {
        text: if cut { shortened(&text) } else { storable(&text) },
        usage: Some(used(usage, cost_micros)),
        trace_parent: telemetry::trace_parent(span),
        model: ModelReply { model, cut, ..made },
    }
}

fn of_error(error: ChatError, made: ModelReply, span: &Span) -> Answer {
    span.record("error.type", error.code());
    let trace_parent = telemetry::trace_parent(span);
    match error {
        ChatError::ReplyCut { text, usage, cost_micros, .. } => {
            record_usage(span, usage);
            let usage = Some(used(usage, cost_micros));
            let model = ModelReply { cut: true, ..made };
            Answer::Said(Said { text: shortened(&text), usage, trace_parent, model })
        }
        // It is a text without a plan or a decision, which has a limit of its own.
        ChatError::Refused { said, .. } => {
            let text = format!("The model refused to reply. {}", shortened(&said));
            Answer::Said(Said { text, usage: None, trace_parent, model: made })
        }
        error @ (ChatError::Unauthorized { .. }
        | ChatError::ModelUnknown { .. }
        | ChatError::Timeout { .. }
        | ChatError::RateLimited { .. }
        | ChatError::Unreachable { .. }
        | ChatError::Overloaded { .. }
        | ChatError::CircuitOpen { .. }
        | ChatError::BadReply { .. }
        | ChatError::ContextTooLong { .. }
        | ChatError::BadRequest { .. }
        | ChatError::Cancelled { .. }) => {
            Answer::Away(away(made.endpoint, error.code(), &error.to_string()))
        }
    }
}

fn away(profile: String, code: &'static str, why: &str) -> Away {
    Away { profile, code, why: format!("{code}: {}", shortened(why)) }
}

fn record_usage(span: &Span, usage: TokenUsage) {
    span.record("gen_ai.usage.input_tokens", usage.input);
    span.record("gen_ai.usage.output_tokens", usage.output);
}

fn used(usage: TokenUsage, cost_micros: u64) -> Usage {
    Usage { tokens: usage.input.saturating_add(usage.output), cost_micros }
}

/// A text that the database can store.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(UNREAD_BYTES);
    storable(text.get(..end).unwrap_or_default())
}
