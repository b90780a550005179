//! An evidence file for the gate: converts it to a request.

use surety_common::domain::json::Value;
use surety_common::domain::problem::Warning;
use surety_common::domain::todo::{Progress, read_todos};
use surety_common::wire::v1;
use surety_common::wire::v1::evaluate_request::ChecksSource;
use surety_common::wire::v1::receipt_input::ReceiptSource;

use crate::failure::{Code, Failure};
use crate::plan_file::{read_value, unknown_key};

/// The keys of the file, which are those of the request.
pub const CASE_KEYS: [&str; 6] =
    ["workspace_root", "checks", "checks_json", "receipts", "final_text", "todos"];

/// A request to evaluate, as the file has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EvidenceFile {
    /// The request.
    pub request: v1::EvaluateRequest,
    /// The reader's corrections of the todos.
    pub warnings: Vec<Warning>,
}

/// Reads an evidence file.
///
/// # Errors
/// It is neither YAML nor JSON, has an unknown key, or an invalid value.
pub fn read_evidence_file(text: &str) -> Result<EvidenceFile, Failure> {
    let value = read_value(text)?;
    let Value::Object(members) = &value else {
        return Err(wanted("an evidence file", "keys and values", &value));
    };
    let mut evidence = EvidenceFile::default();
    for (key, value) in members {
        if !value.is_null() || key == "checks" {
            take(&mut evidence, key, value)?;
        }
    }
    Ok(evidence)
}

fn take(evidence: &mut EvidenceFile, key: &str, value: &Value) -> Result<(), Failure> {
    let request = &mut evidence.request;
    match key {
        "workspace_root" => request.workspace_root = text(key, value)?,
        "final_text" => request.final_text = text(key, value)?,
        "checks" => request.checks_source = Some(ChecksSource::ChecksJson(value.to_compact())),
        "checks_json" => request.checks_source = Some(ChecksSource::ChecksJson(text(key, value)?)),
        "receipts" => request.receipts = list(key, value)?.iter().map(receipt).collect(),
        "todos" => {
            let todos = list(key, value)?;
            let todos = read_todos(todos, key, Progress::Kept, &mut evidence.warnings)?;
            request.todos = todos.into_iter().map(Into::into).collect();
        }
        _ => return Err(unknown_key("", key, &CASE_KEYS)),
    }
    Ok(())
}

/// A receipt with the contract's field names, or its text under `receipt_json`.
fn receipt(value: &Value) -> v1::ReceiptInput {
    let written = value.get("receipt_json").and_then(Value::as_str).map(str::to_owned);
    let text = written.unwrap_or_else(|| value.to_compact());
    v1::ReceiptInput { receipt_source: Some(ReceiptSource::ReceiptJson(text)) }
}

fn text(key: &str, value: &Value) -> Result<String, Failure> {
    value.as_str().map(str::to_owned).ok_or_else(|| wanted(key, "a text", value))
}

fn list<'a>(key: &str, value: &'a Value) -> Result<&'a [Value], Failure> {
    value.as_array().ok_or_else(|| wanted(key, "a list", value))
}

fn wanted(key: &str, expected: &str, value: &Value) -> Failure {
    let message = format!("`{key}`: expected {expected}, found {}", value.kind());
    Failure::new(Code::ValueInvalid, message, "docs/cli.md has an example of an evidence file.")
        .at(key)
}
