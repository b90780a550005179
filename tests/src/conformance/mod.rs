//! The conformance rows: inputs with their exact outcomes, one JSON object a line.
//!
//! ```text
//!   row --> stateless: the rule itself, or three live services --> the same values --> compare
//! ```
//!
//! Rows lie in `tests/conformance/`, and in the folder that `SURETY_CONFORMANCE_DIR` names. Each
//! module compares the rows of one subject; `report` counts.

mod context;
pub mod decision;
pub mod gate;
pub mod movement;
pub mod plan;
mod replies;
pub mod report;
pub mod runtime;
pub mod stateless;
pub mod toolchain;
mod verification;

use std::path::{Path, PathBuf};
use surety_common::domain::json::{self, Value};

/// The levels of a row, which may contain several messages of the deepest kind.
const ROW_DEPTH: usize = 1024;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name inside its file.
    pub id: String,
    /// The whole row.
    pub value: Value,
}

/// The rows of a file name, from every folder that has it.
///
/// # Errors
/// A message naming the file and line that cannot be read.
pub fn rows(file: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for folder in folders() {
        let path = folder.join(file);
        if path.exists() {
            rows.extend(rows_of(&path)?);
        }
    }
    Ok(rows)
}

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let other = std::env::var_os("SURETY_CONFORMANCE_DIR").map(PathBuf::from);
    std::iter::once(own).chain(other).collect()
}

fn rows_of(path: &Path) -> Result<Vec<Row>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let lines = text.split('\n').zip(1..).filter(|(line, _)| !line.trim().is_empty());
    Ok(lines.map(|(line, number)| row_of(line, &format!("{shown}:{number}"))).collect())
}

/// A line that cannot be read is a row that fails, so that it hides no other.
fn row_of(line: &str, place: &str) -> Row {
    match json::parse_within(line, ROW_DEPTH) {
        Ok(parsed) => Row { id: text_of(&parsed.value, "id").to_owned(), value: parsed.value },
        Err(error) => {
            let case = ("case".to_owned(), Value::String(error.to_string()));
            Row { id: place.to_owned(), value: Value::Object(vec![case]) }
        }
    }
}

/// The text under a key; empty when there is none.
pub fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Says how two values differ. The order of keys counts for nothing, every digit for something.
///
/// # Errors
/// Both values, when they differ.
pub fn compare(what: &str, expected: &Value, found: &Value) -> Result<(), String> {
    let (expected, found) = (sorted(expected), sorted(found));
    if expected == found {
        return Ok(());
    }
    Err(format!("{what}: expected {}, found {}", expected.to_compact(), found.to_compact()))
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> =
                members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Object(members)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
