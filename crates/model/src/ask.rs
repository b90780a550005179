//! One question of a run to a model: the conversation, bounded by the model's context, and what became of it.

use crate::attempts::LONGEST_PAUSE;
use crate::chat::{ChatModel, ChatReply, ChatRequest, OnPart, ReplyPart, ReplySchema};
use crate::context::{Bounded, ContextTooLong, bound};
use crate::error::{Blame, ChatError, Phase};
use crate::length::Length;
use crate::part::limit_of_reply;
use crate::profile::{Api, Profile};
use crate::reserved::Reserved;
use crate::usage::TokenUsage;
use std::time::Duration;
use surety_common::config::Prompt;
use surety_common::domain::decision::{Abort, Usage};
use surety_common::domain::execution::budget::ReplyNeed;
use surety_common::domain::messages::Message;
use surety_common::domain::model::ModelReply;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_common::domain::run::RunSpec;
use surety_common::telemetry::{self, ChatSpan};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// The most bytes that are kept of a reply which is not read, and of what an endpoint says in its place.
const UNREAD_BYTES: usize = 4096;
/// What stands for a reply of thinking alone.
const THINKING: &str = "<think>the endpoint returned thinking and no text</think>";
/// The code of a conversation that does not fit the model's context.
const TOO_LONG: &str = "model_context_too_long";
/// How often a request is sent that the endpoint finds too long, each time with half of it.
const TOO_LONG_TRIES: u32 = 4;

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
    /// What the run's budgets have reserved for prompt and reply.
    pub reserved: Reserved,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The text; its beginning where its token limit cut it, or it is too large.
    pub text: String,
    /// What it cost, with the tries that broke off before.
    pub usage: Usage,
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
    /// Other requests of this process hold every slot of the endpoint: the question is to be asked again.
    Busy,
    /// Too little is reserved for prompt and reply, and no request was sent.
    Short(ReplyNeed),
    /// The prompt does not fit the model's context, however much is left out.
    TooLong(TooLong),
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
    /// When the endpoint may be asked again, where it said so.
    pub retry_after: Option<Duration>,
    /// Whether the words say what an operator has to correct.
    pub is_correctable: bool,
    /// What tries used that broke off.
    pub used: Usage,
}

/// Why no request can be sent, now or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLong {
    /// The profile.
    pub profile: String,
    /// What does not fit.
    pub why: String,
    /// What tries used that broke off.
    pub used: Usage,
}

impl TooLong {
    /// The end of the run, with what to do.
    #[must_use]
    pub fn abort(self) -> Abort {
        let Self { profile, why, used: _ } = self;
        Abort {
            code: TOO_LONG.to_owned(),
            user_message: format!(
                "The prompt does not fit the context of the model profile {profile}: {why}. {}",
                advice(&profile)
            ),
            internal_reason: format!(
                "the model profile {profile} has too little room for the prompt"
            ),
        }
    }
}

/// How a profile gets more room for its prompts.
pub(crate) fn advice(profile: &str) -> String {
    format!(
        "In [model.{profile}] raise context_tokens if the model has a longer context, lower max_output_tokens, or set \
         tokenizer to o200k_base or cl100k_base, which count closer than bytes; or use a model with a longer context"
    )
}

/// Asks a model; `on_part` is told of the parts of its reply as they arrive. A cut reply and a refusal are replies, which
/// the run answers. A prompt that the endpoint finds too long is sent again with half of it. Every other error makes the
/// run wait. Every answer has what was used for it, tries that broke off included.
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
    let too_long = |why: String, used: Usage| {
        telemetry::fail(&span, TOO_LONG);
        Answer::TooLong(TooLong { profile: profile.name.clone(), why, used })
    };
    let mut fitting = Fitting::of(profile, model.length());
    let (mut in_vain, mut refused) = (Usage::default(), None);
    loop {
        let left = Question { reserved: question.reserved.without(in_vain), ..*question };
        let (request, tokens) = match (request(profile, &left, &fitting), refused.take()) {
            (Ok(Request::Ready(request, tokens)), _) => (request, tokens),
            // What was used is charged before more is reserved.
            (Ok(Request::Short(_)), Some(error)) if !in_vain.is_zero() => {
                return of_error(error, (made, in_vain), &span);
            }
            (Ok(Request::Short(need)), _) => return Answer::Short(need),
            (Err(error), _) => {
                return too_long(fitting.refused.unwrap_or_else(|| error.to_string()), in_vain);
            }
        };
        let mut counting = |part: ReplyPart<'_>| {
            if let ReplyPart::Restart(used) = part {
                in_vain = in_vain.plus(used);
            }
            on_part(part);
        };
        let replied = model.reply(&request, &mut counting, cancel).instrument(span.clone()).await;
        match replied {
            Ok(reply) => return Answer::Said(said(reply, (made, in_vain), &span)),
            Err(ChatError::ContextTooLong { endpoint, said }) => {
                let asked = request.max_output_tokens.unwrap_or(profile.max_output_tokens);
                if !fitting.shorten((tokens, u64::from(asked)), said.clone()) {
                    return too_long(said, in_vain);
                }
                refused = Some(ChatError::ContextTooLong { endpoint, said });
            }
            Err(error) => return of_error(error, (made, in_vain), &span),
        }
    }
}

/// How much of a conversation is sent, and how long a reply is asked for.
struct Fitting {
    room: u64,
    most_output: u64,
    /// How long prompt and reply may be together, where the endpoint found more too long before.
    length: Option<u64>,
    /// What must be kept may have so many tokens: the room of the profile, then those of the prompt that the endpoint
    /// found too long.
    most: u64,
    /// The length of a request that the endpoint took, if that was not tried yet.
    taken: Option<u64>,
    /// What the endpoint said.
    refused: Option<String>,
    tries: u32,
}

/// The lengths that were refused and taken are this close where the longer ones are not tried: an eighth.
const CLOSE: u64 = 8;

impl Fitting {
    fn of(profile: &Profile, known: Option<Length>) -> Self {
        let room = profile.prompt_room().unwrap_or(u64::MAX);
        let most_output = u64::from(profile.max_output_tokens);
        let mut fitting = Self {
            room,
            most_output,
            length: None,
            most: room,
            taken: None,
            refused: None,
            tries: 1,
        };
        if let Some(Length { refused, taken }) = known {
            let between = refused.saturating_sub(taken);
            let is_close = between <= refused / CLOSE;
            fitting.shorten_to(if is_close { taken } else { taken + between / 2 });
            fitting.taken = Some(taken).filter(|taken| *taken > 0 && !is_close);
        }
        fitting
    }

    /// Makes prompt and reply have so many tokens together.
    fn shorten_to(&mut self, length: u64) {
        self.length = Some(length);
        self.room = self.room.min(length.saturating_sub(self.most_output.min(length / 2)));
    }

    /// How long a reply to a prompt of so many tokens is asked for: a prompt that must be kept leaves it less room, and not
    /// less than the shortest of the tries.
    fn output_for(&self, tokens: u64) -> u64 {
        let Some(length) = self.length else { return self.most_output };
        let least = self.most_output.min(length) / 8;
        self.most_output.min(length.saturating_sub(tokens).max(least)).max(1)
    }

    /// Whether there is another try after the endpoint refused a prompt of so many tokens, with a reply of so many: with
    /// the length that it took before, then with half of both each time.
    fn shorten(&mut self, (tokens, asked): (u64, u64), said: String) -> bool {
        self.tries += 1;
        match self.taken.take() {
            Some(taken) => self.shorten_to(taken),
            None => {
                (self.room, self.most_output) = (tokens / 2, (asked / 2).max(1));
                self.length = None;
            }
        }
        (self.most, self.refused) = (tokens, Some(said));
        self.tries <= TOO_LONG_TRIES
    }

    /// The conversation in the room; in what must be kept where that is more, and not more than the profile allows or what
    /// was refused: a shorter reply may make it fit, and what is remembered may be about another text.
    fn bound(&self, messages: &[Message], profile: &Profile) -> Result<Bounded, ContextTooLong> {
        match bound(messages, profile.tokenizer, self.room) {
            Err(error) if error.needed <= self.most => {
                bound(messages, profile.tokenizer, error.needed)
            }
            bounded => bounded,
        }
    }
}

/// A request, or what is missing for one.
enum Request {
    /// It has so many tokens.
    Ready(ChatRequest, u64),
    Short(ReplyNeed),
}

/// The conversation as far as the model's context takes it. What is left out is said in it.
fn request(
    profile: &Profile,
    question: &Question<'_>,
    fitting: &Fitting,
) -> Result<Request, ContextTooLong> {
    let Question { messages, schema, reserved, .. } = *question;
    let Bounded { messages, tokens, .. } = fitting.bound(messages, profile)?;
    let limit = match limit_of_reply(profile, (&messages, schema), reserved) {
        Ok(limit) => limit.min(fitting.output_for(tokens)),
        Err(need) => return Ok(Request::Short(need)),
    };
    let request = ChatRequest {
        messages,
        schema: schema.cloned(),
        max_output_tokens: Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        temperature: None,
        reserved,
    };
    Ok(Request::Ready(request, tokens))
}

fn said(reply: ChatReply, (made, in_vain): (ModelReply, Usage), span: &Span) -> Said {
    let ChatReply { text, reasoning, usage, cost_micros, model, .. } = reply;
    record_usage(span, usage);
    span.record("gen_ai.response.model", model.as_str());
    let thought = reasoning.is_some_and(|reasoning| !reasoning.trim().is_empty());
    let text = if text.trim().is_empty() && thought { THINKING.to_owned() } else { text };
    // Far longer than any plan or decision: it is answered like a reply that its limit cut.
    let cut = text.len() > MAX_TEXT_BYTES;
    Said {
        text: if cut { shortened(&text) } else { storable(&text) },
        usage: usage.charged(cost_micros).plus(in_vain),
        trace_parent: telemetry::trace_parent(span),
        model: ModelReply { model, cut, ..made },
    }
}

fn of_error(error: ChatError, (made, in_vain): (ModelReply, Usage), span: &Span) -> Answer {
    telemetry::fail(span, error.code());
    let trace_parent = telemetry::trace_parent(span);
    match error {
        ChatError::ReplyCut { text, usage, cost_micros, .. } => {
            record_usage(span, usage);
            let usage = usage.charged(cost_micros).plus(in_vain);
            let model = ModelReply { cut: true, ..made };
            Answer::Said(Said { text: shortened(&text), usage, trace_parent, model })
        }
        // It is a text without a plan or a decision, which has a limit of its own.
        ChatError::Refused { said, usage, cost_micros, .. } => {
            record_usage(span, usage);
            let usage = usage.charged(cost_micros).plus(in_vain);
            let text = format!("The model refused to reply. {}", shortened(&said));
            Answer::Said(Said { text, usage, trace_parent, model: made })
        }
        ChatError::Timeout { phase: Phase::Queue, .. } if in_vain.is_zero() => Answer::Busy,
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
            let (code, mut retry_after) = (error.code(), error.retry_after());
            if let ChatError::Overloaded { .. } = &error {
                // It may be back sooner than it said.
                retry_after = retry_after.map(|after| after.min(LONGEST_PAUSE));
            }
            let why = format!("{code}: {}", shortened(&error.to_string()));
            let is_correctable = error.blame() == Blame::Configuration
                || matches!(error, ChatError::BadRequest { .. });
            let (profile, used) = (made.endpoint, in_vain);
            Answer::Away(Away { profile, code, why, retry_after, is_correctable, used })
        }
    }
}

fn record_usage(span: &Span, usage: TokenUsage) {
    span.record("gen_ai.usage.input_tokens", usage.input);
    span.record("gen_ai.usage.output_tokens", usage.output);
}

/// A text that the database can store.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(UNREAD_BYTES);
    storable(text.get(..end).unwrap_or_default())
}
