//! Replies in the form of OpenAI's chat completions.

use super::Asked;
use super::reply::{Finish, Reply, tokens};
use super::strict::prompt_tokens;
use serde_json::{Value, json};

fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Filter => "content_filter",
    }
}

fn usage(asked: &Asked, reply: &Reply) -> Value {
    if reply.without_usage {
        return Value::Null;
    }
    let (prompt, output) = (prompt_tokens(asked), tokens(&reply.text) + tokens(&reply.thinking));
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": reply.cached},
    })
}

fn function(asked: &Asked) -> Option<&str> {
    asked.schema.as_ref().and_then(|(name, _)| name.as_deref())
}

/// The reply as one object.
pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if let Some(name) = function(asked) {
        message = json!({"role": "assistant", "content": null, "tool_calls": [{
            "id": "call_1",
            "type": "function",
            "function": {"name": name, "arguments": reply.text},
        }]});
    }
    if !reply.thinking.is_empty()
        && let Some(fields) = message.as_object_mut()
    {
        fields.insert(reply.thinking_field.to_owned(), json!(reply.thinking));
    }
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish(reply.finish)}],
        "usage": usage(asked, reply),
    })
}

/// The reply as events.
pub(super) fn events(
    asked: &Asked,
    reply: &Reply,
    pieces: impl Fn(&str) -> Vec<String>,
) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        let chunk = json!({
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": asked.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        });
        format!("data: {chunk}\n\n")
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    for piece in pieces(&reply.thinking) {
        events.push(chunk(json!({reply.thinking_field: piece}), Value::Null));
    }
    if let Some(name) = function(asked) {
        let call = json!({"index": 0, "id": "call_1", "type": "function",
                          "function": {"name": name, "arguments": ""}});
        events.push(chunk(json!({"tool_calls": [call]}), Value::Null));
    }
    for piece in pieces(&reply.text) {
        let delta = match function(asked) {
            Some(_) => json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
            None => json!({"content": piece}),
        };
        events.push(chunk(delta, Value::Null));
    }
    if reply.malformed {
        events.push("data: {\"choices\": [\n\n".to_owned());
    }
    if let Some(message) = &reply.error_event {
        let error = json!({"error": {"message": message, "type": "server_error", "code": 500}});
        events.push(format!("data: {error}\n\n"));
        return events;
    }
    if reply.without_end {
        return events;
    }
    events.push(chunk(json!({}), json!(finish(reply.finish))));
    let wants_usage = asked.body.pointer("/stream_options/include_usage") == Some(&json!(true));
    if wants_usage && !reply.without_usage {
        let last = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
                          "model": asked.model, "choices": [], "usage": usage(asked, reply)});
        events.push(format!("data: {last}\n\n"));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// An error.
pub(super) fn error(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
}
