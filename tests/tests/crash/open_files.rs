//! A machine that lets an executor have no more files open.

use super::skip;
use anyhow::{Result, ensure};
use futures::future::try_join_all;
use serde_json::json;
use std::process::Command;
use surety_common::wire::v1;
use surety_e2e::audit::audit_at_rest;
use surety_e2e::harness::{Database, Deployment, Process, wait_until};
use surety_e2e::script::{self, Trail, plan, shell, step};

/// Runs side by side, each with a command.
const RUNS: usize = 24;
/// Files that the executor may open beside those it has: for a third of the commands.
const LEFT: usize = RUNS;

/// Lets a process open [`LEFT`] more files than it has, and no more when it asks.
///
/// # Errors
/// Why this machine cannot do that.
fn run_short(process: &Process) -> Result<()> {
    let pid = process.pid()?;
    let most = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() + LEFT;
    let limit = format!("--nofile={most}:{most}");
    let output = Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).output()?;
    ensure!(output.status.success(), "prlimit: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[tokio::test]
async fn commands_that_find_no_open_file_left_are_started_once_others_end() -> Result<()> {
    let trail = Trail::new()?;
    let mut deployment = Deployment::start_idle(Database::create().await?, &[]).await?;
    deployment.add_executor(&[]).await?;
    let first = deployment.create(&plan(&[step("only", &[], &[shell("true")])]), "").await?;
    deployment.wait_for_end(&first.id).await?;
    if let Err(why) = run_short(deployment.first_executor()?) {
        skip("an executor without open files", &format!("{why:#}"));
        return deployment.finish().await;
    }

    let line = format!("{}; echo done > out.txt", trail.mark_and_wait("began"));
    let mut begins = plan(&[step("only", &[], &[shell(&line)])]);
    // Observed while others still wait: a file that could not be read is not reported as missing.
    begins["verify"] = json!([
        {"kind": "file_exists", "target": "out.txt"},
        {"kind": "command_success", "target": "grep -q done out.txt"},
    ]);
    let making = (0..RUNS).map(|_| deployment.create_run(script::request(&begins, "")));
    let runs = try_join_all(making).await?;
    let waits = |line: &str| line.contains("waiting for the machine");
    deployment.first_executor()?.wait_for_line(waits).await?;
    wait_until("a command began", || trail.marks("began") > 0).await?;
    trail.let_go()?;
    for run in &runs {
        let run = deployment.wait_for_end(&run.id).await?;
        assert_eq!(run.state(), v1::RunState::Done, "{run:#?}");
    }
    assert_eq!(trail.marks("began"), RUNS, "each began once");
    audit_at_rest(&deployment.database.pool().await?).await?;
    deployment.finish().await
}
