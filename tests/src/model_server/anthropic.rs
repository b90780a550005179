//! Replies in the form of Anthropic's Messages.

use super::Asked;
use super::reply::{Finish, Reply, tokens};
use super::strict::prompt_tokens;
use serde_json::{Value, json};

fn stop(asked: &Asked, finish: Finish) -> &'static str {
    match finish {
        Finish::Stop if asked.schema.is_some() => "tool_use",
        Finish::Stop => "end_turn",
        Finish::Length => "max_tokens",
        Finish::Filter => "refusal",
    }
}

/// Cached tokens are not part of `input_tokens`.
fn input(asked: &Asked, reply: &Reply) -> Value {
    if reply.without_usage {
        return json!({});
    }
    json!({
        "input_tokens": prompt_tokens(asked).saturating_sub(reply.cached),
        "cache_read_input_tokens": reply.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    })
}

fn output(reply: &Reply) -> u64 {
    tokens(&reply.text) + tokens(&reply.thinking)
}

fn tool(asked: &Asked) -> Option<&str> {
    asked.schema.as_ref().and_then(|(name, _)| name.as_deref())
}

/// The reply as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let mut content = Vec::new();
    if !reply.thinking.is_empty() {
        content.push(json!({"type": "thinking", "thinking": reply.thinking, "signature": "s"}));
    }
    content.push(match tool(asked) {
        Some(name) => {
            let input: Value = serde_json::from_str(&reply.text).unwrap_or_else(|_| json!({}));
            json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": input})
        }
        None => json!({"type": "text", "text": reply.text}),
    });
    let mut usage = input(asked, reply);
    if let Some(fields) = usage.as_object_mut().filter(|_| !reply.without_usage) {
        fields.insert("output_tokens".to_owned(), json!(output(reply)));
    }
    json!({
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": stop(asked, reply.finish),
        "stop_sequence": null,
        "usage": usage,
    })
}

fn event(name: &str, mut body: Value) -> String {
    if let Some(fields) = body.as_object_mut() {
        fields.insert("type".to_owned(), json!(name));
    }
    format!("event: {name}\ndata: {body}\n\n")
}

/// The reply as events.
pub(super) fn events(
    asked: &Asked,
    reply: &Reply,
    pieces: impl Fn(&str) -> Vec<String>,
) -> Vec<String> {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": asked.model,
                         "content": [], "stop_reason": null, "usage": input(asked, reply)});
    let mut events =
        vec![event("message_start", json!({"message": message})), event("ping", json!({}))];
    let mut index = 0;
    if !reply.thinking.is_empty() {
        let begin = json!({"type": "thinking", "thinking": ""});
        let delta = |piece: String| json!({"type": "thinking_delta", "thinking": piece});
        events.extend(block(index, &begin, pieces(&reply.thinking).into_iter().map(delta)));
        index += 1;
    }
    let texts = pieces(&reply.text).into_iter();
    match tool(asked) {
        Some(name) => {
            let begin = json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": {}});
            let delta = |piece: String| json!({"type": "input_json_delta", "partial_json": piece});
            events.extend(block(index, &begin, texts.map(delta)));
        }
        None => {
            let begin = json!({"type": "text", "text": ""});
            let delta = |piece: String| json!({"type": "text_delta", "text": piece});
            events.extend(block(index, &begin, texts.map(delta)));
        }
    }
    if reply.malformed {
        events.push("event: content_block_delta\ndata: {\"delta\": \n\n".to_owned());
    }
    if let Some(message) = &reply.error_event {
        let error = json!({"error": {"type": "overloaded_error", "message": message}});
        events.push(event("error", error));
        return events;
    }
    if reply.without_end {
        return events;
    }
    let usage =
        if reply.without_usage { json!({}) } else { json!({"output_tokens": output(reply)}) };
    let delta = json!({"stop_reason": stop(asked, reply.finish), "stop_sequence": null});
    events.push(event("message_delta", json!({"delta": delta, "usage": usage})));
    events.push(event("message_stop", json!({})));
    events
}

fn block(index: usize, begin: &Value, deltas: impl Iterator<Item = Value>) -> Vec<String> {
    let mut events =
        vec![event("content_block_start", json!({"index": index, "content_block": begin}))];
    events.extend(
        deltas.map(|delta| event("content_block_delta", json!({"index": index, "delta": delta}))),
    );
    events.push(event("content_block_stop", json!({"index": index})));
    events
}

/// An error.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
