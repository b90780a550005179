//! Clients in other languages, from code generated from the protos, over every conformance row
//! against live services.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::Path;
use surety_e2e::harness::{Deployment, TOKEN};
use tokio::process::Command;

/// What the script ends with where the language is not installed.
const ABSENT: i32 = 77;

async fn run_client(language: &str) -> Result<()> {
    let deployment = Deployment::start().await?;
    let executor = deployment.executors.first().context("no executor runs")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ran = Command::new(root.join("scripts/clients.sh"))
        .arg(language)
        .env("SURETY_PLANNER", deployment.planner.address())
        .env("SURETY_EXECUTOR", executor.address())
        .env("SURETY_GATE", deployment.gate.address())
        .env("SURETY_TOKEN", TOKEN)
        .output()
        .await?;
    deployment.database.drop().await?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().last().unwrap_or_default();
    // Past the test's own capture: a client that is skipped must be seen to be.
    writeln!(std::io::stderr(), "{language} client: {last}")?;
    let skipped = ran.status.code() == Some(ABSENT);
    ensure!(ran.status.success() || skipped, "{language}:\n{said}\n{errors}");
    Ok(())
}

#[tokio::test]
async fn a_python_client_meets_every_outcome() -> Result<()> {
    run_client("python").await
}

#[tokio::test]
async fn a_node_client_meets_every_outcome() -> Result<()> {
    run_client("node").await
}
