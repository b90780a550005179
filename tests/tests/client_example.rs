//! `examples/client.py` against live services, with the Python code that is generated from the protos.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{Database, Deployment, TOKEN};
use tokio::process::Command;

/// The exit code of scripts/stubs.sh when Python or its generator is not available.
const ABSENT: i32 = 77;

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Generates the Python code. None when Python or its generator is not available.
async fn generated() -> Result<Option<PathBuf>> {
    let ran = Command::new(root().join("scripts/stubs.sh")).arg("python").output().await?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let last = said.lines().last().unwrap_or_default();
    if ran.status.code() == Some(ABSENT) {
        let reason = format!("examples/client.py: {}", last.trim_start_matches("skipped: "));
        writeln!(std::io::stderr(), "skipped: {reason}")?;
        if let Some(file) = std::env::var_os("SURETY_TEST_SKIPS") {
            let mut skips = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
            writeln!(skips, "{reason}")?;
        }
        return Ok(None);
    }
    ensure!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    Ok(Some(target.join("stubs/python")))
}

#[tokio::test]
async fn the_python_example_creates_a_run_over_tls_and_reads_a_whole_output() -> Result<()> {
    let Some(stubs) = generated().await? else { return Ok(()) };
    let mut token = tempfile::NamedTempFile::new()?;
    writeln!(token, "{TOKEN}")?;
    let ours = Authority::new()?;
    ours.issue("port", "127.0.0.1", VALID)?;
    let environment = ours.environment("port")?;
    let environment: Vec<_> = environment.iter().map(|(name, value)| (*name, &**value)).collect();
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    let gate_url = format!("https://{}", deployment.gate.address());
    deployment.add_executor(&[("SURETY_GATE_URL", &gate_url)]).await?;
    let ran = Command::new(stubs.join("venv/bin/python"))
        .arg(root().join("examples/client.py"))
        .arg(stubs.join("generated"))
        .arg(deployment.planner.address())
        .arg(token.path())
        .arg(ours.path("ca.pem"))
        .output()
        .await?;
    let said = String::from_utf8(ran.stdout).context("text")?;
    let last = said.lines().last().unwrap_or_default();
    let errors = String::from_utf8_lossy(&ran.stderr);
    ensure!(last.starts_with("RUN_STATE_DONE: "), "{said}\n{errors}");
    // `seq 100000` writes 588,895 bytes.
    ensure!(last.ends_with(" receipts, 588895 bytes of output"), "{last}");
    deployment.finish().await
}
