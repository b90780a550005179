//! Servers that keep no rule of the protocol: each ends with a clear error, and the executor goes on.

use super::{Stage, call, entry};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use surety_common::wire::v1;
use surety_e2e::script::Trail;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_may_not_do_has_its_error_and_harms_no_later_call() -> Result<()> {
    let trail = Trail::new()?;
    let repeatable = |name: &&str| format!("[mcp.t.tools.{name}]\nread_only = true\n");
    let tools: String = ["big", "malformed", "endless", "flood"].iter().map(repeatable).collect();
    let more = format!("max_output_kib = 64\ntimeout_s = 100\n{tools}");
    let stage = Stage::start(&entry(&trail, &[], &more)).await?;
    for (name, arguments, code, said) in [
        ("t__big", json!({"bytes": 200_000}), "too_large", "max_output_kib"),
        ("t__malformed", json!({}), "mcp_lost", "no JSON-RPC message"),
        ("t__endless", json!({}), "mcp_lost", "without an end of line"),
        ("t__flood", json!({}), "mcp_lost", "messages between two replies"),
        ("t__fail", json!({}), "mcp_failed", "the index is locked"),
        ("t__refuse", json!({}), "mcp_failed", "-32603: internal trouble"),
        ("t__question", json!({}), "mcp_failed", "asks for input"),
        ("t__add_wrong", json!({}), "mcp_result_invalid", "/sum"),
    ] {
        stage.fails(name, arguments, code, said).await?;
    }
    let workspace = tempfile::tempdir()?;
    let run =
        stage.run(&[call("t__bad_base64", json!({})), super::echo("well")], &workspace).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_named_and_the_executor_works_without_it() -> Result<()> {
    let trail = Trail::new()?;
    let unusable = |name: &str, command: &str| {
        format!("[mcp.{name}]\ncommand = {command}\nnamespaces = [\"*\"]\nstart_timeout_s = 3\n")
    };
    let old = super::command(&trail, &["--version", "1999-01-01"]);
    let readable = format!("read_only = [{:?}]\n", super::folder().display().to_string());
    let servers = [
        entry(&trail, &[], ""),
        unusable("old", &old) + &readable,
        unusable("missing", "[\"no-such-program\"]"),
        unusable("silent", "[\"sleep\", \"3600\"]"),
        unusable(
            "ended",
            "[\"sh\", \"-c\", \"(echo no license found; echo; echo see the log) >&2; exit 9\"]",
        ),
        "[mcp.away]\nurl = \"http://127.0.0.1:1/mcp\"\nnamespaces = [\"*\"]\n".to_owned(),
    ];
    let stage = Stage::start(&servers.concat()).await?;
    ensure!(stage.call("t__echo", json!({"text": "x"})).await?.success);
    let executor = stage.deployment.executors.first().context("an executor")?;
    for (name, said) in [
        ("old", "it speaks version 1999-01-01 of the protocol"),
        ("missing", "no program"),
        ("silent", "start_timeout_s of 3 s"),
        ("ended", "no license found; see the log"),
        ("away", "it cannot be reached"),
    ] {
        let named = format!("MCP server {name}: ");
        executor.wait_for_line(|line| line.contains(&named) && line.contains(said)).await?;
    }
    let tools = stage.tools("default").await?;
    let listed = |tool: &v1::Tool| tool.provider.starts_with("mcp:") && tool.provider != "mcp:t";
    ensure!(!tools.iter().any(listed), "{tools:#?}");
    stage.deployment.finish().await
}
