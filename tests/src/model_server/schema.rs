//! The forms of a reply that a request may ask for, by the rules of OpenAI's and Anthropic's servers.
//!
//! OpenAI: <https://platform.openai.com/docs/guides/structured-outputs>, "Supported schemas".

use super::Offers;
use super::strict::{Read, refuse};
use serde_json::{Map, Value};

/// The schema that a request asks for, and the function's name where it forces one.
type Schema = Option<(Option<String>, Value)>;

/// What a schema that is marked as strict may have.
const STRICT_KEYS: [&str; 24] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];
const TYPES: [&str; 7] = ["string", "number", "boolean", "integer", "object", "array", "null"];
/// How deep a strict schema may be, how many properties it may have in all, and how many values its enums.
const DEEPEST: u32 = 10;
const MOST_PROPERTIES: usize = 5000;
const MOST_VALUES: usize = 1000;
/// The longest name of a form or a function: OpenAI's, and Anthropic's.
const OPENAI_NAME: usize = 64;
const ANTHROPIC_NAME: usize = 128;

fn invalid<T>(message: impl Into<String>) -> Read<T> {
    refuse(400, "invalid_value", message)
}

pub(super) fn openai_schema(fields: &Map<String, Value>, offers: Offers) -> Read<Schema> {
    let Some(format) = fields.get("response_format") else {
        return forced(fields, offers, &FUNCTION);
    };
    if let Offers::Functions(status) | Offers::Nothing(status) = offers {
        return refuse(status, "unsupported", "response_format is not supported");
    }
    let place = "response_format";
    let format = only(format, place, &["type", "json_schema"])?;
    if format.get("type").and_then(Value::as_str) != Some("json_schema") {
        return invalid("response_format has another type than json_schema");
    }
    let Some(form) = format.get("json_schema") else {
        return refuse(400, "missing_required_parameter", "response_format.json_schema is missing");
    };
    let form = only(form, "json_schema", &["name", "description", "schema", "strict"])?;
    let schema = described(form, "schema", (place, OPENAI_NAME))?;
    Ok(Some((None, schema)))
}

pub(super) fn anthropic_schema(fields: &Map<String, Value>, offers: Offers) -> Read<Schema> {
    forced(fields, offers, &TOOL)
}

/// How a server writes a function, and how one is forced.
struct Shape {
    /// The `type` of a function, and the field that it stands in.
    of_tool: Option<(&'static str, &'static str)>,
    /// The `type` of the choice.
    of_choice: &'static str,
    keys: &'static [&'static str],
    schema: &'static str,
    longest_name: usize,
}

const FUNCTION: Shape = Shape {
    of_tool: Some(("function", "function")),
    of_choice: "function",
    keys: &["name", "description", "parameters", "strict"],
    schema: "parameters",
    longest_name: OPENAI_NAME,
};
const TOOL: Shape = Shape {
    of_tool: None,
    of_choice: "tool",
    keys: &["name", "description", "input_schema", "cache_control"],
    schema: "input_schema",
    longest_name: ANTHROPIC_NAME,
};

/// One function, which the reply has to call.
fn forced(fields: &Map<String, Value>, offers: Offers, shape: &Shape) -> Read<Schema> {
    let Some(tools) = fields.get("tools") else {
        return Ok(None);
    };
    if let Offers::Nothing(status) = offers {
        return refuse(status, "unsupported", "tools are not supported");
    }
    let one = tools.as_array().filter(|tools| tools.len() == 1).and_then(|tools| tools.first());
    let Some(tool) = one else { return invalid("not one function") };
    let function = match shape.of_tool {
        None => tool,
        Some((kind, field)) => {
            let tool = only(tool, "tools[0]", &["type", field])?;
            if tool.get("type").and_then(Value::as_str) != Some(kind) {
                return invalid(format!("tools[0].type is not {kind:?}"));
            }
            match tool.get(field) {
                Some(function) => function,
                None => return invalid(format!("tools[0].{field} is missing")),
            }
        }
    };
    let function = only(function, "the function", shape.keys)?;
    let schema = described(function, shape.schema, ("the function", shape.longest_name))?;
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    let choice = fields.get("tool_choice");
    let chosen = choice.and_then(|choice| match shape.of_tool {
        None => choice.get("name"),
        Some((_, field)) => choice.get(field).and_then(|function| function.get("name")),
    });
    let kind = choice.and_then(|choice| choice.get("type")).and_then(Value::as_str);
    if kind != Some(shape.of_choice) || chosen.and_then(Value::as_str) != Some(name) {
        return invalid("tool_choice names no function, or another one");
    }
    Ok(Some((Some(name.to_owned()), schema)))
}

/// The schema of a form or a function, which has a name.
fn described(form: &Map<String, Value>, key: &str, (place, longest): (&str, usize)) -> Read<Value> {
    let name = form.get("name").and_then(Value::as_str).unwrap_or_default();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if name.is_empty() || name.len() > longest || !name.chars().all(is_letter) {
        let pattern = format!("^[a-zA-Z0-9_-]{{1,{longest}}}$");
        return invalid(format!("the name {name:?} of {place} does not match {pattern}"));
    }
    let Some(schema) = form.get(key).filter(|schema| schema.is_object()) else {
        return invalid(format!("{place} has no {key}"));
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return invalid(format!("the schema of {place} must be one of 'type: \"object\"'"));
    }
    match form.get("strict") {
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            let mut counts = Counts::default();
            takes_strictly(schema, schema, 1, &mut counts)?;
        }
        Some(Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            return invalid(format!("strict of {place} is no boolean"));
        }
    }
    Ok(schema.clone())
}

/// An object with these fields only.
fn only<'a>(value: &'a Value, place: &str, keys: &[&str]) -> Read<&'a Map<String, Value>> {
    let Some(fields) = value.as_object() else {
        return invalid(format!("{place} is no object"));
    };
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => {
            refuse(400, "unknown_parameter", format!("Unknown parameter: '{place}.{unknown}'."))
        }
        None => Ok(fields),
    }
}

/// What a strict schema has so far.
#[derive(Default)]
struct Counts {
    properties: usize,
    values: usize,
}

/// Whether OpenAI takes a schema that is marked as strict.
fn takes_strictly(schema: &Value, root: &Value, depth: u32, counts: &mut Counts) -> Read<()> {
    let Some(fields) = schema.as_object() else { return invalid("a schema is no object") };
    if depth > DEEPEST {
        return invalid(format!("the schema has more than {DEEPEST} levels"));
    }
    if let Some(key) = fields.keys().find(|key| !STRICT_KEYS.contains(&key.as_str())) {
        return invalid(format!("'{key}' is not permitted"));
    }
    let list = |key: &str| fields.get(key).and_then(Value::as_array);
    counts.values += list("enum").map_or(0, Vec::len);
    if counts.values > MOST_VALUES {
        return invalid(format!("the schema has more than {MOST_VALUES} values of enums"));
    }
    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|path| root.pointer(path));
        return match target {
            Some(_) => Ok(()),
            None => invalid(format!("the reference {reference:?} has no target")),
        };
    }
    for (_, definition) in ["$defs", "definitions"]
        .iter()
        .filter_map(|key| fields.get(*key).and_then(Value::as_object))
        .flatten()
    {
        takes_strictly(definition, root, depth, counts)?;
    }
    if let Some(any) = list("anyOf") {
        if depth == 1 {
            return invalid("'anyOf' is not permitted at the root");
        }
        return any.iter().try_for_each(|one| takes_strictly(one, root, depth, counts));
    }
    let types: Vec<&str> = match fields.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().map(|it| it.as_str().unwrap_or("")).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            return invalid("schema must have a 'type' key");
        }
    };
    if types.is_empty() || types.iter().any(|name| !TYPES.contains(name)) {
        return invalid(format!("{types:?} is no type"));
    }
    if types.contains(&"object") {
        is_closed(fields, counts)?;
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    for property in properties.into_iter().flat_map(Map::values) {
        takes_strictly(property, root, depth + 1, counts)?;
    }
    match fields.get("items") {
        Some(items) => takes_strictly(items, root, depth + 1, counts),
        None if types.contains(&"array") => invalid("array schema missing items"),
        None => Ok(()),
    }
}

/// Whether an object has no other properties than those that it names, and requires all of them.
fn is_closed(fields: &Map<String, Value>, counts: &mut Counts) -> Read<()> {
    if fields.get("additionalProperties") != Some(&Value::Bool(false)) {
        return invalid("'additionalProperties' is required to be supplied and to be false");
    }
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else {
        return invalid("object schema missing properties");
    };
    counts.properties += properties.len();
    if counts.properties > MOST_PROPERTIES {
        return invalid(format!("the schema has more than {MOST_PROPERTIES} properties"));
    }
    let required = fields.get("required").and_then(Value::as_array);
    let is_required =
        |key: &String| required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(key)));
    match properties.keys().find(|key| !is_required(key)) {
        Some(key) => invalid(format!(
            "'required' is required to be an array including every key in properties. Missing '{key}'."
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_server::strict::read;
    use crate::model_server::{Form, Settings};
    use serde_json::json;

    fn closed() -> Value {
        json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}},
               "required": ["a"], "additionalProperties": false})
    }

    fn asked() -> Value {
        json!({"model": "test-model", "messages": [{"role": "user", "content": "a"}]})
    }

    /// What is said of a request with one more field, or with another value in it.
    fn said(form: Form, mut body: Value, (path, value): (&str, Value)) -> Result<(), String> {
        let (parent, key) = path.rsplit_once('/').expect("a path");
        let fields = body.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
        if value.is_null() {
            fields.remove(key);
        } else {
            fields.insert(key.to_owned(), value);
        }
        let read = read(form, &body, &Settings::default());
        read.map(drop).map_err(|refusal| {
            assert_eq!(refusal.status, 400, "{}", refusal.message);
            refusal.message
        })
    }

    #[test]
    fn a_form_that_openai_refuses_is_refused() {
        let mut body = asked();
        let form = json!({"name": "decision", "schema": closed(), "strict": true});
        body["response_format"] = json!({"type": "json_schema", "json_schema": form});
        let of = |change: (&str, Value)| said(Form::OpenAi, body.clone(), change);
        assert_eq!(of(("/response_format/json_schema/description", json!("a"))), Ok(()));
        for (path, value, expected) in [
            ("type", json!("json"), "another type"),
            ("json_schema", Value::Null, "json_schema is missing"),
            ("json_schema/name", Value::Null, "does not match"),
            ("json_schema/name", json!("a b"), "does not match"),
            ("json_schema/name", json!("a".repeat(65)), "does not match"),
            ("json_schema/more", json!(1), "Unknown parameter"),
            ("json_schema/schema", json!([]), "has no schema"),
            ("json_schema/schema/type", json!("array"), "must be one of"),
            ("json_schema/strict", json!("yes"), "no boolean"),
            ("json_schema/schema/required", json!([]), "Missing 'a'"),
            ("json_schema/schema/additionalProperties", Value::Null, "additionalProperties"),
            ("json_schema/schema/properties", Value::Null, "missing properties"),
            ("json_schema/schema/uniqueItems", json!(true), "not permitted"),
            ("json_schema/schema/anyOf", json!([]), "at the root"),
            ("json_schema/schema/properties/a", json!({}), "'type' key"),
            ("json_schema/schema/properties/a", json!({"type": "text"}), "no type"),
            ("json_schema/schema/properties/a", json!({"type": "array"}), "missing items"),
            ("json_schema/schema/properties/a", json!({"$ref": "#/$defs/a"}), "no target"),
            ("json_schema/schema/$defs", json!({"a": {"type": "object"}}), "additionalProperties"),
            (
                "json_schema/schema/properties/a",
                json!({"anyOf": [{"type": "string", "default": "a"}]}),
                "'default' is not permitted",
            ),
        ] {
            let message = of((&format!("/response_format/{path}"), value)).expect_err(path);
            assert!(message.contains(expected), "{path}: {message}");
        }
        // Without the mark the schema may be any.
        let mut open = body.clone();
        open["response_format"]["json_schema"]["strict"] = json!(false);
        let path = "/response_format/json_schema/schema/required";
        assert_eq!(said(Form::OpenAi, open, (path, json!([]))), Ok(()));
    }

    #[test]
    fn a_function_that_is_not_one_is_refused() {
        let mut openai = asked();
        let function = json!({"name": "decision", "parameters": closed()});
        openai["tools"] = json!([{"type": "function", "function": function}]);
        openai["tool_choice"] = json!({"type": "function", "function": {"name": "decision"}});
        openai["parallel_tool_calls"] = json!(false);
        let mut anthropic = asked();
        anthropic["max_tokens"] = json!(10);
        anthropic["tools"] = json!([{"name": "decision", "input_schema": closed()}]);
        anthropic["tool_choice"] = json!({"type": "tool", "name": "decision"});
        for (form, body, path, value) in [
            (Form::OpenAi, &openai, "/tools/0/type", Value::Null),
            (Form::OpenAi, &openai, "/tools/0/type", json!("tool")),
            (Form::OpenAi, &openai, "/tools/0/function/name", json!("a.b")),
            (Form::OpenAi, &openai, "/tools/0/function/parameters/type", json!("string")),
            (Form::OpenAi, &openai, "/tools/0/function/input_schema", json!({})),
            (Form::OpenAi, &openai, "/tool_choice/type", Value::Null),
            (Form::OpenAi, &openai, "/tool_choice/function", json!({"name": "plan"})),
            (Form::OpenAi, &openai, "/tools", Value::Null),
            (Form::Anthropic, &anthropic, "/tools/0/name", json!("a b")),
            (Form::Anthropic, &anthropic, "/tools/0/parameters", json!({})),
            (Form::Anthropic, &anthropic, "/tool_choice/type", json!("function")),
        ] {
            assert_eq!(said(form, body.clone(), ("/model", json!("test-model"))), Ok(()));
            said(form, body.clone(), (path, value)).expect_err(path);
        }
    }

    #[test]
    fn options_of_a_stream_are_refused_without_one() {
        let options = ("/stream_options", json!({"include_usage": true}));
        let message = said(Form::OpenAi, asked(), options.clone()).expect_err("no stream");
        assert!(message.contains("only allowed when 'stream' is enabled"), "{message}");
        let mut body = asked();
        body["stream"] = json!(true);
        assert_eq!(said(Form::OpenAi, body, options), Ok(()));
    }
}
