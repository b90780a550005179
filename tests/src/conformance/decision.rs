//! Rows about decisions and the control envelope.

use super::stateless::StatelessClient;
use super::{Row, compare, text_of};
use surety_common::domain::control::ControlKind;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::json::Value;
use surety_common::domain::problem::{Problem, Warning};
use surety_executor::decision::Reading;

/// Checks one row of `decision.jsonl`.
///
/// # Errors
/// What came back and what the row expects.
pub async fn check_decision(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let expect = row.value.get("expect").ok_or("the row expects nothing")?;
    let outcome = stateless.decision(text_of(&row.value, "raw")).await?;
    match (outcome, expect.get("ok").and_then(Value::as_bool)) {
        (Ok(reading), Some(true)) => check_reading(&reading, expect),
        (Err(problem), Some(false)) => check_problem(&problem, expect),
        (Ok(reading), _) => Err(format!("read as {reading:?}")),
        (Err(problem), _) => Err(format!("refused: {problem}")),
    }
}

fn check_reading(reading: &Reading, expect: &Value) -> Result<(), String> {
    let expected = expect.get("decision").unwrap_or(&Value::Null);
    let found = reading.decision.as_ref().map_or(Value::Null, filled_fields);
    compare("decision", expected, &found)?;
    check_warnings(&reading.warnings, expect)
}

fn check_problem(problem: &Problem, expect: &Value) -> Result<(), String> {
    let code = text_of(expect, "error");
    if !problem.code.as_str().eq_ignore_ascii_case(code) {
        return Err(format!("expected {code}, found {problem}"));
    }
    let field = text_of(expect, "field");
    let found = problem.field.as_deref().unwrap_or_default();
    if found.ends_with(field) {
        Ok(())
    } else {
        Err(format!("expected the field {field}, found {found}"))
    }
}

/// Checks that every warning a row lists was given.
///
/// # Errors
/// The first that was not.
pub fn check_warnings(warnings: &[Warning], expect: &Value) -> Result<(), String> {
    let expected = expect.get("warnings").and_then(Value::as_array);
    for code in expected.unwrap_or_default().iter().filter_map(Value::as_str) {
        if !warnings.iter().any(|warning| warning.code.as_str() == code) {
            return Err(format!("no warning {code} among {warnings:?}"));
        }
    }
    Ok(())
}

/// Checks one row of `control.jsonl`.
///
/// # Errors
/// What came back and what the row expects.
pub async fn check_control(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let expect = row.value.get("expect").ok_or("the row expects nothing")?;
    let reading = stateless.decision(text_of(&row.value, "raw")).await?.ok();
    let decision = reading.as_ref().and_then(|reading| reading.decision.clone());
    let control = reading.and_then(|reading| reading.control);
    let kind = control.as_ref().map(|control| control.kind);
    let legacy = control.is_some_and(|control| control.legacy);
    let action = decision.map(|decision| decision.action);
    let stands_for = match kind {
        Some(ControlKind::StepDone) => Some(Action::NextPlan),
        Some(ControlKind::Replan) => None,
        None => action,
    };
    if action != stands_for {
        return Err(format!("the control {kind:?} came with the action {action:?}"));
    }
    let expected = text_of(expect, "control");
    if kind.map_or("", ControlKind::as_str) != expected {
        return Err(format!("expected {expected:?}, found {kind:?}"));
    }
    match expect.get("legacy").and_then(Value::as_bool) {
        Some(expected) if expected != legacy => Err(format!("legacy is {legacy}")),
        Some(_) | None => Ok(()),
    }
}

/// A decision as the object a driver would write, without the fields that are not filled.
pub fn filled_fields(decision: &ExecuteDecision) -> Value {
    let mut fields = vec![text_field("action", decision.action.as_str())];
    for (name, text) in [
        ("speak", &decision.speak),
        ("reason", &decision.reason),
        ("goal_check", &decision.goal_check),
    ] {
        push_filled(&mut fields, name, text);
    }
    if let Some(call) = &decision.tool_call {
        let members =
            vec![text_field("name", &call.name), ("arguments".to_owned(), call.arguments.clone())];
        fields.push(("tool_call".to_owned(), Value::Object(members)));
    }
    if let Some(abort) = &decision.abort {
        let mut members = Vec::new();
        push_filled(&mut members, "code", &abort.code);
        push_filled(&mut members, "user_message", &abort.user_message);
        push_filled(&mut members, "internal_reason", &abort.internal_reason);
        fields.push(("abort".to_owned(), Value::Object(members)));
    }
    Value::Object(fields)
}

fn push_filled(fields: &mut Vec<(String, Value)>, name: &str, text: &str) {
    if !text.is_empty() {
        fields.push(text_field(name, text));
    }
}

fn text_field(name: &str, text: &str) -> (String, Value) {
    (name.to_owned(), Value::String(text.to_owned()))
}
