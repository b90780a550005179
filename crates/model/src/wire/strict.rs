//! Which schemas OpenAI takes as strict. It refuses a request whose schema is marked so and is none.

use serde_json::{Map, Value};

/// What a strict schema may have beside what is looked at here.
const FREE: [&str; 16] = [
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];
/// How deep it may be.
const DEEPEST: u32 = 10;

/// Whether a schema is one that OpenAI takes as strict: an object, in which every object names all its properties as
/// required and allows no others, without words that OpenAI does not know. Other servers do not look at the mark.
pub(super) fn is_strict(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object") && is_taken(schema, 1)
}

fn is_taken(schema: &Value, depth: u32) -> bool {
    let Some(fields) = schema.as_object().filter(|_| depth <= DEEPEST) else { return false };
    let is_known = fields.iter().all(|(key, value)| match (key.as_str(), value) {
        ("items", items) => is_taken(items, depth + 1),
        ("anyOf", Value::Array(any)) => depth > 1 && any.iter().all(|one| is_taken(one, depth)),
        ("additionalProperties", open) => open == &Value::Bool(false),
        (key, _) => FREE.contains(&key),
    });
    if !is_known {
        return false;
    }
    let types: Vec<&str> = match fields.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => return false,
        None => return fields.contains_key("anyOf"),
    };
    (!types.contains(&"object") || is_closed(fields, depth))
        && (!types.contains(&"array") || fields.contains_key("items"))
}

fn is_closed(fields: &Map<String, Value>, depth: u32) -> bool {
    let required = fields.get("required").and_then(Value::as_array);
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else {
        return false;
    };
    let is_required =
        |key: &String| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(key)));
    fields.contains_key("additionalProperties")
        && properties
            .iter()
            .all(|(key, property)| is_required(key) && is_taken(property, depth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_is_strict_where_openai_takes_it_as_strict() {
        let closed = json!({"type": "object", "required": ["a", "type"], "additionalProperties": false,
        "properties": {
            "a": {"type": ["string", "null"], "enum": ["b", null]},
            "type": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        }});
        assert!(is_strict(&closed));
        for (path, value) in [
            ("/required", json!(["a"])),
            ("/additionalProperties", json!(true)),
            ("/type", json!("array")),
            ("/properties/a", json!({"type": "object"})),
            ("/properties/a", json!({"enum": ["b", 1]})),
            ("/properties/a", json!({"type": "string", "default": "b"})),
            ("/properties/a", json!({"$ref": "#/$defs/a"})),
            ("/properties/a", json!({"type": "array"})),
            ("/properties/type/anyOf/0/items", json!({"type": "object", "properties": {}})),
        ] {
            let mut open = closed.clone();
            *open.pointer_mut(path).expect("a field") = value;
            assert!(!is_strict(&open), "{path}");
        }
        let mut any = closed.clone();
        any["anyOf"] = json!([{"type": "string"}]);
        assert!(!is_strict(&any));
        let mut deep = json!({"type": "string"});
        for _ in 0..DEEPEST {
            deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"],
                          "additionalProperties": false});
        }
        assert!(!is_strict(&deep));
    }
}
