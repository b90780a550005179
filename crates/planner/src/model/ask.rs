//! One question to a model: the prompt of a plan, bounded by the model's context, and what became of it.

use super::prompt::{PlanScene, Prompts, messages};
use crate::intake::{attempts_left, fixed_checks};
use crate::planner::Planner;
use crate::service::Planned;
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::decision::Usage;
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::model::ModelReply;
use surety_common::domain::reader::MAX_TEXT_BYTES;
use surety_common::domain::run::RunRecord;
use surety_common::store::{self, PlanTool};
use surety_common::telemetry::{self, ChatSpan};
use surety_model::{
    Api, ChatError, ChatModel, ChatReply, ChatRequest, Endpoints, ModelUse, TokenUsage, bound,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

/// The most bytes of a text that an endpoint said in place of a reply.
const SAID_BYTES: usize = 2000;
/// The fewest tokens of a reply, however little of a budget is left.
const FEWEST_TOKENS: u64 = 256;

/// What became of a question.
pub(super) enum Answer {
    Said(Planned),
    /// No executor has stored its tools yet: a plan would name none.
    NoTools,
    /// The endpoint gives no reply: the run waits for it.
    Away {
        endpoint: String,
        why: String,
    },
}

/// Asks the model for a plan of the run, or a patch of it.
///
/// # Errors
/// `database_unavailable`, `internal` for a profile that is not there.
pub(super) async fn ask(
    (endpoints, prompts): (&Endpoints, &Prompts),
    planner: &Planner,
    record: &RunRecord,
    cancel: &CancellationToken,
) -> Result<Answer, Fault> {
    let refused = record.execution.planning().refused.is_some();
    let used_for = if refused { ModelUse::Retry } else { ModelUse::Plan };
    let internal = |error: String| Fault::new(FaultCode::Internal, error);
    let model = endpoints.for_use(used_for).map_err(|error| internal(error.to_string()))?;
    let profile = model.profile();
    let prompt = prompts.of(record.plan.is_some());
    let made = ModelReply {
        endpoint: profile.name.clone(),
        model: profile.model.clone(),
        prompt: prompt.name.clone(),
        prompt_digest: prompt.digest.clone(),
        cut: false,
    };
    let tools = store::plan_tools(&planner.pool, &record.spec.namespace, planner.now()).await?;
    if tools.iter().all(|tool| tool.of_worker) {
        return Ok(Answer::NoTools);
    }
    let fixed = fixed_checks(&record.execution.planning())?;
    let request = match request(&*model, record, (&prompt.text, &tools, &fixed)) {
        Ok(request) => request,
        Err(why) => return Ok(Answer::Away { endpoint: made.endpoint, why }),
    };
    let run_id = record.spec.id.to_string();
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
    let span = telemetry::chat_span("planner", &chat, &record.spec.trace_parent);
    let replied = model.reply(&request, &mut |_| {}, cancel).instrument(span.clone()).await;
    Ok(match replied {
        Ok(reply) => Answer::Said(said(reply, made, &span)),
        Err(error) => of_error(error, made, &span),
    })
}

fn request(
    model: &dyn ChatModel,
    record: &RunRecord,
    (prompt, tools, fixed): (&str, &[PlanTool], &[AcceptCheck]),
) -> Result<ChatRequest, String> {
    let RunRecord { spec, execution, plan, .. } = record;
    let planning = execution.planning();
    let reason = execution.own_wait().map(|wait| wait.question.clone()).unwrap_or_default();
    let states = || execution.step_states().collect();
    let messages = messages(&PlanScene {
        prompt,
        goal: &spec.goal,
        limits: &spec.limits,
        plan: plan.as_deref().map(|plan| (plan, states())),
        fixed,
        cause: planning.cause,
        reason: &reason,
        refused: planning.refused.as_ref(),
        attempts_left: attempts_left(execution, &spec.limits),
        tools,
    });
    let profile = model.profile();
    let most = u64::from(profile.max_output_tokens);
    let room =
        profile.context_tokens.map_or(u64::MAX, |context| u64::from(context).saturating_sub(most));
    let bounded = bound(&messages, profile.tokenizer, room).map_err(|error| error.to_string())?;
    let used = execution.counters.usage.tokens.saturating_add(execution.reserved().tokens);
    let left = execution.limits_of(&spec.limits).token_budget.map(|budget| {
        let left = budget.saturating_sub(used).saturating_sub(bounded.tokens);
        u32::try_from(left.max(FEWEST_TOKENS).min(most)).unwrap_or(u32::MAX)
    });
    Ok(ChatRequest {
        messages: bounded.messages,
        schema: None,
        max_output_tokens: left,
        temperature: None,
    })
}

fn said(reply: ChatReply, made: ModelReply, span: &Span) -> Planned {
    let ChatReply { text, usage, cost_micros, model, .. } = reply;
    record_usage(span, usage);
    span.record("gen_ai.response.model", model.as_str());
    let cut = text.len() > MAX_TEXT_BYTES;
    Planned {
        text: if cut { String::new() } else { storable(&text) },
        usage: used(usage, cost_micros),
        model: ModelReply { model, cut, ..made },
    }
}

fn of_error(error: ChatError, made: ModelReply, span: &Span) -> Answer {
    span.record("error.type", error.code());
    match error {
        ChatError::ReplyCut { usage, cost_micros, .. } => {
            record_usage(span, usage);
            let usage = used(usage, cost_micros);
            let model = ModelReply { cut: true, ..made };
            Answer::Said(Planned { text: String::new(), usage, model })
        }
        // It is no plan, and counts as a refused one.
        ChatError::Refused { said, .. } => {
            let text = format!("The model refused to reply. {}", shortened(&said));
            Answer::Said(Planned { text, usage: Usage::default(), model: made })
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
    let end = text.floor_char_boundary(SAID_BYTES);
    storable(text.get(..end).unwrap_or_default())
}
