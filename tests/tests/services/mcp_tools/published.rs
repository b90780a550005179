//! Servers that others wrote, from their packages. Where a package does not install, its test is skipped and says so; on
//! CI it fails.

use super::{Stage, call, one_step, written};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surety_common::wire::v1;
use surety_e2e::skips;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

/// The versions that were tried.
const FILESYSTEM: &str = "@modelcontextprotocol/server-filesystem@2026.8.31";
const EVERYTHING: &str = "@modelcontextprotocol/server-everything@2026.8.31";
const GIT: &str = "mcp-server-git==2026.10.19";
/// How long an installation may take.
const INSTALLING: Duration = Duration::from_secs(300);

/// Records that a test was skipped, and why, for the caller of the tests.
///
/// # Errors
/// It runs on CI, which may not pass without the test.
fn skipped(what: &str, why: &str) -> Result<()> {
    may_skip(std::env::var("CI").ok().as_deref(), what, why)?;
    writeln!(std::io::stderr(), "MCP server {what}: skipped: {why}")?;
    skips::note(&format!("MCP server {what}"), why)
}

/// Whether a test may be skipped under this value of the variable `CI`.
fn may_skip(ci: Option<&str>, what: &str, why: &str) -> Result<()> {
    let ci = ci.unwrap_or_default();
    ensure!(ci.is_empty(), "MCP server {what}: {why}, and CI={ci} requires its test");
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_install_is_skipped_off_ci_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let why = install("/no/such/npm", &["install"], folder.path()).await?;
    let why = why.context("it was installed by a program that is not there")?;
    ensure!(why.contains("/no/such/npm"), "{why}");
    for ci in [None, Some("")] {
        may_skip(ci, EVERYTHING, &why)?;
    }
    for ci in ["true", "1"] {
        let failed = may_skip(Some(ci), EVERYTHING, &why).err().context("it may be skipped")?;
        let failed = failed.to_string();
        ensure!(failed.contains(EVERYTHING) && failed.contains(&why), "{failed}");
    }
    Ok(())
}

/// Installs a package into a folder; why not, where that is not possible here.
async fn install(program: &str, arguments: &[&str], folder: &Path) -> Result<Option<String>> {
    let installing =
        Command::new(program).args(arguments).current_dir(folder).kill_on_drop(true).output();
    Ok(match timeout(INSTALLING, installing).await {
        Err(_) => Some(format!("{program} did not install it in {} s", INSTALLING.as_secs())),
        Ok(Err(error)) => Some(format!("{program}: {error}")),
        Ok(Ok(done)) if !done.status.success() => {
            Some(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim()))
        }
        Ok(Ok(_)) => None,
    })
}

/// A package of npm in a folder that goes away; none where it does not install.
async fn from_npm(package: &str) -> Result<Option<TempDir>> {
    let folder = tempfile::tempdir()?;
    let arguments =
        ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", package];
    match install("npm", &arguments, folder.path()).await? {
        Some(why) => skipped(package, &why).map(|()| None),
        None => Ok(Some(folder)),
    }
}

/// The entry of a server that lies in a folder.
fn entry(name: &str, command: &Value, folder: &Path, more: &str) -> String {
    format!(
        "[mcp.{name}]\ncommand = {command}\nread_only = [{:?}]\nnamespaces = [\"*\"]\nstart_timeout_s = 60\n\
         timeout_s = 60\n{more}\n",
        folder.display().to_string()
    )
}

fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join("node_modules/.bin").join(name)
}

/// A run whose calls all succeed; their outputs by tool.
async fn outputs(
    stage: &Stage,
    calls: &[Value],
    workspace: &TempDir,
) -> Result<Vec<(String, String)>> {
    let run = stage.deployment.create_run(one_step(calls, workspace)).await?;
    let run = stage.deployment.wait_for_end(&run.id).await?;
    let receipts = stage.receipts(&run.id).await?;
    ensure!(run.state() == v1::RunState::Done, "{run:#?} {receipts:#?}");
    let mut outputs = Vec::new();
    for receipt in receipts.iter().filter(|receipt| receipt.name.contains("__")) {
        let output = stage.output(&run.id, &receipt.call_id).await?;
        let files = written(receipt).join(",");
        outputs.push((
            receipt.name.clone(),
            format!("{}\nwritten: {files}", String::from_utf8_lossy(&output)),
        ));
    }
    Ok(outputs)
}

fn ensure_said(outputs: &[(String, String)], tool: &str, said: &str) -> Result<()> {
    let found = outputs.iter().any(|(name, output)| name == tool && output.contains(said));
    ensure!(found, "{tool} does not say {said:?}: {outputs:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filesystem_server_reads_and_writes_in_the_workspace_alone() -> Result<()> {
    let Some(folder) = from_npm(FILESYSTEM).await? else { return Ok(()) };
    let command = json!([program(folder.path(), "mcp-server-filesystem"), "{workspace}"]);
    let read_only = "[mcp.fs.tools.read_text_file]\nread_only = true";
    let stage = Stage::start(&entry("fs", &command, folder.path(), read_only)).await?;
    let workspace = tempfile::tempdir()?;
    let root = workspace.path().canonicalize()?;
    fs::write(root.join("a.txt"), "first\n")?;
    let path = |name: &str| root.join(name).display().to_string();
    let calls = [
        call("fs__read_text_file", json!({"path": path("a.txt")})),
        call("fs__write_file", json!({"path": path("b.txt"), "content": "second\n"})),
        call(
            "fs__edit_file",
            json!({"path": path("a.txt"), "edits": [{"oldText": "first", "newText": "third"}]}),
        ),
        call("fs__list_directory", json!({"path": path("")})),
    ];
    let said = outputs(&stage, &calls, &workspace).await?;
    ensure_said(&said, "fs__read_text_file", "first")?;
    ensure_said(&said, "fs__write_file", "written: b.txt")?;
    ensure_said(&said, "fs__edit_file", "written: a.txt")?;
    ensure_said(&said, "fs__list_directory", "b.txt")?;
    ensure!(fs::read_to_string(root.join("a.txt"))? == "third\n");
    stage
        .fails("fs__read_text_file", json!({"path": "/etc/passwd"}), "mcp_failed", "denied")
        .await?;
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_everything_server_answers_with_every_kind_of_content() -> Result<()> {
    let Some(folder) = from_npm(EVERYTHING).await? else { return Ok(()) };
    let command = json!([program(folder.path(), "mcp-server-everything")]);
    let stage = Stage::start(&entry("every", &command, folder.path(), "resources = true")).await?;
    let workspace = tempfile::tempdir()?;
    let calls = [
        call("every__echo", json!({"message": "hello"})),
        call("every__get-sum", json!({"a": 2, "b": 3})),
        call("every__get-structured-content", json!({"location": "New York"})),
        call("every__get-tiny-image", json!({})),
        call("every__get-resource-links", json!({})),
        call("every__list_resources", json!({})),
    ];
    let said = outputs(&stage, &calls, &workspace).await?;
    ensure_said(&said, "every__echo", "hello")?;
    ensure_said(&said, "every__get-sum", "5")?;
    ensure_said(&said, "every__get-structured-content", "temperature")?;
    ensure_said(&said, "every__get-tiny-image", "[image image/png: ")?;
    ensure_said(&said, "every__get-resource-links", "[link ")?;
    ensure_said(&said, "every__list_resources", "[link ")?;
    stage.deployment.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_git_server_commits_in_the_workspace() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let venv = folder.path().join("venv");
    let made =
        install("python3", &["-m", "venv", "--copies", &venv.display().to_string()], folder.path())
            .await?;
    let pip = venv.join("bin/pip").display().to_string();
    let installed = match made {
        None => install(&pip, &["install", "--quiet", GIT], folder.path()).await?,
        some => some,
    };
    if let Some(why) = installed {
        return skipped(GIT, &why);
    }
    let command = json!([venv.join("bin/python"), "-m", "mcp_server_git"]);
    let stage = Stage::start(&entry("git", &command, folder.path(), "")).await?;
    let workspace = tempfile::tempdir()?;
    let root = workspace.path().canonicalize()?;
    for arguments in [
        &["init", "--quiet"][..],
        &["config", "user.name", "t"],
        &["config", "user.email", "t@example.org"],
        &["commit", "--quiet", "--allow-empty", "-m", "start"],
    ] {
        let done = Command::new("git").args(arguments).current_dir(&root).status().await?;
        ensure!(done.success(), "git {arguments:?}");
    }
    fs::write(root.join("a.txt"), "first\n")?;
    let repository = root.display().to_string();
    let calls = [
        call("git__git_status", json!({"repo_path": repository})),
        call("git__git_add", json!({"repo_path": repository, "files": ["a.txt"]})),
        call("git__git_commit", json!({"repo_path": repository, "message": "by a server"})),
        call("git__git_log", json!({"repo_path": repository, "max_count": 1})),
    ];
    let said = outputs(&stage, &calls, &workspace).await?;
    ensure_said(&said, "git__git_status", "a.txt")?;
    ensure_said(&said, "git__git_log", "by a server")?;
    let log =
        Command::new("git").args(["log", "-1", "--format=%s"]).current_dir(&root).output().await?;
    let subject = String::from_utf8(log.stdout).context("a subject")?;
    ensure!(subject.trim() == "by a server", "{subject}");
    stage.deployment.finish().await
}
