//! What a plan file may say of steps and checks. A text from a model may have other keys, which are passed over. A file has an
//! author who means something by each, and a mistyped one would decide nothing.

use surety_acceptgate::check::expression;
use surety_common::domain::check::{CHECK_KEYS, CheckKind, SOURCE};
use surety_common::domain::json::Value;
use surety_common::domain::plan::{CALL_KEYS, STEP_KEYS};

use super::near::unknown_key;
use crate::failure::{Code, Failure};

/// The keys, the kinds, the params and the expressions of checks.
///
/// # Errors
/// The first one that is not known or does not read, by its path.
pub(crate) fn know_checks(checks: &Value, path: &str) -> Result<(), Failure> {
    for (index, check) in list(checks).iter().enumerate() {
        let path = format!("{path}[{index}]");
        know(check, &path, CHECK_KEYS)?;
        let Some(kind) = member(check, "kind").and_then(Value::as_str) else {
            continue;
        };
        let kind = CheckKind::from_text(kind);
        know_kind(&kind, &path)?;
        if let Some(params) = member(check, "params") {
            let known: Vec<&str> = kind.params().iter().copied().chain([SOURCE]).collect();
            know_names(params, &format!("{path}.params"), &known, |name| name.trim().to_owned())?;
        }
        if kind == CheckKind::Expression {
            know_expression(check, &path)?;
        }
    }
    Ok(())
}

/// The keys of steps, of their checks and of the calls of their scripts.
///
/// # Errors
/// As [`know_checks`].
pub(super) fn know_steps(steps: &Value) -> Result<(), Failure> {
    for (index, step) in list(steps).iter().enumerate() {
        let path = format!("steps[{index}]");
        know(step, &path, STEP_KEYS)?;
        if let Some(checks) = member(step, "verify") {
            know_checks(checks, &format!("{path}.verify"))?;
        }
        let script = member(step, "script").map(list).unwrap_or_default();
        for (index, call) in script.iter().enumerate() {
            know(call, &format!("{path}.script[{index}]"), CALL_KEYS)?;
        }
    }
    Ok(())
}

fn know_kind(kind: &CheckKind, path: &str) -> Result<(), Failure> {
    if let CheckKind::Unknown(word) = kind
        && !word.is_empty()
    {
        let message = format!("`{word}` is no kind of check");
        let known = CheckKind::KNOWN.each_ref().map(CheckKind::as_str).join(", ");
        let failure = Failure::new(Code::ValueInvalid, message, format!("Known are {known}."));
        return Err(failure.at(format!("{path}.kind")));
    }
    Ok(())
}

/// Where too little is free to read an expression, the verdict says what is wrong with it.
fn know_expression(check: &Value, path: &str) -> Result<(), Failure> {
    let target = member(check, "target").and_then(Value::as_str).unwrap_or_default();
    if matches!(expression::read(target), Ok(Err(_))) {
        let message = format!("the expression `{target}` does not read");
        let advice = "Write an expression of CEL over `facts` that is true or false.";
        let failure = Failure::new(Code::ValueInvalid, message, advice);
        return Err(failure.at(format!("{path}.target")));
    }
    Ok(())
}

fn know(value: &Value, path: &str, known: &[&str]) -> Result<(), Failure> {
    know_names(value, path, known, folded)
}

fn know_names(
    value: &Value,
    path: &str,
    known: &[&str],
    read: fn(&str) -> String,
) -> Result<(), Failure> {
    let mut keys = value.as_object().unwrap_or_default().iter().map(|(key, _)| key);
    match keys.find(|key| !known.contains(&read(key).as_str())) {
        Some(key) => Err(unknown_key(path, key, known)),
        None => Ok(()),
    }
}

/// The items of a list, or the one value that stands in its place.
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or(std::slice::from_ref(value))
}

fn member<'v>(value: &'v Value, wanted: &str) -> Option<&'v Value> {
    let members = value.as_object().unwrap_or_default();
    members.iter().find(|(key, _)| folded(key) == wanted).map(|(_, value)| value)
}

/// Keys, unlike the names of params, are read in any case and without spaces around them.
fn folded(key: &str) -> String {
    key.trim().to_ascii_lowercase()
}
