//! Reads requests, and refuses what the real servers refuse.

use super::reply::tokens;
use super::schema::{anthropic_schema, openai_schema};
use super::{Asked, Form, Settings};
use serde_json::{Map, Value};

/// A refused request: the status, the code and the message.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: String,
}

pub(super) type Read<T> = Result<T, Refusal>;

const OPENAI_FIELDS: [&str; 13] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "chat_template_kwargs",
];
const ANTHROPIC_FIELDS: [&str; 9] = [
    "model",
    "system",
    "messages",
    "stream",
    "max_tokens",
    "temperature",
    "tools",
    "tool_choice",
    "thinking",
];

pub(super) fn refuse<T>(status: u16, code: &'static str, message: impl Into<String>) -> Read<T> {
    Err(Refusal { status, code, message: message.into() })
}

/// Reads the body of a request.
pub(super) fn read(form: Form, body: &Value, settings: &Settings) -> Read<Asked> {
    let Some(fields) = body.as_object() else {
        return refuse(400, "invalid_request_error", "the body is no JSON object");
    };
    let known: &[&str] = match form {
        Form::OpenAi => &OPENAI_FIELDS,
        Form::Anthropic => &ANTHROPIC_FIELDS,
    };
    if let Some(unknown) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return refuse(400, "unknown_parameter", format!("Unknown parameter: '{unknown}'."));
    }
    let model = text(fields, "model")?;
    if !settings.models.contains(&model) {
        let message =
            format!("The model `{model}` does not exist or you do not have access to it.");
        return refuse(404, "model_not_found", message);
    }
    let (system, messages) = match form {
        Form::OpenAi => openai_messages(fields, settings)?,
        Form::Anthropic => anthropic_messages(fields)?,
    };
    let asked = Asked {
        number: 0,
        form,
        model,
        system,
        messages,
        schema: match form {
            Form::OpenAi => openai_schema(fields, settings.offers)?,
            Form::Anthropic => anthropic_schema(fields, settings.offers)?,
        },
        stream: fields.get("stream").and_then(Value::as_bool).unwrap_or_default(),
        max_tokens: max_tokens(form, fields)?,
        body: body.clone(),
    };
    if form == Form::OpenAi {
        go_together(fields)?;
    }
    within_context(&asked, settings)?;
    Ok(asked)
}

/// Fields that OpenAI takes only beside others.
fn go_together(fields: &Map<String, Value>) -> Read<()> {
    let streams = fields.get("stream") == Some(&Value::Bool(true));
    if fields.contains_key("stream_options") && !streams {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return refuse(400, "invalid_request_error", message);
    }
    for key in ["tool_choice", "parallel_tool_calls"] {
        if fields.contains_key(key) && !fields.contains_key("tools") {
            let message = format!("'{key}' is only allowed when 'tools' are specified.");
            return refuse(400, "invalid_request_error", message);
        }
    }
    Ok(())
}

fn text(fields: &Map<String, Value>, key: &str) -> Read<String> {
    match fields.get(key).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        Some(_) | None => refuse(400, "missing_required_parameter", format!("'{key}' is missing.")),
    }
}

fn max_tokens(form: Form, fields: &Map<String, Value>) -> Read<Option<u64>> {
    let named = ["max_tokens", "max_completion_tokens"].map(|key| fields.get(key));
    let [first, second] = named;
    if first.is_some() && second.is_some() {
        return refuse(400, "invalid_request_error", "both max_tokens and max_completion_tokens");
    }
    match first.or(second).map(Value::as_u64) {
        Some(Some(number)) if number > 0 => Ok(Some(number)),
        Some(_) => refuse(400, "invalid_value", "max_tokens is no whole number above 0"),
        None if form == Form::Anthropic => {
            refuse(400, "invalid_request_error", "max_tokens: Field required")
        }
        None => Ok(None),
    }
}

fn within_context(asked: &Asked, settings: &Settings) -> Read<()> {
    let prompt = prompt_tokens(asked);
    if prompt + asked.max_tokens.unwrap_or_default() <= settings.context_tokens {
        return Ok(());
    }
    let limit = settings.context_tokens;
    match asked.form {
        Form::OpenAi => refuse(
            400,
            "context_length_exceeded",
            format!(
                "This model's maximum context length is {limit} tokens, you asked for {prompt}."
            ),
        ),
        Form::Anthropic => refuse(
            400,
            "invalid_request_error",
            format!("prompt is too long: {prompt} tokens > {limit} maximum"),
        ),
    }
}

pub(super) fn prompt_tokens(asked: &Asked) -> u64 {
    let messages: u64 = asked.messages.iter().map(|(_, text)| tokens(text)).sum();
    tokens(&asked.system) + messages
}

/// The messages: an object each, with `role` and the text in `content`, nothing else.
fn listed(fields: &Map<String, Value>) -> Read<Vec<(String, String)>> {
    let Some(list) = fields.get("messages").and_then(Value::as_array).filter(|it| !it.is_empty())
    else {
        return refuse(400, "invalid_request_error", "'messages' is empty or no list.");
    };
    let mut messages = Vec::with_capacity(list.len());
    for message in list {
        let Some(message) = message.as_object() else {
            return refuse(400, "invalid_request_error", "a message is no object.");
        };
        if let Some(key) = message.keys().find(|key| !["role", "content"].contains(&key.as_str())) {
            return refuse(
                400,
                "invalid_request_error",
                format!("a message has the field '{key}'."),
            );
        }
        let content = content_text(message.get("content"))?;
        messages.push((text(message, "role")?, content));
    }
    Ok(messages)
}

/// A text, or blocks of text with marks of a cache.
fn content_text(content: Option<&Value>) -> Read<String> {
    let text = match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().map(|block| {
                let is_text = block.get("type").and_then(Value::as_str) == Some("text");
                block.get("text").and_then(Value::as_str).filter(|_| is_text)
            });
            texts.map(Option::unwrap_or_default).collect()
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            String::new()
        }
    };
    if text.trim().is_empty() {
        return refuse(400, "invalid_request_error", "text content blocks must be non-empty");
    }
    Ok(text)
}

fn openai_messages(
    fields: &Map<String, Value>,
    settings: &Settings,
) -> Read<(String, Vec<(String, String)>)> {
    let all = listed(fields)?;
    let first = all.iter().take_while(|(role, _)| role == "system").count();
    let (system, messages) = all.split_at(first);
    if settings.strict_roles && system.len() > 1 {
        return refuse(400, "invalid_request_error", "more than one system message");
    }
    let system: Vec<&str> = system.iter().map(|(_, text)| text.as_str()).collect();
    alternate(messages)?;
    Ok((system.join("\n\n"), messages.to_vec()))
}

fn anthropic_messages(fields: &Map<String, Value>) -> Read<(String, Vec<(String, String)>)> {
    let messages = listed(fields)?;
    alternate(&messages)?;
    let system = match fields.get("system") {
        Some(system) => content_text(Some(system))?,
        None => String::new(),
    };
    Ok((system, messages))
}

/// User and assistant by turns, a user first and last.
fn alternate(messages: &[(String, String)]) -> Read<()> {
    for (place, (role, _)) in messages.iter().enumerate() {
        let expected = if place % 2 == 0 { "user" } else { "assistant" };
        if role != expected {
            let message = "Conversation roles must alternate user/assistant/user/assistant/...";
            return refuse(400, "invalid_request_error", message);
        }
    }
    if messages.len().is_multiple_of(2) {
        return refuse(400, "invalid_request_error", "the last message is not the user's");
    }
    Ok(())
}
