//! A tool call as models write it.

use super::ToolCall;
use crate::domain::fields::{TypedFields, mismatch};
use crate::domain::json::{Value, parse};
use crate::domain::problem::{Code, Problem, Warning, WarningCode};

const KEYS: &[&str] = &["name", "arguments", "parameters"];

/// Reads a tool call. Null, blank text and an empty list are none. Its name may be empty.
///
/// # Errors
/// `tool_call_not_object`, or `type_mismatch` at the name, the arguments or the parameters.
pub fn read_tool_call(
    value: &Value,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Option<ToolCall>, Problem> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::Array(items) if items.is_empty() => {
            warnings.push(Warning::at(WarningCode::EmptyArrayAsAbsent, path));
            Ok(None)
        }
        Value::Object(_) => read_object(value, path, warnings).map(Some),
        Value::String(text) => {
            let object = object_in_string(text, path, warnings);
            let object = object.ok_or_else(|| not_object(value, path))?;
            read_object(&object, path, warnings).map(Some)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(not_object(value, path)),
    }
}

fn not_object(value: &Value, path: &str) -> Problem {
    let message = format!(
        "one object {{name, arguments}} is wanted here, not {}; one tool a turn",
        value.kind()
    );
    Problem::at(Code::ToolCallNotObject, path, message)
}

fn read_object(
    value: &Value,
    path: &str,
    warnings: &mut Vec<Warning>,
) -> Result<ToolCall, Problem> {
    let fields = TypedFields::of(value, path, KEYS, warnings)?;
    let name = fields.text("name")?;
    let arguments = read_arguments(&fields, "arguments", warnings)?;
    let arguments = if is_empty(&arguments) {
        read_arguments(&fields, "parameters", warnings)?
    } else {
        arguments
    };
    Ok(ToolCall { name, arguments })
}

fn is_empty(arguments: &Value) -> bool {
    arguments.as_object().is_none_or(<[_]>::is_empty)
}

fn read_arguments(
    fields: &TypedFields<'_>,
    key: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Value, Problem> {
    let path = fields.path(key);
    let wrong = |value: &Value| mismatch(&path, "an object", value);
    match fields.get(key) {
        None => Ok(Value::Object(Vec::new())),
        Some(object @ Value::Object(_)) => Ok(object.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => {
            warnings.push(Warning::at(WarningCode::EmptyStringAsObject, &path));
            Ok(Value::Object(Vec::new()))
        }
        Some(value @ Value::String(text)) => {
            object_in_string(text, &path, warnings).ok_or_else(|| wrong(value))
        }
        Some(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_))) => {
            Err(wrong(value))
        }
    }
}

fn object_in_string(text: &str, path: &str, warnings: &mut Vec<Warning>) -> Option<Value> {
    let parsed = parse(text.trim()).ok()?;
    parsed.value.as_object()?;
    warnings.push(Warning::at(WarningCode::ObjectInString, path));
    if parsed.duplicate_key {
        warnings.push(Warning::at(WarningCode::DuplicateKey, path));
    }
    Some(parsed.value)
}
