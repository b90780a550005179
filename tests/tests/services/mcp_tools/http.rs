//! Servers over streamable HTTP.

use super::lists::{ensure_left_out, ensure_unknown};
use super::{Stage, call, echo, python};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use surety_common::wire::v1;
use surety_e2e::harness::wait_until;
use surety_e2e::script::Trail;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

const TOKEN: &str = "c4nary-of-http-9zQ7";

/// A server in a process of its own, and the file with its header.
struct Remote {
    child: Child,
    header: NamedTempFile,
    url: String,
    trail: Trail,
}

impl Remote {
    async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    async fn start_with(flags: &[&str]) -> Result<Self> {
        let trail = Trail::new()?;
        let port = trail.path("port");
        let child = Command::new(python())
            .arg(super::folder().join("server.py"))
            .args(["--http", &port.display().to_string(), "--token", TOKEN])
            .args(["--marks", &trail.path("").display().to_string()])
            .args(flags)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        wait_until("the server listens", || port.exists()).await?;
        let url = format!("http://127.0.0.1:{}/mcp?key=c4nary", fs::read_to_string(&port)?.trim());
        let header = NamedTempFile::new()?;
        fs::write(header.path(), format!("Bearer {TOKEN}\n"))?;
        fs::set_permissions(header.path(), fs::Permissions::from_mode(0o600))?;
        Ok(Self { child, header, url, trail })
    }

    /// Makes the server replace a tool, and say so to its sessions.
    async fn replace_a_tool(&self) -> Result<()> {
        let address = self.url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let mut stream = TcpStream::connect(address.context("an address")?).await?;
        let request =
            "POST /replace HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(())
    }

    fn entry(&self, header: &str) -> String {
        format!(
            "[mcp.t]\nurl = {:?}\nnamespaces = [\"*\"]\nheaders_from_files = {{ {header} = {:?} }}\n",
            self.url,
            self.header.path().display().to_string()
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_is_called_with_the_header_from_its_file() -> Result<()> {
    let mut remote = Remote::start().await?;
    let entry = remote.entry("Authorization") + "[mcp.t.tools.add]\nread_only = true\n";
    let stage = Stage::start_with(&entry, &[("SURETY_LOG", "debug")]).await?;
    let workspace = tempfile::tempdir()?;
    let calls = [echo(&format!("the token is {TOKEN}")), call("t__add", json!({"a": 1, "b": 2}))];
    let run = stage.run(&calls, &workspace).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?}");
    for receipt in stage.receipts(&run.id).await?.iter().filter(|it| it.name == "t__echo") {
        ensure!(receipt.sandbox.is_empty(), "nothing confines it: {receipt:#?}");
        let output = String::from_utf8(stage.output(&run.id, &receipt.call_id).await?)?;
        ensure!(output == "the token is [secret:mcp.t.authorization]", "{output}");
    }
    let run = stage.create(&[call("t__unavailable", json!({}))], &workspace).await?;
    let question = stage.deployment.question(&run.id).await?;
    ensure!(question.question.contains("t__unavailable"), "it may have happened: {question:#?}");
    stage.deployment.answer(&question.wait_id, "fail").await?;
    stage.deployment.wait_for_end(&run.id).await?;

    remote.child.kill().await?;
    stage.fails("t__add", json!({"a": 1, "b": 2}), "mcp_unavailable", "nothing was called").await?;
    let executor = stage.deployment.executors.first().context("an executor")?;
    let log = executor.log().join("\n");
    ensure!(!log.contains("c4nary"), "a log line has the token");
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_the_header_says_so() -> Result<()> {
    let remote = Remote::start().await?;
    let stage = Stage::start(&remote.entry("X-Other")).await?;
    let executor = stage.deployment.executors.first().context("an executor")?;
    executor
        .wait_for_line(|line| {
            line.contains("MCP server t: ") && line.contains("headers_from_files")
        })
        .await?;
    ensure!(stage.tool("t__echo").await?.is_none());
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_over_http_follows_the_list_without_a_run_that_sees_the_change() -> Result<()> {
    let remote = Remote::start_with(&["--streams"]).await?;
    let stage = Stage::start(&remote.entry("Authorization")).await?;
    stage.listed("t__replaced").await?;
    wait_until("the executor listens to its server", || remote.trail.marks("listening") > 0)
        .await?;
    remote.replace_a_tool().await?;
    stage.listed("t__replacement").await?;
    ensure_left_out(&stage, "t__replaced").await?;
    let receipt = stage.call("t__replacement", json!({})).await?;
    ensure!(receipt.success && receipt.summary.contains("from the new tool"), "{receipt:#?}");
    ensure_unknown(&stage, "t__replaced").await?;
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_of_the_first_streamable_version_is_called() -> Result<()> {
    let remote = Remote::start_with(&["--version", "2025-03-26"]).await?;
    let entry = remote.entry("Authorization") + "[mcp.t.tools.add]\nread_only = true\n";
    let stage = Stage::start(&entry).await?;
    let receipt = stage.call("t__add", json!({"a": 1, "b": 2})).await?;
    ensure!(receipt.success && receipt.summary.contains("{\"sum\": 3}"), "{receipt:#?}");
    let spoken = remote.trail.keys("speaks");
    ensure!(spoken.iter().all(|spoken| spoken == "2025-03-26"), "{spoken:?}");
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_of_an_unknown_version_is_named_with_the_known_ones() -> Result<()> {
    let remote = Remote::start_with(&["--version", "2099-01-01"]).await?;
    let stage = Stage::start(&remote.entry("Authorization")).await?;
    let executor = stage.deployment.executors.first().context("an executor")?;
    let said = ["MCP server t: ", "it speaks version 2099-01-01", "2024-11-05", "2025-11-25"];
    executor.wait_for_line(|line| said.iter().all(|said| line.contains(said))).await?;
    ensure!(stage.tool("t__echo").await?.is_none(), "a tool of it is listed");
    stage.deployment.finish().await
}
