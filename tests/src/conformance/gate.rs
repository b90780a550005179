//! Rows for the gate: whole evaluations (`gate.jsonl`) and single receipts (`receipt.jsonl`).

use super::{Row, compare};
use std::collections::BTreeMap;
use std::time::Duration;
use surety_acceptgate::verdict::{Evaluation, evaluate_within};
use surety_common::domain::check::{Author, read_checks};
use surety_common::domain::json::Value;
use surety_common::domain::receipt::{
    EvidenceReceipt, EvidenceSource, Fact, read_fact, read_receipt,
};
use surety_common::domain::todo::{Todo, TodoStatus};
use surety_common::domain::verdict::{CheckResult, Verdict};

/// Long enough for any machine: what is compared is the outcome, not the speed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks one row of `gate.jsonl`.
///
/// # Errors
/// What came back and what the row expects.
pub fn check_evaluation(row: &Row) -> Result<(), String> {
    let expected = member(&row.value, "expect")?;
    compare("the verdict", expected, &answer(&row.value)?)
}

/// Checks one row of `receipt.jsonl`. Members that say nothing may be written or left out.
///
/// # Errors
/// What came back and what the row expects.
pub fn check_receipt(row: &Row) -> Result<(), String> {
    let expected = filled(member(&row.value, "expect")?);
    let found = match read_receipt(member(&row.value, "receipt")?) {
        Ok(receipt) => object([("ok", Value::Bool(true)), ("receipt", receipt.to_json())]),
        Err(problem) => refusal(problem.code.as_str()),
    };
    compare("the receipt", &expected, &filled(&found))
}

fn answer(row: &Value) -> Result<Value, String> {
    let checks = match read_checks(member(row, "checks")?, "checks", Author::Service) {
        Ok((checks, _)) => checks,
        Err(problem) => return Ok(refusal(problem.code.as_str())),
    };
    let receipts = receipts(row)?;
    let todos = todos(row)?;
    let input = Evaluation {
        workspace_root: text(row, "workspace_root")?,
        checks: &checks,
        receipts: &receipts,
        final_text: text(row, "final_text")?,
        todos: &todos,
        plan_made_at: None,
        answers: &BTreeMap::new(),
    };
    Ok(told(&evaluate_within(&input, PATIENCE)))
}

/// The receipts of a row: one fact each, of a success, from a call of its own unless it is named.
fn receipts(row: &Value) -> Result<Vec<EvidenceReceipt>, String> {
    let facts = member(row, "receipts")?.as_array().ok_or("receipts is no list")?;
    facts
        .iter()
        .zip(1..)
        .map(|(value, seq)| {
            let fact = read_fact(value, "receipts").map_err(|problem| problem.to_string())?;
            let call_id = value.get("call_id").and_then(Value::as_str);
            Ok(receipt_of(fact, call_id.unwrap_or_default(), seq))
        })
        .collect()
}

fn receipt_of(fact: Fact, call_id: &str, seq: u64) -> EvidenceReceipt {
    EvidenceReceipt {
        step_index: 0,
        step_id: String::new(),
        plan_revision: 1,
        seq,
        call_id: call_id.to_owned(),
        source: EvidenceSource::ToolObservation,
        name: String::new(),
        arguments_digest: String::new(),
        success: true,
        summary: String::new(),
        facts: vec![fact],
        output_digest: String::new(),
        started_at: None,
        finished_at: None,
        prev_digest: String::new(),
        digest: String::new(),
    }
}

fn todos(row: &Value) -> Result<Vec<Todo>, String> {
    let todos = member(row, "todos")?.as_array().ok_or("todos is no list")?;
    todos
        .iter()
        .map(|todo| {
            let word = text(todo, "status")?;
            let status = TodoStatus::ALL
                .into_iter()
                .find(|status| status.as_str() == word)
                .ok_or_else(|| format!("{word} is no status of a todo"))?;
            Ok(Todo {
                id: text(todo, "id")?.to_owned(),
                content: String::new(),
                required: todo.get("required").and_then(Value::as_bool).unwrap_or(true),
                status,
                dependencies: Vec::new(),
                replaces: Vec::new(),
                created_at: None,
            })
        })
        .collect()
}

fn told(verdict: &Verdict) -> Value {
    let results = verdict.results.iter().map(told_result).collect();
    object([
        ("ok", Value::Bool(true)),
        ("accepted", Value::Bool(verdict.accepted)),
        ("stop_reason", string(verdict.stop_reason.as_str())),
        ("results", Value::Array(results)),
    ])
}

fn told_result(result: &CheckResult) -> Value {
    let mut members = vec![("name", string(&result.name)), ("passed", Value::Bool(result.passed))];
    if !result.reason.is_empty() {
        members.push(("reason", string(&result.reason)));
    }
    if result.optional {
        members.push(("optional", Value::Bool(true)));
    }
    object(members)
}

fn refusal(code: &str) -> Value {
    object([("ok", Value::Bool(false)), ("error", string(code))])
}

/// The value without the members that say nothing: rows leave them out or write them as they like.
fn filled(value: &Value) -> Value {
    let Some(members) = value.as_object() else {
        return value.clone();
    };
    let says_something = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    };
    let members = members
        .iter()
        .filter(|(_, value)| says_something(value))
        .map(|(key, value)| (key.clone(), filled(value)));
    Value::Object(members.collect())
}

fn member<'v>(value: &'v Value, key: &str) -> Result<&'v Value, String> {
    value.get(key).ok_or_else(|| format!("{key} is missing"))
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str, String> {
    member(value, key)?.as_str().ok_or_else(|| format!("{key} is no text"))
}

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn object<'k>(members: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let owned = |(key, value): (&str, Value)| (key.to_owned(), value);
    Value::Object(members.into_iter().map(owned).collect())
}
