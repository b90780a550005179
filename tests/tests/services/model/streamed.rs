//! `surety run --goal --json`: a script reads one event a line, the end of the run last, and the verdict in the exit code.

use crate::model::stage::{Stage, is_planning, next_plan, one_step, say, write_answer};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surety_common::wire::v1;
use surety_e2e::harness::PATIENCE;
use surety_e2e::model_server::{Recorded, Reply};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// What a script reads of a run.
struct Read {
    lines: Vec<Value>,
    status: ExitStatus,
}

/// Runs a goal to its end. `seen` is called with each line as it arrives.
async fn run(stage: &Stage, goal: &str, seen: impl Fn(&Value)) -> Result<Read> {
    let folder = tempfile::tempdir()?;
    let workspace = folder.path().to_string_lossy().into_owned();
    let (command, _token) = stage.deployment.surety(&[
        "run",
        "--json",
        "--goal",
        goal,
        "--workspace",
        &workspace,
        "--verify",
        "sh -c 'grep -qx 42 answer.txt'",
    ])?;
    let mut child = Command::from(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("an output")?).lines();
    let mut lines = Vec::new();
    while let Some(line) = timeout(PATIENCE, output.next_line()).await.context("a line")?? {
        let value = serde_json::from_str(&line).with_context(|| line.clone())?;
        seen(&value);
        lines.push(value);
    }
    let status = timeout(PATIENCE, child.wait()).await.context("the end")??;
    Ok(Read { lines, status })
}

/// The events between the first line and the last, whose sequence numbers have no gap.
fn events(read: &Read) -> Result<(&[Value], &Value)> {
    let [first, events @ .., last] = read.lines.as_slice() else {
        anyhow::bail!("too few lines: {:#?}", read.lines)
    };
    ensure!(first["existed"] == false && first["warnings"] == json!([]), "{first:#}");
    ensure!(first["run_id"] == last["run"]["id"], "{first:#} {last:#}");
    for (place, event) in events.iter().enumerate() {
        let sequence = event["sequence"].as_u64().with_context(|| format!("{event:#}"))?;
        ensure!(usize::try_from(sequence)? == place + 1, "an event is missing: {event:#}");
    }
    Ok((events, last))
}

#[tokio::test]
async fn a_script_reads_an_event_a_line_while_the_run_goes_on_and_its_end_last() -> Result<()> {
    let stage = Stage::start().await?;
    let is_planned = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_planned);
    // The first step begins once the script has read of the plan: an output that is held back never gets there.
    stage.plays.add("streamed", move |_, asked| match (is_planning(asked), asked.messages.len()) {
        (true, _) => say(&one_step()),
        (false, _) if !told.load(Ordering::SeqCst) => Reply::status(503),
        (false, 1) => write_answer(),
        (false, _) => next_plan(),
    });
    let read = run(&stage, "streamed", |line| {
        if !line["plan_stored"].is_null() {
            is_planned.store(true, Ordering::SeqCst);
        }
    })
    .await?;
    ensure!(read.status.code() == Some(0), "{}", read.status);
    let (events, last) = events(&read)?;
    ensure!(last["run"]["state"] == "DONE", "{last:#}");
    ensure!(last["run"]["terminal"]["stop_reason"] == "accepted", "{last:#}");
    for kind in ["plan_stored", "transition", "turn", "intent", "receipt", "verdict"] {
        let found = events.iter().filter(|event| !event[kind].is_null()).count();
        ensure!(found > 0, "no event of the kind {kind}: {events:#?}");
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn the_exit_code_of_a_goal_says_its_verdict() -> Result<()> {
    let stage = Stage::start().await?;
    // A model that lies at each repair.
    stage.plays.add("refused", |_, asked| match is_planning(asked) {
        true => say(&json!({"title": "t", "steps": [
            {"id": "s", "description": "say that it is done", "evidence": "none"}]})),
        false => next_plan(),
    });
    stage.plays.add("asks", |_, asked| match is_planning(asked) {
        true => say(&one_step()),
        false => say(&json!({"action": "ask_user", "speak": "Which number?"})),
    });
    stage.plays.add("aborts", |_, asked| match is_planning(asked) {
        true => say(&one_step()),
        false => say(&json!({"action": "abort", "abort": {"user_message": "It cannot be done."}})),
    });
    for (goal, code, state, reason) in [
        ("refused", 2, "FAILED", "accept_check_failed"),
        ("aborts", 2, "FAILED", "aborted"),
        ("asks", 4, "BLOCKED", ""),
    ] {
        let read = run(&stage, goal, |_| {}).await?;
        ensure!(read.status.code() == Some(code), "{goal}: {}", read.status);
        let (_, last) = events(&read)?;
        let run = &last["run"];
        ensure!(run["state"] == state, "{goal}: {last:#}");
        let ended = run["terminal"]["stop_reason"].as_str().unwrap_or_default();
        ensure!(ended == reason, "{goal}: {last:#}");
        if goal == "asks" {
            ensure!(run["blocked"]["question"] == "Which number?", "{last:#}");
        }
    }
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_goal_that_is_cancelled_while_it_is_read_ends_with_its_own_code() -> Result<()> {
    let stage = Stage::start().await?;
    stage.plays.add("cancelled", |_, asked| match is_planning(asked) {
        true => say(&one_step()),
        false => next_plan().head_after(Duration::from_secs(600)),
    });
    let reading = run(&stage, "cancelled", |_| {});
    let cancelling = async {
        let asks = |request: &&Recorded| request.line.starts_with("POST");
        stage.server.wait_until(|all| all.iter().filter(asks).count() > 1).await?;
        let list = v1::ListRunsRequest::default();
        let runs = stage.deployment.runs()?.list_runs(list).await?.into_inner().runs;
        let run = runs.first().context("a run")?;
        stage.deployment.command_line(&["cancel", &run.id]).await
    };
    let (read, cancelled) = tokio::join!(reading, cancelling);
    cancelled?;
    let read = read?;
    ensure!(read.status.code() == Some(3), "{}", read.status);
    let (_, last) = events(&read)?;
    ensure!(last["run"]["state"] == "CANCELLED", "{last:#}");
    stage.deployment.finish().await
}
