//! `surety run --goal` at a terminal: a key answers what the model asks to have confirmed, and the run goes on.

use super::live::Terminal;
use crate::model::stage::{Stage, is_planning, next_plan, one_step, say};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::model_server::Reply;
use tempfile::NamedTempFile;

/// A reply that asks a person to confirm the write that the check looks for.
fn confirm() -> Reply {
    let arguments = json!({"path": "answer.txt", "content": "42\n"});
    let call = json!({"name": "write_file", "arguments": arguments});
    say(&json!({"action": "confirm", "speak": "May I write the answer?", "tool_call": call}))
}

/// Starts a goal on a terminal, and waits until the call is shown with its keys. The file of the token has to stay.
async fn asked(stage: &Stage, goal: &str, workspace: &str) -> Result<(Terminal, NamedTempFile)> {
    let check = "sh -c 'grep -qx 42 answer.txt'";
    let arguments = ["run", "--goal", goal, "--workspace", workspace, "--verify", check];
    let (command, token) = stage.deployment.surety(&arguments)?;
    let terminal = Terminal::start(command)?;
    for part in [goal, "write_file {", "\"answer.txt\"", "[a] approve", "[d] deny"] {
        terminal.shows(part).await?;
    }
    Ok((terminal, token))
}

/// The run of a goal.
async fn run_of(stage: &Stage, goal: &str) -> Result<v1::Run> {
    let list = v1::ListRunsRequest::default();
    let runs = stage.deployment.runs()?.list_runs(list).await?.into_inner().runs;
    runs.into_iter().find(|run| run.goal == goal).context("a run with this goal")
}

#[tokio::test]
async fn a_key_approves_what_the_model_asks_and_the_run_goes_on_to_its_verdict() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("Write the approved answer", |number, asked| match number {
        _ if is_planning(asked) => say(&one_step()),
        1 => confirm(),
        _ => {
            assert!(asked.last().contains("write_file succeeded"), "{}", asked.last());
            next_plan()
        }
    });
    let workspace = folder.path().to_string_lossy().into_owned();
    let (mut terminal, _token) = asked(&stage, "Write the approved answer", &workspace).await?;
    ensure!(!folder.path().join("answer.txt").exists(), "it was written before the approval");
    terminal.press("a")?;
    let status = terminal.end().await?;
    ensure!(status.code() == Some(0), "{status}: {}", terminal.text());
    terminal.shows("accepted").await?;
    ensure!(std::fs::read_to_string(folder.path().join("answer.txt"))? == "42\n");
    let run = run_of(&stage, "Write the approved answer").await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test]
async fn a_key_denies_what_the_model_asks_and_the_model_learns_of_it() -> Result<()> {
    let stage = Stage::start().await?;
    let folder = tempfile::tempdir()?;
    stage.plays.add("Write the denied answer", |number, asked| match number {
        _ if is_planning(asked) => say(&one_step()),
        1 => confirm(),
        _ => {
            assert!(asked.last().contains("denied the call of write_file"), "{}", asked.last());
            let abort = json!({"user_message": "The person does not want the file."});
            say(&json!({"action": "abort", "abort": abort}))
        }
    });
    let workspace = folder.path().to_string_lossy().into_owned();
    let (mut terminal, _token) = asked(&stage, "Write the denied answer", &workspace).await?;
    terminal.press("d")?;
    let status = terminal.end().await?;
    ensure!(status.code() == Some(2), "{status}: {}", terminal.text());
    terminal.shows("The person does not want the file.").await?;
    ensure!(!folder.path().join("answer.txt").exists(), "a denied call was made");
    let run = run_of(&stage, "Write the denied answer").await?;
    let reason = run.terminal.as_ref().map(v1::Terminal::stop_reason);
    ensure!(reason == Some(v1::StopReason::Aborted), "{run:#?}");
    stage.deployment.finish().await
}
