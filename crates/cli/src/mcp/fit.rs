//! Why arguments do not fit the schema that a tool lists.

use serde_json::{Map, Value};

/// The most letters of a name or a text of an agent in a message.
const MOST_LETTERS: usize = 100;

/// The first argument that does not fit a schema of [`super::tools`], with what it must be.
pub(super) fn fault(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> Option<String> {
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut missing =
        required.filter_map(Value::as_str).filter(|name| !arguments.contains_key(*name));
    if let Some(name) = missing.next() {
        let expected = properties.get(name).map(expected).unwrap_or_default();
        return Some(format!("{name} is missing{expected}"));
    }
    arguments.iter().find_map(|(name, value)| match properties.get(name) {
        Some(schema) => unfit(name, value, schema),
        None => {
            let known: Vec<_> = properties.keys().map(String::as_str).collect();
            let takes = match known.as_slice() {
                [] => "it takes none".to_owned(),
                known => format!("it takes {}", known.join(", ")),
            };
            Some(format!("{} is no argument of the tool; {takes}", shortened(name)))
        }
    })
}

fn unfit(path: &str, value: &Value, schema: &Value) -> Option<String> {
    let is_named = types(schema).next().is_some();
    if is_named && !types(schema).any(|kind| has(kind, value)) || is_no_number(value, schema) {
        return Some(format!("{path} is {}{}", shown(value), expected(schema)));
    }
    let names = schema.get("enum").and_then(Value::as_array);
    if names.is_some_and(|names| !names.contains(value)) {
        return Some(format!("{path} is {}{}", shown(value), expected(schema)));
    }
    match value {
        Value::Array(items) => {
            let schema = schema.get("items")?;
            let mut items = items.iter().enumerate();
            items.find_map(|(place, item)| unfit(&format!("{path}[{place}]"), item, schema))
        }
        Value::Object(members) => {
            let schema = schema.get("additionalProperties")?;
            members.iter().find_map(|(name, member)| {
                unfit(&format!("{path}.{}", shortened(name)), member, schema)
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Whether a text stands where a number, or its text, belongs.
fn is_no_number(value: &Value, schema: &Value) -> bool {
    takes_number_texts(schema) && value.as_str().is_some_and(|text| text.parse::<u64>().is_err())
}

fn takes_number_texts(schema: &Value) -> bool {
    types(schema).eq(["integer", "string"])
}

/// The types that a schema names.
fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let named = schema.get("type");
    let several = named.and_then(Value::as_array).into_iter().flatten();
    named.into_iter().chain(several).filter_map(Value::as_str)
}

fn has(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "integer" => value.is_u64(),
        _ => value.is_string(),
    }
}

fn expected(schema: &Value) -> String {
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        return format!("; it must be one of {}", names.join(", "));
    }
    if takes_number_texts(schema) {
        return "; it must be a whole number that is not negative, or its text".to_owned();
    }
    let types: Vec<_> = types(schema)
        .map(|kind| match kind {
            "object" => "an object",
            "array" => "a list",
            "integer" => "a whole number that is not negative",
            _ => "a string",
        })
        .collect();
    if types.is_empty() { String::new() } else { format!("; it must be {}", types.join(" or ")) }
}

/// A value by its type; a number as it is, and the beginning of a text.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {:?}", shortened(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The beginning of a text of an agent, without control characters.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MOST_LETTERS).filter(|letter| !letter.is_control()).collect()
}
