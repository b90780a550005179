//! Lists of tools that change, and versions of the protocol.

use super::{Stage, call, echo, entry};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::time::Instant;
use surety_common::wire::v1;
use surety_e2e::harness::PATIENCE;
use surety_e2e::script::Trail;

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_whose_description_changed_is_not_called_before_it_was_shown_again() -> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &[], "")).await?;
    let workspace = tempfile::tempdir()?;
    let run = stage.run(&[call("t__change", json!({})), echo("x")], &workspace).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    let receipts = stage.receipts(&run.id).await?;
    let refused = receipts.iter().find(|receipt| receipt.name == "t__echo").context("a receipt")?;
    ensure!(refused.summary.starts_with("mcp_tool_changed"), "{refused:#?}");
    // A run that saw another list makes the executor ask again, in a process that sees no run.
    let until = Instant::now() + PATIENCE;
    stage.listed("t__echo").await?;
    loop {
        let tool = stage.tool("t__echo").await?.context("t__echo is not listed")?;
        if tool.description == "deletes what it is given" {
            break;
        }
        ensure!(Instant::now() < until, "the list is not followed: {tool:#?}");
        tokio::task::yield_now().await;
    }
    ensure!(stage.call("t__echo", json!({"text": "x"})).await?.success);
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_grows_in_a_run_harms_nothing() -> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &[], "")).await?;
    let workspace = tempfile::tempdir()?;
    let run = stage
        .run(&[call("t__grow", json!({})), echo("x"), call("t__grow", json!({}))], &workspace)
        .await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

/// What a driver is told of a tool that no server has.
pub(super) async fn ensure_unknown(stage: &Stage, name: &str) -> Result<()> {
    let workspace = tempfile::tempdir()?;
    let run = stage.run(&[call(name, json!({}))], &workspace).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    let events = format!("{:?}", stage.deployment.events(&run.id).await?);
    ensure!(events.contains("unknown_tool") && events.contains(name), "{events}");
    Ok(())
}

/// Waits until the executor no longer lists a tool.
pub(super) async fn ensure_left_out(stage: &Stage, name: &str) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while stage.tool(name).await?.is_some() {
        ensure!(Instant::now() < until, "{name} is still listed");
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changed_in_a_run_is_followed_a_new_tool_is_called_and_a_removed_one_unknown()
-> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &[], "")).await?;
    stage.listed("t__replaced").await?;
    ensure!(stage.tool("t__replacement").await?.is_none(), "it is listed before there is one");
    let workspace = tempfile::tempdir()?;
    let calls = [call("t__replace", json!({})), call("t__replaced", json!({}))];
    let run = stage.run(&calls, &workspace).await?;
    ensure!(run.state() == v1::RunState::Failed, "{run:#?}");
    // The run itself had the tool in its list, so it is told that this tool is gone.
    let receipts = stage.receipts(&run.id).await?;
    let refused = receipts.iter().find(|receipt| receipt.name == "t__replaced");
    let said = &refused.context("a receipt")?.summary;
    ensure!(said.starts_with("mcp_tool_changed") && said.contains("not listed any more"), "{said}");
    stage.listed("t__replacement").await?;
    ensure_left_out(&stage, "t__replaced").await?;
    let receipt = stage.call("t__replacement", json!({})).await?;
    ensure!(receipt.success && receipt.summary.contains("from the new tool"), "{receipt:#?}");
    ensure_unknown(&stage, "t__replaced").await?;
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_each_older_version_of_the_protocol_are_called() -> Result<()> {
    let versions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let trails = versions.iter().map(|_| Trail::new()).collect::<Result<Vec<_>, _>>()?;
    let name = |version: &str| format!("v{}", version.replace('-', ""));
    let servers = versions.iter().zip(&trails).map(|(version, trail)| {
        let more = "resources = true\n[mcp.t.tools.add]\nread_only = true\n";
        let entry = entry(trail, &["--version", version], more);
        entry.replace("[mcp.t", &format!("[mcp.{}", name(version)))
    });
    let stage = Stage::start(&servers.collect::<String>()).await?;
    for (version, trail) in versions.iter().zip(&trails) {
        let workspace = tempfile::tempdir()?;
        let tool = |tool: &str| format!("{}__{tool}", name(version));
        let calls = [
            call(&tool("echo"), json!({"text": "hello"})),
            call(&tool("add"), json!({"a": 1, "b": 2})),
            call(&tool("write"), json!({"path": "made.txt", "content": *version})),
            call(&tool("media"), json!({})),
            call(&tool("read_resource"), json!({"uri": "test://note"})),
        ];
        let run = stage.run(&calls, &workspace).await?;
        ensure!(run.state() == v1::RunState::Done, "{version}: {run:#?}");
        ensure!(std::fs::read_to_string(workspace.path().join("made.txt"))? == *version);
        let receipts = stage.receipts(&run.id).await?;
        for (name, shown) in [("echo", "hello"), ("add", "{\"sum\": 3}")] {
            let receipt = receipts.iter().find(|receipt| receipt.name == tool(name));
            let receipt = receipt.with_context(|| format!("{version}: no receipt of {name}"))?;
            let output = String::from_utf8(stage.output(&run.id, &receipt.call_id).await?)?;
            ensure!(output.contains(shown), "{version}: {name}: {output}");
        }
        let spoken = trail.keys("speaks");
        let is_it = |spoken: &String| spoken == version;
        ensure!(!spoken.is_empty() && spoken.iter().all(is_it), "{version}: {spoken:?}");
    }
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_newest_protocol_is_called() -> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &["--only-discover"], "")).await?;
    ensure!(stage.call("t__echo", json!({"text": "x"})).await?.success);
    stage.deployment.finish().await
}
