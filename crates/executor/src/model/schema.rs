//! The form of a decision, for endpoints that can hold a model to it. The reader checks what arrives.

use serde_json::json;
use surety_model::ReplySchema;

/// The schema of a reply.
pub(super) fn decision_schema() -> ReplySchema {
    ReplySchema { name: "decision".to_owned(), schema: schema() }
}

fn schema() -> serde_json::Value {
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
