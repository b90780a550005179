//! The conformance rows, each asked in process and over gRPC of a live deployment.
//!
//! Without libtest around it, so that what it prints ends with its closing line.

use anyhow::{Result, ensure};
use std::process::ExitCode;
use surety_e2e::conformance::report::{Report, ask_all};
use surety_e2e::conformance::stateless::StatelessClient;
use surety_e2e::harness::Deployment;

/// The one test that this program is.
const NAME: &str = "every_row_holds_in_process_and_over_grpc";

/// What the project's own rows amount to at least, so that none is lost unseen.
const LEAST_ROWS: [(&str, usize); 9] = [
    ("decision.jsonl", 140),
    ("control.jsonl", 43),
    ("plan.jsonl", 91),
    ("patch.jsonl", 84),
    ("checks.jsonl", 115),
    ("receipt.jsonl", 20),
    ("gate.jsonl", 209),
    ("runtime.jsonl", 92),
    ("toolchain.jsonl", 58),
];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let filters = || arguments.iter().filter(|argument| !argument.starts_with('-'));
    let wanted = filters().count() == 0 || filters().any(|filter| NAME.contains(filter.as_str()));
    // Test runners list the tests of a program before they run them; none here is ignored.
    if flag("--list") {
        if !flag("--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    if !wanted || flag("--ignored") {
        return ExitCode::SUCCESS;
    }
    match ask().await {
        Ok(report) => {
            println!("{report}");
            if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn ask() -> Result<Report> {
    let deployment = Deployment::start().await?;
    let clients = [StatelessClient::InProcess, StatelessClient::Live(&deployment)];
    let report = ask_all(&clients).await.map_err(anyhow::Error::msg)?;
    deployment.database.drop().await?;
    for (file, least) in LEAST_ROWS {
        let found = report.counts.get(file).copied().unwrap_or_default();
        ensure!(found >= least, "{file} has {found} rows, expected {least}");
    }
    Ok(report)
}
