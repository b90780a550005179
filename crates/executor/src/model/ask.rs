//! One question to a model: the conversation of a step, bounded by the model's context, and what became of it.

use crate::participant::{StepScene, Words, Workshop, step_messages};
use serde_json::json;
use surety_common::domain::decision::Usage;
use surety_common::domain::model::ModelReply;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_common::telemetry::{self, ChatSpan};
use surety_model::{
    Api, ChatError, ChatModel, ChatReply, ChatRequest, ReplySchema, TokenUsage, bound,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// The most bytes that are stored of a reply which is not read.
const UNREAD_BYTES: usize = 4096;
/// The fewest tokens of a reply, however little of a budget is left.
const FEWEST_TOKENS: u64 = 256;
/// What stands for a reply of thinking alone.
const THINKING: &str = "<think>the endpoint returned thinking and no text</think>";

/// Who is asked, and about what.
pub(super) struct Ask<'a> {
    pub(super) model: &'a dyn ChatModel,
    pub(super) scene: &'a StepScene,
    pub(super) workshop: &'a Workshop,
    /// Takes the reply as it arrives.
    pub(super) words: &'a Words,
}

/// What a model said.
pub(super) struct Said {
    pub(super) text: String,
    /// None where the endpoint says nothing of it.
    pub(super) usage: Option<Usage>,
    pub(super) trace_parent: String,
    pub(super) model: ModelReply,
}

/// What became of a question.
pub(super) enum Answer {
    Said(Said),
    /// The endpoint gives no reply: the run waits for it.
    Away {
        endpoint: String,
        why: String,
    },
}

/// Asks the model for the next decision of the step.
pub(super) async fn ask(given: &Ask<'_>, cancel: &CancellationToken) -> Answer {
    let profile = given.model.profile();
    let prompt = &given.workshop.prompt;
    let spec = &given.scene.record.spec;
    let run_id = spec.id.to_string();
    let provider = match profile.api {
        Api::OpenAi => "openai",
        Api::Anthropic => "anthropic",
    };
    let chat = ChatSpan {
        run_id: &run_id,
        provider,
        model: &profile.model,
        profile: &profile.name,
        prompt: &prompt.name,
    };
    let span = telemetry::chat_span("executor", &chat, &spec.trace_parent);
    let made = ModelReply {
        endpoint: profile.name.clone(),
        model: profile.model.clone(),
        prompt: prompt.name.clone(),
        prompt_digest: prompt.digest.clone(),
        cut: false,
    };
    let request = match request(given) {
        Ok(request) => request,
        Err(why) => return Answer::Away { endpoint: profile.name.clone(), why },
    };
    let replied = given
        .model
        .reply(&request, &mut |part| given.words.take(part), cancel)
        .instrument(span.clone())
        .await;
    match replied {
        Ok(reply) => Answer::Said(said(reply, made, &span)),
        Err(error) => of_error(error, made, &span),
    }
}

/// The conversation as far as the model's context takes it. What is left out is said in it.
fn request(given: &Ask<'_>) -> Result<ChatRequest, String> {
    let profile = given.model.profile();
    let messages = step_messages(given.scene, given.workshop);
    let most = u64::from(profile.max_output_tokens);
    let room =
        profile.context_tokens.map_or(u64::MAX, |context| u64::from(context).saturating_sub(most));
    let bounded = bound(&messages, profile.tokenizer, room).map_err(|error| error.to_string())?;
    let spec = &given.scene.record.spec;
    let reserved = spec.limits.token_budget.map(|_| given.scene.progress().reserved.tokens);
    let left = reserved.map(|reserved| reserved.saturating_sub(bounded.tokens).max(FEWEST_TOKENS));
    let output = left.map(|left| u32::try_from(left.min(most)).unwrap_or(u32::MAX));
    Ok(ChatRequest {
        messages: bounded.messages,
        schema: Some(ReplySchema { name: "decision".to_owned(), schema: decision_schema() }),
        max_output_tokens: output,
        temperature: None,
    })
}

fn said(reply: ChatReply, made: ModelReply, span: &Span) -> Said {
    let ChatReply { text, reasoning, usage, cost_micros, model, .. } = reply;
    record_usage(span, usage);
    span.record("gen_ai.response.model", model.as_str());
    let thought = reasoning.is_some_and(|reasoning| !reasoning.trim().is_empty());
    let text = if text.trim().is_empty() && thought { THINKING.to_owned() } else { text };
    // Far longer than any decision: it is answered like a reply that its limit cut.
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
        // It is a text without a decision, which has a limit of its own.
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
            let why = format!("{}: {}", error.code(), shortened(&error.to_string()));
            Answer::Away { endpoint: made.endpoint, why }
        }
    }
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

/// The form of a decision, for endpoints that can hold a model to it. The reader checks what arrives.
fn decision_schema() -> serde_json::Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "speak": text,
            "action": {
                "type": "string",
                "enum": ["continue", "ask_user", "confirm", "next_plan", "done", "abort"],
            },
            "reason": text,
            "goal_check": text,
            "tool_call": {
                "type": "object",
                "properties": {"name": text, "arguments": {"type": "object"}},
                "required": ["name", "arguments"],
            },
            "abort": {
                "type": "object",
                "properties": {"code": text, "user_message": text, "internal_reason": text},
                "required": ["user_message"],
            },
            "answer_schema": {"type": "object"},
        },
        "required": ["action"],
    })
}
