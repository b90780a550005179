//! Runs every row of every file and reports the results.

use super::runtime::Checked;
use super::stateless::StatelessClient;
use super::{Row, decision, gate, plan, rows, runtime, text_of, toolchain};
use std::collections::BTreeMap;
use std::fmt;

/// The files whose rows a stateless service answers, in the order of the report.
pub const ASKED: [&str; 7] = [
    "decision.jsonl",
    "control.jsonl",
    "plan.jsonl",
    "patch.jsonl",
    "checks.jsonl",
    "receipt.jsonl",
    "gate.jsonl",
];
/// Rows about what happens inside a run: they have no call of their own.
pub const RUNTIME: &str = "runtime.jsonl";
/// Rows about events from a forge and their tasks.
pub const TOOLCHAIN: &str = "toolchain.jsonl";

/// The results of the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of rows that pass with every client.
    pub passed: usize,
    /// One line for each failing row, with its result.
    pub failed: Vec<String>,
    /// How many rows each file has.
    pub counts: BTreeMap<&'static str, usize>,
}

impl Report {
    fn count(&mut self, file: &'static str, row: &Row, checked: Checked) {
        *self.counts.entry(file).or_default() += 1;
        match checked {
            Checked::Holds => self.passed += 1,
            Checked::Fails(message) => {
                let case = text_of(&row.value, "case");
                self.failed.push(format!("{file} {} {case}: {message}", row.id));
            }
        }
    }
}

impl fmt::Display for Report {
    /// The failing rows, and the closing line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.failed {
            writeln!(f, "FAILED {line}")?;
        }
        write!(f, "conformance: {} passed, {} failed", self.passed, self.failed.len())
    }
}

/// Runs every row with every stateless client. A row passes when it passes with all of them.
///
/// # Errors
/// A file cannot be read, or one of the project's own has no rows.
pub async fn ask_all(clients: &[StatelessClient<'_>]) -> Result<Report, String> {
    let mut report = Report::default();
    for file in ASKED {
        for row in some_rows(file)? {
            let mut checked = Checked::Holds;
            for client in clients {
                if let Err(message) = check(file, &row, *client).await {
                    checked = Checked::Fails(format!("({}) {message}", client.name()));
                    break;
                }
            }
            report.count(file, &row, checked);
        }
    }
    for row in some_rows(RUNTIME)? {
        report.count(RUNTIME, &row, runtime::check(&row));
    }
    let services = clients.iter().find_map(|client| match client {
        StatelessClient::Live(services) => Some(*services),
        StatelessClient::InProcess => None,
    });
    let live = toolchain::Live::default();
    for row in some_rows(TOOLCHAIN)? {
        let checked = toolchain::check(&row, services, &live).await;
        report.count(TOOLCHAIN, &row, checked);
    }
    if let Err(error) = live.finish().await {
        report.failed.push(format!("{TOOLCHAIN}: the runs of its rows: {error:#}"));
    }
    Ok(report)
}

fn some_rows(file: &str) -> Result<Vec<Row>, String> {
    let rows = rows(file)?;
    if rows.is_empty() { Err(format!("{file} has no rows")) } else { Ok(rows) }
}

async fn check(file: &str, row: &Row, stateless: StatelessClient<'_>) -> Result<(), String> {
    match file {
        "decision.jsonl" => decision::check_decision(row, stateless).await,
        "control.jsonl" => decision::check_control(row, stateless).await,
        "plan.jsonl" => plan::check_plan(row, stateless).await,
        "patch.jsonl" => plan::check_patch(row, stateless).await,
        "checks.jsonl" => plan::check_checks(row, stateless).await,
        "receipt.jsonl" => gate::check_receipt(row, stateless).await,
        "gate.jsonl" => gate::check_evaluation(row, stateless).await,
        _ => Err(format!("no rule is known for {file}")),
    }
}
