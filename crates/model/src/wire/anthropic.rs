//! Anthropic's Messages.

use super::counts::count;
use super::failure;
use super::sse::Event;
use super::types::{Arrived, Broken, End, FUNCTION_MEANING, Level, OnPart, Prepared};
use crate::chat::ReplyPart;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use surety_common::domain::messages::Role;

/// The version of the API that is asked for.
pub(crate) const VERSION: &str = "2023-06-01";
/// The type of a block that calls a function.
const TOOL_USE: &str = "tool_use";

/// The body of a request. The rules and the message before the last one are marked for the cache: the next turn begins
/// with the same messages. The last one has words that are true for one turn only, such as how many turns are left.
pub(super) fn body(asked: &Prepared<'_>) -> Map<String, Value> {
    let (system, messages): (Vec<_>, Vec<_>) =
        asked.messages.iter().partition(|message| message.role == Role::System);
    let repeated = messages.len().saturating_sub(2);
    let messages = messages.iter().enumerate().map(|(place, message)| {
        let content = if place == repeated { cached(&message.text) } else { json!(message.text) };
        json!({"role": message.role.as_str(), "content": content})
    });
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    set("model", json!(asked.profile.model));
    set("max_tokens", json!(asked.max_output_tokens));
    set("messages", messages.collect());
    if let Some(rules) = system.first() {
        set("system", cached(&rules.text));
    }
    if let Some(temperature) = asked.temperature {
        set("temperature", json!(temperature));
    }
    if asked.profile.stream {
        set("stream", json!(true));
    }
    if let (Some(wanted), Level::Function | Level::Format) = (asked.schema, asked.level) {
        set(
            "tools",
            json!([{"name": wanted.name, "description": FUNCTION_MEANING,
                             "input_schema": wanted.schema}]),
        );
        set(
            "tool_choice",
            json!({"type": "tool", "name": wanted.name,
                                  "disable_parallel_tool_use": true}),
        );
    }
    body
}

fn cached(text: &str) -> Value {
    json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])
}

#[derive(Deserialize)]
struct Answer {
    model: Option<String>,
    #[serde(default)]
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    input: Option<Value>,
}

#[derive(Deserialize)]
struct StreamEvent {
    #[serde(rename = "type")]
    kind: String,
    /// The place of a block.
    index: Option<usize>,
    message: Option<Answer>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

pub(super) fn take_event(
    event: &Event,
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    let event: StreamEvent =
        serde_json::from_str(&event.data).map_err(|error| Broken::json(&error))?;
    let index = event.index.unwrap_or_default();
    match event.kind.as_str() {
        "error" => {
            return Err(failure::broken(&event.error.unwrap_or_default()));
        }
        "message_start" => {
            if let Some(message) = event.message {
                arrived.model = message.model;
                take_usage(message.usage, arrived);
            }
        }
        "content_block_start" => {
            if let Some(block) = event.content_block {
                begin(block, index, arrived, on_part);
            }
        }
        "content_block_delta" | "message_delta" => {
            if let Some(delta) = event.delta {
                take_delta(delta, index, arrived, on_part)?;
            }
        }
        // `ping`, `content_block_stop`, `message_stop`, and events of later versions.
        _ => {}
    }
    take_usage(event.usage, arrived);
    Ok(())
}

/// A block begins, mostly empty.
fn begin(block: Block, index: usize, arrived: &mut Arrived, on_part: OnPart<'_>) {
    if block.kind == TOOL_USE {
        arrived.calls.push(index, block.id.as_deref(), "");
    }
    let text = block.text.filter(|text| !text.is_empty());
    if let Some(text) = text {
        on_part(ReplyPart::Text(&text));
        arrived.text.push_str(&text);
    }
}

fn take_delta(
    delta: Delta,
    index: usize,
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    if let Some(thought) = delta.thinking {
        on_part(ReplyPart::Reasoning(&thought));
        arrived.reasoning.push_str(&thought);
    }
    if let Some(text) = delta.text {
        on_part(ReplyPart::Text(&text));
        arrived.text.push_str(&text);
    }
    if let Some(piece) = delta.partial_json {
        on_part(ReplyPart::Text(&piece));
        arrived.calls.push(index, None, &piece);
    }
    if let Some(reason) = delta.stop_reason {
        arrived.end = Some(end(&reason)?);
    }
    Ok(())
}

pub(super) fn take_whole(
    body: &[u8],
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| Broken::json(&error))?;
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        return Err(failure::broken(&error));
    }
    arrived.model = answer.model;
    take_usage(answer.usage, arrived);
    for (index, block) in answer.content.into_iter().enumerate() {
        let is_call = block.kind == TOOL_USE;
        let piece = block.input.filter(|_| is_call).map(|input| input.to_string());
        let delta = Delta {
            text: block.text,
            thinking: block.thinking,
            partial_json: piece,
            stop_reason: None,
        };
        take_delta(delta, index, arrived, on_part)?;
    }
    let Some(reason) = answer.stop_reason else {
        return Err(Broken::Malformed("it has no stop_reason".to_owned()));
    };
    arrived.end = Some(end(&reason)?);
    Ok(())
}

/// Anthropic counts cached tokens beside the others, and tells the output's in the last event.
fn take_usage(usage: Option<Value>, arrived: &mut Arrived) {
    let Some(usage) = usage else { return };
    let counted = &mut arrived.usage;
    let mut of = |field| count(&usage, field, &mut counted.is_odd);
    let (input, output) = (of("input_tokens"), of("output_tokens"));
    let cached = of("cache_read_input_tokens").unwrap_or_default();
    let writes = of("cache_creation_input_tokens").unwrap_or_default();
    if let Some(input) = input {
        counted.input = Some(input.saturating_add(cached).saturating_add(writes));
        (counted.cached, counted.cache_writes) = (cached, writes);
    }
    counted.output = output.or(counted.output);
}

fn end(reason: &str) -> Result<End, Broken> {
    match reason {
        "end_turn" | "stop_sequence" | "tool_use" => Ok(End::Whole),
        "max_tokens" | "model_context_window_exceeded" => Ok(End::Cut),
        "refusal" => Ok(End::Refused("the model refuses for reasons of safety".to_owned())),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(Broken::Malformed(format!("it has the unknown stop_reason {shown:?}")))
        }
    }
}
