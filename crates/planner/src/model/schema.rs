//! The forms of a plan and of a patch, for endpoints that can hold a model to them. The reader checks what arrives.

use serde_json::{Value, json};
use surety_model::ReplySchema;

/// The schema of a first plan, or of a patch.
pub(super) fn schema(is_replan: bool) -> ReplySchema {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let (name, schema) = match is_replan {
        false => ("plan", plan(&text, &texts)),
        true => ("patch", patch(&text, &texts)),
    };
    ReplySchema { name: name.to_owned(), schema }
}

fn plan(text: &Value, texts: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "title": text,
            "goal": text,
            "steps": {"type": "array", "items": step(text, texts)},
            "verify": checks(text),
        },
        "required": ["title", "steps"],
    })
}

fn patch(text: &Value, texts: &Value) -> Value {
    let update = json!({
        "type": "object",
        "properties": {
            "id": text, "description": text, "dependencies": texts, "tools_expected": texts,
        },
        "required": ["id"],
    });
    json!({
        "type": "object",
        "properties": {
            "title": text,
            "remove_steps": texts,
            "update_steps": {"type": "array", "items": update},
            "add_steps": {"type": "array", "items": step(text, texts)},
            "reason": text,
        },
        "required": ["reason"],
    })
}

fn step(text: &Value, texts: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": text,
            "description": text,
            "dependencies": texts,
            "tools_expected": texts,
            "done_when": text,
            "evidence": {"type": "string", "enum": ["required", "none"]},
            "write_scope": texts,
            "verify": checks(text),
        },
        "required": ["id", "description"],
    })
}

fn checks(text: &Value) -> Value {
    let check = json!({
        "type": "object",
        "properties": {
            "id": text, "kind": text, "target": text,
            "params": {"type": "object", "additionalProperties": text},
        },
        "required": ["kind"],
    });
    json!({"type": "array", "items": check})
}
