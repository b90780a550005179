//! Rows for the gate: whole evaluations (`gate.jsonl`) and single receipts (`receipt.jsonl`).

use super::stateless::{GateCase, StatelessClient};
use super::{Row, compare, text_of};
use chrono::{DateTime, SecondsFormat};
use surety_common::domain::json::{self, Value};
use surety_common::domain::problem::Problem;
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource, Fact, read_fact};
use surety_common::domain::todo::{Todo, TodoStatus};
use surety_common::domain::verdict::{CheckResult, Verdict};

/// The compared parts of a verdict; other members of a row are notes.
const VERDICT_KEYS: [&str; 4] = ["ok", "accepted", "stop_reason", "results"];

/// Checks one row of `gate.jsonl`.
///
/// # Errors
/// What came back and what the row expects.
pub async fn check_evaluation(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let expected = member(&row.value, "expect")?;
    match stateless.evaluate(case(&row.value)?).await? {
        Ok(verdict) => {
            compare("the verdict", &stated(expected, &VERDICT_KEYS), &outcome_of(&verdict))
        }
        Err(problem) => compare_refusal(expected, &problem),
    }
}

/// Checks one row of `receipt.jsonl`. Default members may be present or omitted.
///
/// # Errors
/// The result and the expected one.
pub async fn check_receipt(row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    let expected = member(&row.value, "expect")?;
    match stateless.receipt(member(&row.value, "receipt")?).await? {
        Ok(receipt) => {
            let written = json::parse(&receipt.to_text()).map_err(|error| error.to_string())?;
            let found = object([("ok", Value::Bool(true)), ("receipt", written.value)]);
            compare("the receipt", &normal_times(&filled(expected)), &normal_times(&filled(&found)))
        }
        Err(problem) => compare_refusal(expected, &problem),
    }
}

/// The members of an expectation that are compared.
fn stated(expected: &Value, keys: &[&str]) -> Value {
    let members = expected.as_object().unwrap_or_default().iter();
    Value::Object(members.filter(|(key, _)| keys.contains(&key.as_str())).cloned().collect())
}

fn compare_refusal(expected: &Value, problem: &Problem) -> Result<(), String> {
    let field = problem.field.as_deref().unwrap_or_default();
    let refused = expected.get("ok").and_then(Value::as_bool) == Some(false);
    let code = text_of(expected, "error");
    if refused
        && problem.code.as_str().eq_ignore_ascii_case(code)
        && field.ends_with(text_of(expected, "field"))
    {
        return Ok(());
    }
    Err(format!("expected {}, refused: {problem}", expected.to_compact()))
}

fn case(row: &Value) -> Result<GateCase, String> {
    Ok(GateCase {
        workspace_root: text_of(row, "workspace_root").to_owned(),
        checks: row.get("checks").cloned().unwrap_or(Value::Null),
        receipts: receipts(row)?,
        final_text: text_of(row, "final_text").to_owned(),
        todos: todos(row)?,
    })
}

/// The receipts of a row: one fact each, of a success, with a call of its own unless it is named.
fn receipts(row: &Value) -> Result<Vec<EvidenceReceipt>, String> {
    let facts = list(row, "receipts")?;
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

/// A receipt of a success of the runner with one fact.
pub(super) fn receipt_of(fact: Fact, call_id: &str, seq: u64) -> EvidenceReceipt {
    EvidenceReceipt {
        step_index: 0,
        step_id: String::new(),
        plan_revision: 1,
        seq,
        call_id: call_id.to_owned(),
        probe_of: None,
        source: EvidenceSource::ToolObservation,
        name: String::new(),
        arguments_digest: String::new(),
        success: true,
        summary: String::new(),
        facts: vec![fact],
        output_digest: String::new(),
        sandbox: String::new(),
        started_at: None,
        finished_at: None,
        prev_digest: String::new(),
        digest: String::new(),
    }
}

fn todos(row: &Value) -> Result<Vec<Todo>, String> {
    list(row, "todos")?
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

fn outcome_of(verdict: &Verdict) -> Value {
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

/// The value without default members, which rows may omit.
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

/// The receipt with its times in their normal form: a row may spell an instant in another way.
fn normal_times(value: &Value) -> Value {
    let members = value.as_object().unwrap_or_default().iter().map(|(key, value)| {
        let instant =
            value.as_str().and_then(|text| DateTime::parse_from_rfc3339(text.trim()).ok());
        let value = match (key.as_str(), instant) {
            ("started_at" | "finished_at", Some(at)) => {
                string(&at.to_utc().to_rfc3339_opts(SecondsFormat::Micros, true))
            }
            ("receipt", _) => normal_times(value),
            _ => value.clone(),
        };
        (key.clone(), value)
    });
    Value::Object(members.collect())
}

/// The items under a key; none where the row does not have it.
fn list<'v>(row: &'v Value, key: &str) -> Result<&'v [Value], String> {
    match row.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(value) => value.as_array().ok_or_else(|| format!("{key} is no list")),
    }
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
