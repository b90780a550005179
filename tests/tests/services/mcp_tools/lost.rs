//! Servers that end in the middle of a call, and calls that end in the middle of a server.

use super::{Stage, call, echo, entry, one_step};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use surety_common::wire::v1;
use surety_e2e::agent::{self, AGENT, Agent, next_plan};
use surety_e2e::harness::{PATIENCE, wait_until};
use surety_e2e::script::{Trail, plan, request};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_lost_and_may_have_happened_is_asked_of_a_person() -> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &[], "")).await?;
    let workspace = tempfile::tempdir()?;
    let run = stage.create(&[call("t__crash", json!({})), echo("after")], &workspace).await?;
    let question = stage.deployment.question(&run.id).await?;
    for said in
        ["t__crash", "its process ended with 3", "the disk is on strike", "may have happened"]
    {
        ensure!(question.question.contains(said), "{said}: {}", question.question);
    }
    ensure!(trail.marks("crash") == 1, "it was repeated without asking");
    stage.deployment.answer(&question.wait_id, "happened").await?;
    let run = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    ensure!(trail.marks("crash") == 1, "it was repeated");
    let receipts = stage.receipts(&run.id).await?;
    let echoed = receipts.iter().any(|receipt| receipt.name == "t__echo" && receipt.success);
    ensure!(echoed, "the server was started again: {receipts:#?}");
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_be_repeated_is_repeated_with_its_key_and_not_for_ever() -> Result<()> {
    let trail = Trail::new()?;
    let repeatable =
        "[mcp.t.tools.crash_once]\nidempotent = true\n[mcp.t.tools.crash]\nread_only = true";
    let stage = Stage::start(&entry(&trail, &[], repeatable)).await?;
    let receipt = stage.call("t__crash_once", json!({})).await?;
    ensure!(receipt.success, "{receipt:#?}");
    let keys = trail.keys("crash_once");
    ensure!(keys.len() == 2 && keys.first() == keys.last(), "{keys:?}");
    stage.fails("t__crash", json!({}), "mcp_lost", "its process ended with 3").await?;
    ensure!(trail.marks("crash") == 3, "{} attempts", trail.marks("crash"));
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_past_its_deadline_is_cancelled_and_its_process_ended() -> Result<()> {
    let trail = Trail::new()?;
    let own = "timeout_s = 8\n[mcp.t.tools.hang]\nidempotent = true";
    let stage = Stage::start(&entry(&trail, &[], own)).await?;
    stage.fails("t__hang", json!({}), "timeout", "MCP server t").await?;
    ensure!(trail.marks("hang") == 1 && trail.marks("cancelled") == 1, "the server was told");
    ensure!(stage.call("t__echo", json!({"text": "x"})).await?.success);
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_does_not_repeat_a_call_that_ended_at_its_deadline_and_may_have_happened()
-> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &[], "timeout_s = 2")).await?;
    let workspace = tempfile::tempdir()?;
    let order = one_step(&[call("t__hang", json!({}))], &workspace);
    let limits = v1::Limits { max_replans: Some(2), ..order.limits.unwrap_or_default() };
    let order = v1::CreateRunRequest { limits: Some(limits), ..order };
    let run = stage.deployment.create_run(order).await?;
    let question = stage.deployment.question(&run.id).await?;
    for said in ["t__hang", "the deadline passed", "may have happened"] {
        ensure!(question.question.contains(said), "{said}: {}", question.question);
    }
    ensure!(trail.marks("hang") == 1, "it was repeated without asking");
    stage.deployment.answer(&question.wait_id, "fail").await?;
    let run = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Failed && trail.marks("hang") == 1, "{run:#?}");
    stage.deployment.finish().await
}

/// Whether something goes on leaving marks.
async fn beats(trail: &Trail) -> Result<bool> {
    let before = trail.marks("beats");
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        if trail.marks("beats") > before {
            return Ok(true);
        }
        tokio::task::yield_now().await;
    }
    Ok(false)
}

async fn ensure_over(trail: &Trail, what: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while beats(trail).await? {
        ensure!(Instant::now() < until, "a process of a server outlives {what}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_server_outlives_its_run_a_drain_or_the_death_of_the_executor() -> Result<()>
{
    let trail = Trail::new()?;
    let quick = ("SURETY_DRAIN_TIMEOUT_MS", "2000");
    let servers = entry(&trail, &[], "timeout_s = 600\nresources = true");
    let mut stage = Stage::start_with(&servers, &[quick]).await?;
    let workspace = tempfile::tempdir()?;
    let run = stage.run(&[call("t__beat", json!({}))], &workspace).await?;
    ensure!(run.state() == v1::RunState::Done && trail.marks("beats") > 0, "{run:#?}");
    ensure!(!beats(&trail).await?, "a process was alive when the run was verified");

    for death in ["drain", "kill"] {
        let before = trail.marks("hang");
        let calls = [call("t__beat", json!({})), call("t__hang", json!({}))];
        let run = stage.create(&calls, &workspace).await?;
        wait_until("the call hangs", || trail.marks("hang") > before).await?;
        ensure!(beats(&trail).await?, "the server works while the run does");
        let executor = stage.deployment.first_executor()?;
        if death == "kill" {
            executor.kill().await?;
        } else {
            executor.stop().await?;
        }
        ensure_over(&trail, death).await?;
        stage.deployment.executors.clear();
        let request = v1::CancelRunRequest { run_id: run.id.clone(), ..Default::default() };
        stage.deployment.runs()?.cancel_run(request).await?;
        let file = stage._file.path().display().to_string();
        stage.deployment.add_executor(&[(super::SETTING, &file), quick]).await?;
        stage.deployment.wait_for_end(&run.id).await?;
    }
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_only_read_stays_while_its_run_waits_for_an_agent() -> Result<()> {
    let trail = Trail::new()?;
    for (more, second) in [("workspace = \"read\"", "asked 2 times"), ("", "asked 1 times")] {
        let stage = Stage::start(&entry(&trail, &[], more)).await?;
        let workspace = tempfile::tempdir()?;
        let driver = v1::Driver::Remote.into();
        let steps = [json!({"id": "s", "description": "x", "evidence": "none"})];
        let order = request(&plan(&steps), &workspace.path().to_string_lossy());
        let order = v1::CreateRunRequest { driver, ..order };
        let run_id = stage.deployment.create_run(order).await?.id;
        let executor = stage.deployment.executors.first().context("an executor")?;
        let agent = Agent::new(executor, AGENT, "w")?;
        let mut work = agent.work(&run_id).await?;
        for (tool, expected) in [("count", "asked 1 times"), ("count", second), ("beat", "")] {
            let decision = agent::call(&format!("t__{tool}"), json!({})).to_string();
            let answer = agent.submit(&work, &decision).await?;
            ensure!(answer.observation.contains(expected), "{more}, {expected}: {answer:#?}");
            work.context = answer.next.context("a next turn")?;
        }
        agent.submit(&work, &next_plan().to_string()).await?;
        let run = stage.deployment.wait_for_end(&run_id).await?;
        ensure!(run.state() == v1::RunState::Done, "{run:#?}");
        ensure_over(&trail, "its run").await?;
        stage.deployment.finish().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_executor_died_is_asked_about_and_not_repeated() -> Result<()> {
    let trail = Trail::new()?;
    let stage_entry = entry(&trail, &[], "timeout_s = 600");
    let quick = [("SURETY_EXECUTOR_HEARTBEAT_AGE_LIMIT_MS", "2000")];
    let mut stage = Stage::start_with(&stage_entry, &quick).await?;
    let workspace = tempfile::tempdir()?;
    let run =
        stage.deployment.create_run(one_step(&[call("t__hang", json!({}))], &workspace)).await?;
    wait_until("the call hangs", || trail.marks("hang") > 0).await?;
    stage.deployment.first_executor()?.kill().await?;
    let file = stage._file.path().display().to_string();
    let again = [(super::SETTING, file.as_str()), quick.first().copied().context("a limit")?];
    stage.deployment.add_executor(&again).await?;
    let question = stage.deployment.question(&run.id).await?;
    ensure!(question.question.contains("t__hang"), "{question:#?}");
    ensure!(trail.marks("hang") == 1, "it was repeated");
    stage.deployment.answer(&question.wait_id, "fail").await?;
    let run = stage.deployment.wait_for_end(&run.id).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    stage.deployment.finish().await
}
