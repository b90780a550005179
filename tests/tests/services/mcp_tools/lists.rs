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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_newest_protocol_is_called() -> Result<()> {
    let trail = Trail::new()?;
    let stage = Stage::start(&entry(&trail, &["--only-discover"], "")).await?;
    ensure!(stage.call("t__echo", json!({"text": "x"})).await?.success);
    stage.deployment.finish().await
}
