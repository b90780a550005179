//! The stored form of turns: the decision and the validations.

use super::StoredError;
use super::fields::{Fields, missing, optional};
use crate::domain::decision::{Abort, Action, ExecuteDecision, Usage, UsageSource};
use crate::domain::journal::{ReplyMark, Turn, TurnEnd, Validation};
use crate::domain::json::{ObjectText, Value, write_list};
use crate::domain::model::ModelReply;
use crate::domain::plan::ToolCall;
use crate::domain::problem::{Code, Warning, WarningCode};

pub(super) fn write_turn(out: &mut String, turn: &Turn) {
    // Most turns pass all three validations; the list is then omitted.
    let validations = Some(&turn.validations).filter(|said| !all_passed(said));
    let object = ObjectText::begin(out)
        .text("step", &turn.step_id)
        .number("attempt", turn.attempt)
        .number("number", turn.number);
    let object = optional(object, "decision", turn.decision.as_ref(), write_decision);
    let write = |out: &mut String, said: &Vec<Validation>| write_list(out, said, write_validation);
    let object = optional(object, "validations", validations, write);
    let warnings = Some(&turn.warnings).filter(|warnings| !warnings.is_empty());
    let write =
        |out: &mut String, warnings: &Vec<Warning>| write_list(out, warnings, write_warning);
    let object = optional(object, "warnings", warnings, write);
    let object = object.text("correction", &turn.correction);
    let object = object.text("end", turn.end.map_or("", TurnEnd::as_str));
    let object = optional(object, "reply", turn.reply.as_ref(), write_mark);
    let usage = Some(&turn.usage).filter(|usage| !usage.is_zero());
    let object = optional(object, "usage", usage, write_usage);
    object.text("usage_source", turn.usage_source.as_str()).end();
}

pub(super) fn read_turn(body: &Fields<'_>) -> Result<Turn, StoredError> {
    Ok(Turn {
        step_id: body.text("step")?,
        attempt: body.number("attempt")?,
        number: body.number("number")?,
        decision: body.object("decision")?.map(|decision| read_decision(&decision)).transpose()?,
        validations: match body.optional("validations", Value::as_array)? {
            None => VALIDATIONS.map(passed).to_vec(),
            Some(list) => list
                .iter()
                .map(|validation| read_validation(&Fields::of(validation)?))
                .collect::<Result<_, _>>()?,
        },
        warnings: match body.optional("warnings", Value::as_array)? {
            None => Vec::new(),
            Some(list) => list
                .iter()
                .map(|warning| read_warning(&Fields::of(warning)?))
                .collect::<Result<_, _>>()?,
        },
        correction: body.text("correction")?,
        usage: body
            .object("usage")?
            .map(|usage| read_usage(&usage))
            .transpose()?
            .unwrap_or_default(),
        usage_source: UsageSource::from_text(&body.text("usage_source")?)
            .ok_or_else(|| missing("usage_source"))?,
        reply: body.object("reply")?.map(|mark| read_mark(&mark)).transpose()?,
        end: TurnEnd::of(&body.text("end")?),
    })
}

fn write_mark(out: &mut String, mark: &ReplyMark) {
    let object = ObjectText::begin(out)
        .text("digest", &mark.digest)
        .text("lease_epoch", &mark.lease_epoch.to_string());
    optional(object, "model", mark.model.as_deref(), write_model).end();
}

/// The form of a model that made a reply.
pub(super) fn write_model(out: &mut String, model: &ModelReply) {
    let ModelReply { endpoint, model, prompt, prompt_digest, cut } = model;
    ObjectText::begin(out)
        .text("endpoint", endpoint)
        .text("model", model)
        .text("prompt", prompt)
        .text("prompt_digest", prompt_digest)
        .flag("cut", *cut)
        .end();
}

pub(super) fn read_model(body: &Fields<'_>) -> Result<ModelReply, StoredError> {
    Ok(ModelReply {
        endpoint: body.text("endpoint")?,
        model: body.text("model")?,
        prompt: body.text("prompt")?,
        prompt_digest: body.text("prompt_digest")?,
        cut: body.flag("cut")?,
    })
}

fn read_mark(body: &Fields<'_>) -> Result<ReplyMark, StoredError> {
    let lease_epoch = body.text("lease_epoch")?.parse().map_err(|_| missing("lease_epoch"))?;
    let model = body.object("model")?.map(|model| read_model(&model)).transpose()?;
    Ok(ReplyMark { lease_epoch, digest: body.text("digest")?, model: model.map(Box::new) })
}

fn write_usage(out: &mut String, usage: &Usage) {
    ObjectText::begin(out)
        .number("tokens", usage.tokens)
        .number("cost_micros", usage.cost_micros)
        .end();
}

fn read_usage(body: &Fields<'_>) -> Result<Usage, StoredError> {
    Ok(Usage { tokens: body.number("tokens")?, cost_micros: body.number("cost_micros")? })
}

/// The three validations, in order.
const VALIDATIONS: [&str; 3] = ["flow", "evidence", "safety"];

/// Whether these are exactly the three validations, each passed without a comment.
fn all_passed(said: &[Validation]) -> bool {
    let passed = |said: &Validation| said.passed && said.code.is_none() && said.reason.is_empty();
    said.len() == VALIDATIONS.len()
        && said.iter().zip(VALIDATIONS).all(|(said, name)| said.name == name && passed(said))
}

fn passed(name: &'static str) -> Validation {
    Validation { name: name.into(), passed: true, code: None, reason: String::new() }
}

fn write_validation(out: &mut String, validation: &Validation) {
    ObjectText::begin(out)
        .text("name", &validation.name)
        .flag("passed", validation.passed)
        .text("code", validation.code.map_or("", Code::as_str))
        .text("reason", &validation.reason)
        .end();
}

fn read_validation(body: &Fields<'_>) -> Result<Validation, StoredError> {
    let code = body.text("code")?;
    Ok(Validation {
        name: body.text("name")?.into(),
        passed: body.flag("passed")?,
        code: match code.as_str() {
            "" => None,
            word => Some(Code::from_text(word).ok_or_else(|| missing("code"))?),
        },
        reason: body.text("reason")?,
    })
}

fn write_warning(out: &mut String, warning: &Warning) {
    ObjectText::begin(out)
        .text("code", warning.code.as_str())
        .text("field", warning.field.as_deref().unwrap_or_default())
        .text("detail", warning.detail.as_deref().unwrap_or_default())
        .end();
}

fn read_warning(body: &Fields<'_>) -> Result<Warning, StoredError> {
    let code = WarningCode::from_text(&body.text("code")?).ok_or_else(|| missing("code"))?;
    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok(Warning { code, field: filled(body.text("field")?), detail: filled(body.text("detail")?) })
}

fn write_decision(out: &mut String, decision: &ExecuteDecision) {
    let object = ObjectText::begin(out)
        .text("action", decision.action.as_str())
        .text("speak", &decision.speak)
        .text("reason", &decision.reason)
        .text("goal_check", &decision.goal_check);
    let object = optional(object, "tool_call", decision.tool_call.as_ref(), write_call);
    let object = optional(object, "abort", decision.abort.as_ref(), write_abort);
    let write = |out: &mut String, schema: &Value| schema.write_compact(out);
    optional(object, "answer_schema", decision.answer_schema.as_ref(), write).end();
}

fn read_decision(body: &Fields<'_>) -> Result<ExecuteDecision, StoredError> {
    let action = body.text("action")?;
    Ok(ExecuteDecision {
        action: Action::ALL
            .into_iter()
            .find(|known| known.as_str() == action)
            .ok_or_else(|| missing("action"))?,
        speak: body.text("speak")?,
        reason: body.text("reason")?,
        goal_check: body.text("goal_check")?,
        tool_call: body.object("tool_call")?.map(|call| read_call(&call)).transpose()?,
        abort: body.object("abort")?.map(|abort| read_abort(&abort)).transpose()?,
        answer_schema: body.0.get("answer_schema").cloned(),
    })
}

fn read_call(call: &Fields<'_>) -> Result<ToolCall, StoredError> {
    Ok(ToolCall {
        name: call.text("name")?,
        arguments: call.0.get("arguments").cloned().unwrap_or(Value::Object(Vec::new())),
    })
}

fn read_abort(abort: &Fields<'_>) -> Result<Abort, StoredError> {
    Ok(Abort {
        code: abort.text("code")?,
        user_message: abort.text("user_message")?,
        internal_reason: abort.text("internal_reason")?,
    })
}

fn write_call(out: &mut String, call: &ToolCall) {
    ObjectText::begin(out)
        .text("name", &call.name)
        .with("arguments", |out| call.arguments.write_compact(out))
        .end();
}

fn write_abort(out: &mut String, abort: &Abort) {
    ObjectText::begin(out)
        .text("code", &abort.code)
        .text("user_message", &abort.user_message)
        .text("internal_reason", &abort.internal_reason)
        .end();
}
