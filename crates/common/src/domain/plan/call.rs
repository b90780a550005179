//! A tool call as models write it.

use super::ToolCall;
use crate::domain::fields::{TypedFields, mismatch, read_object_in_text, read_optional_object};
use crate::domain::json::Value;
use crate::domain::problem::{Code, Problem, Warning, WarningCode};

/// The keys of a tool call.
pub const CALL_KEYS: &[&str] = &["name", "arguments", "parameters"];

/// Reads a tool call. Null, blank text and an empty list are none. Its name may be empty.
/// `arguments` wins; `parameters`, which some models write, is read only without it.
///
/// # Errors
/// `not_object` where it is none, or `type_mismatch` at the name, the arguments or the parameters.
pub fn read_tool_call(
    value: &Value,
    (path, not_object): (&str, Code),
    warnings: &mut Vec<Warning>,
) -> Result<Option<ToolCall>, Problem> {
    let object = read_optional_object(value, path, not_object, warnings)?;
    let Some(object) = object else {
        return Ok(None);
    };
    let fields = TypedFields::of(&object, path, CALL_KEYS, warnings)?;
    let name = fields.text("name")?;
    let arguments = read_arguments(&fields, "arguments", warnings)?;
    let arguments = if is_empty(&arguments) {
        read_arguments(&fields, "parameters", warnings)?
    } else {
        arguments
    };
    Ok(Some(ToolCall { name, arguments }))
}

fn is_empty(arguments: &Value) -> bool {
    arguments.as_object().is_none_or(<[_]>::is_empty)
}

fn read_arguments(
    fields: &TypedFields<'_>,
    key: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Value, Problem> {
    let path = || fields.path(key);
    let wrong = |value: &Value| mismatch(&path(), "an object", value);
    match fields.get(key) {
        None => Ok(Value::Object(Vec::new())),
        Some(object @ Value::Object(_)) => Ok(object.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => {
            warnings.push(Warning::at(WarningCode::EmptyStringAsObject, path()));
            Ok(Value::Object(Vec::new()))
        }
        Some(value @ Value::String(text)) => {
            read_object_in_text(text, &path(), warnings)?.ok_or_else(|| wrong(value))
        }
        Some(value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_))) => {
            Err(wrong(value))
        }
    }
}
