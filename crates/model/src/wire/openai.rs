//! OpenAI's chat completions, as OpenAI, vLLM, llama.cpp, Ollama and LiteLLM read and write them.

use super::counts::count;
use super::failure;
use super::sse::Event;
use super::strict::is_strict;
use super::types::{Arrived, Broken, Counted, End, FUNCTION_MEANING, Level, OnPart, Prepared};
use crate::chat::ReplyPart;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use surety_common::domain::messages::Message;

/// The body of a request.
pub(super) fn body(asked: &Prepared<'_>) -> Map<String, Value> {
    let message = |it: &Message| json!({"role": it.role.as_str(), "content": it.text});
    let mut body = Map::new();
    let mut set = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    set("model", json!(asked.profile.model));
    set("messages", asked.messages.iter().map(message).collect());
    set(asked.profile.max_tokens_field.as_str(), json!(asked.max_output_tokens));
    if let Some(temperature) = asked.temperature {
        set("temperature", json!(temperature));
    }
    if asked.profile.stream {
        set("stream", json!(true));
        set("stream_options", json!({"include_usage": true}));
    }
    let Some(wanted) = asked.schema else { return body };
    match asked.level {
        Level::Format => {
            let strict = is_strict(&wanted.schema);
            let schema = json!({"name": wanted.name, "schema": wanted.schema, "strict": strict});
            set("response_format", json!({"type": "json_schema", "json_schema": schema}));
        }
        Level::Function => {
            let function = json!({"name": wanted.name, "description": FUNCTION_MEANING,
                                  "parameters": wanted.schema});
            set("tools", json!([{"type": "function", "function": function}]));
            set("tool_choice", json!({"type": "function", "function": {"name": wanted.name}}));
            set("parallel_tool_calls", json!(false));
        }
        Level::Nothing => {}
    }
    body
}

#[derive(Deserialize)]
struct Answer {
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    /// Of a whole reply; Perplexity sends one with each chunk, too.
    message: Option<Part>,
    /// Of a chunk.
    delta: Option<Part>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Part {
    // A text, or a list of parts.
    content: Option<Value>,
    // Servers that do not think may send another type here.
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    /// Of a piece; small servers leave it out.
    index: Option<usize>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    arguments: Option<Value>,
}

pub(super) fn take_event(
    event: &Event,
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    if event.data.trim() == "[DONE]" {
        // Small servers end a reply without a finish_reason.
        if arrived.end.is_none() && arrived.len() > 0 {
            arrived.end = Some(End::Whole);
        }
        return Ok(());
    }
    take(event.data.as_bytes(), Sent::Piece, arrived, on_part)
}

pub(super) fn take_whole(
    body: &[u8],
    arrived: &mut Arrived,
    on_part: OnPart<'_>,
) -> Result<(), Broken> {
    take(body, Sent::Whole, arrived, on_part)?;
    if arrived.end.is_none() {
        return Err(Broken::Malformed("it has no choice with a finish_reason".to_owned()));
    }
    Ok(())
}

/// What an object has of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Whole,
    Piece,
}

fn take(json: &[u8], sent: Sent, arrived: &mut Arrived, on_part: OnPart<'_>) -> Result<(), Broken> {
    let answer: Answer = serde_json::from_slice(json).map_err(|error| Broken::json(&error))?;
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        return Err(failure::broken(&error));
    }
    if answer.model.is_some() {
        arrived.model = answer.model;
    }
    if let Some(usage) = answer.usage {
        let mut is_odd = arrived.usage.is_odd;
        let details = usage.get("prompt_tokens_details");
        let cached = details.and_then(|details| count(details, "cached_tokens", &mut is_odd));
        arrived.usage = Counted {
            input: count(&usage, "prompt_tokens", &mut is_odd),
            output: count(&usage, "completion_tokens", &mut is_odd),
            cached: cached.unwrap_or_default(),
            cache_writes: 0,
            is_odd,
        };
    }
    // More than one choice is never asked for.
    let Some(choice) = answer.choices.into_iter().flatten().next() else { return Ok(()) };
    let part = match sent {
        Sent::Whole => choice.message.or(choice.delta),
        Sent::Piece => choice.delta.or(choice.message),
    };
    if let Some(part) = part {
        take_part(part, sent, arrived, on_part);
    }
    // Some gateways send an empty one with each chunk.
    if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
        arrived.end = Some(end(&reason, arrived.end.take())?);
    }
    Ok(())
}

fn take_part(part: Part, sent: Sent, arrived: &mut Arrived, on_part: OnPart<'_>) {
    let (text, thought_part) = part.content.map(words).unwrap_or_default();
    let thought = [Some(Value::String(thought_part)), part.reasoning_content, part.reasoning];
    // LiteLLM sends the same thinking in both fields.
    let thought = thought.into_iter().flatten().find_map(|thought| match thought {
        Value::String(text) if !text.is_empty() => Some(text),
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    });
    if let Some(thought) = thought {
        on_part(ReplyPart::Reasoning(&thought));
        arrived.reasoning.push_str(&thought);
    }
    if !text.is_empty() {
        on_part(ReplyPart::Text(&text));
        arrived.text.push_str(&text);
    }
    if let Some(refusal) = part.refusal.filter(|refusal| !refusal.is_empty()) {
        match &mut arrived.end {
            Some(End::Refused(said)) => said.push_str(&refusal),
            Some(End::Whole | End::Cut) | None => arrived.end = Some(End::Refused(refusal)),
        }
    }
    for (place, call) in part.tool_calls.into_iter().flatten().enumerate() {
        let index = match sent {
            Sent::Whole => place,
            Sent::Piece => call.index.unwrap_or(place),
        };
        let piece = match call.function.and_then(|function| function.arguments) {
            Some(Value::String(piece)) => piece,
            // Some servers send the object itself.
            Some(object @ Value::Object(_)) => object.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
                continue;
            }
        };
        on_part(ReplyPart::Text(&piece));
        arrived.calls.push(index, call.id.as_deref(), &piece);
    }
}

/// The text and the thinking of a content, which is a text or a list of parts.
fn words(content: Value) -> (String, String) {
    let (mut text, mut thought) = (String::new(), String::new());
    match content {
        Value::String(content) => text = content,
        Value::Array(parts) => {
            for part in parts {
                match (part.get("text"), part.get("thinking")) {
                    (Some(Value::String(piece)), _) => text.push_str(piece),
                    // Mistral's thinking is a list of texts itself.
                    (_, Some(inner)) => thought.push_str(&words(inner.clone()).0),
                    _ => {}
                }
            }
        }
        Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    (text, thought)
}

fn end(reason: &str, known: Option<End>) -> Result<End, Broken> {
    match (reason, known) {
        (_, Some(refused @ End::Refused(_))) => Ok(refused),
        ("stop" | "tool_calls" | "function_call" | "eos", _) => Ok(End::Whole),
        ("length" | "max_tokens" | "model_length", _) => Ok(End::Cut),
        ("content_filter", _) => Ok(End::Refused("its content filter ended the reply".to_owned())),
        (other, _) => {
            let shown: String = other.chars().take(40).collect();
            Err(Broken::Malformed(format!("it has the unknown finish_reason {shown:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_answers_are_read_or_named() {
        for (json, expected) in [
            (
                r#"{"choices":[{"message":{"content":"a","reasoning":{"x":1}},"finish_reason":"stop"}]}"#,
                Ok("a"),
            ),
            (
                r#"{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"arguments":{"a":1}}}]},
                    "finish_reason":"tool_calls"}]}"#,
                Ok(r#"{"a":1}"#),
            ),
            (r#"{"choices":[{"message":{"content":"a"},"finish_reason":"weird"}]}"#, Err("weird")),
            (r#"{"choices":[{"message":{"content":"a"}}]}"#, Err("finish_reason")),
            (
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":""}]}"#,
                Err("finish_reason"),
            ),
            (
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":"model_length"}]}"#,
                Ok("a"),
            ),
            (r#"{"choices":[]}"#, Err("no choice")),
            ("[]", Err("JSON")),
            (r#"{"choices":[{"message":{"content":"#, Err("JSON")),
        ] {
            let mut arrived = Arrived::default();
            match (take_whole(json.as_bytes(), &mut arrived, &mut |_| {}), expected) {
                (Ok(()), Ok(text)) => assert_eq!(arrived.said(), text),
                (Err(Broken::Malformed(why)), Err(word)) => assert!(why.contains(word), "{why}"),
                (found, _) => panic!("{json}: {found:?}"),
            }
        }
    }
}
