//! The one table.

use crate::machine;
use serde_json::{Map, Value, json};
use std::fmt;

/// Everything that was measured, and on what.
pub(crate) struct Report {
    machine: String,
    rows: Vec<Row>,
    notes: Vec<String>,
    /// By the names that every compared engine uses.
    compared: Map<String, Value>,
}

/// One figure.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) figure: String,
    /// The value that it is compared with.
    pub(crate) beside: String,
    /// Cores that other processes on the machine used in the meantime.
    pub(crate) foreign: Option<f64>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, figure: impl Into<String>) -> Self {
        Self { what: what.into(), figure: figure.into(), beside: String::new(), foreign: None }
    }

    pub(crate) fn beside(self, beside: impl Into<String>) -> Self {
        Self { beside: beside.into(), ..self }
    }

    pub(crate) fn foreign(self, cores: f64) -> Self {
        Self { foreign: Some(cores), ..self }
    }
}

impl Report {
    pub(crate) fn new(machine: String) -> Self {
        let compared = Map::from_iter([
            ("peer".to_owned(), json!("Surety")),
            ("version".to_owned(), json!(machine::version())),
        ]);
        Self { machine, rows: Vec::new(), notes: Vec::new(), compared }
    }

    /// Adds a figure and prints it at once, so that an interrupted benchmark has printed its
    /// figures.
    pub(crate) fn add(&mut self, row: Row) {
        eprintln!("  {}", row);
        self.rows.push(row);
    }

    /// Adds a text that is shown under the table.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Keeps a figure that other engines are compared by; one that is no number becomes null.
    pub(crate) fn compare(&mut self, name: &str, figure: f64) {
        self.compared.insert(name.to_owned(), json!(figure));
    }

    /// The compared figures, in one line.
    pub(crate) fn json(&self) -> Value {
        Value::Object(self.compared.clone())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let foreign = self.foreign.map(|cores| format!("{cores:.2}")).unwrap_or_default();
        write!(f, "| {} | {} | {} | {foreign} |", self.what, self.figure, self.beside)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}\n", self.machine)?;
        writeln!(f, "| what | figure | beside | foreign cores |")?;
        writeln!(f, "|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}
