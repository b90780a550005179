//! The published fields of the bodies that calls send. Real forges take more; this one refuses what they do not
//! document.

use serde_json::Value;

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A commit in hexadecimal.
    Commit,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Numbers,
}

/// A field of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

pub(super) const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, is_required: true }
}

pub(super) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, is_required: false }
}

/// # Errors
/// What is wrong with the body.
pub(super) fn check(body: &Value, fields: &[Field]) -> Result<(), String> {
    let object = body.as_object().ok_or("the body is no JSON object")?;
    if let Some(unknown) = object.keys().find(|key| !fields.iter().any(|it| it.name == *key)) {
        return Err(format!("[{unknown}]: unknown field"));
    }
    for field in fields {
        match object.get(field.name) {
            None if field.is_required => return Err(format!("[{}]: Required", field.name)),
            None => {}
            Some(value) if holds(field.kind, value, field.is_required) => {}
            Some(value) => {
                return Err(format!("[{}]: {value} is not {:?}", field.name, field.kind));
            }
        }
    }
    Ok(())
}

fn holds(kind: Kind, value: &Value, is_required: bool) -> bool {
    let texts =
        |check: fn(&Value) -> bool| value.as_array().is_some_and(|all| all.iter().all(check));
    match kind {
        Kind::Text => value.as_str().is_some_and(|text| !is_required || !text.trim().is_empty()),
        Kind::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
        Kind::Commit => value.as_str().is_some_and(|text| {
            text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        }),
        Kind::Texts => texts(Value::is_string),
        Kind::Numbers => texts(Value::is_u64),
    }
}
