//! The Python examples against live services, with the Python code that is generated from the protos.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use surety_common::wire::token::Token;
use surety_e2e::agent::{AGENT, PERSON, WORKER, secret, token_file};
use surety_e2e::authority::{Authority, VALID};
use surety_e2e::harness::{Database, Deployment, PATIENCE, TOKEN};
use tempfile::NamedTempFile;
use tokio::process::Command;
use tokio::sync::OnceCell;

/// The exit code of scripts/stubs.sh when Python or its generator is not available.
const ABSENT: i32 = 77;

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The generated Python code, made once for all tests here. None when Python or its generator is not available.
pub(crate) async fn generated() -> Result<Option<PathBuf>> {
    static STUBS: OnceCell<Option<PathBuf>> = OnceCell::const_new();
    STUBS.get_or_try_init(generate).await.cloned()
}

async fn generate() -> Result<Option<PathBuf>> {
    let ran = Command::new(root().join("scripts/stubs.sh")).arg("python").output().await?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let last = said.lines().last().unwrap_or_default();
    if ran.status.code() == Some(ABSENT) {
        let reason = format!("the Python examples: {}", last.trim_start_matches("skipped: "));
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
    let mut token = NamedTempFile::new()?;
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

#[tokio::test]
async fn the_python_agent_carries_the_repair_example_to_its_verdict() -> Result<()> {
    let Some(stubs) = generated().await? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let project = folder.path().join("project");
    let fresh =
        Command::new(root().join("examples/repair/fresh.sh")).arg(&project).output().await?;
    ensure!(fresh.status.success(), "{}", String::from_utf8_lossy(&fresh.stderr));
    let tokens = token_file()?;
    let known = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", known.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let mut token = NamedTempFile::new()?;
    writeln!(token, "{}", secret(AGENT))?;
    let agent = Command::new(stubs.join("venv/bin/python"))
        .arg(root().join("examples/agent.py"))
        .arg(stubs.join("generated"))
        .arg(deployment.first_executor()?.address())
        .arg(token.path())
        .arg("60")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let plan = root().join("examples/repair/agent-plan.yaml");
    let (plan, project) = (plan.to_string_lossy(), project.to_string_lossy());
    let said = deployment.command_line(&["run", &*plan, "--workspace", &*project]).await?;
    drop(agent);
    ensure!(said.contains("accepted"), "{said}");
    ensure!(said.contains("passed  tests-pass"), "{said}");
    deployment.finish().await
}

#[tokio::test]
async fn the_python_worker_serves_a_tool_that_an_operator_admits_by_a_file() -> Result<()> {
    let Some(stubs) = generated().await? else { return Ok(()) };
    let tokens = token_file()?;
    let known = tokens.path().to_string_lossy().into_owned();
    let environment = [("SURETY_TOKEN_FILE", known.as_str())];
    let mut deployment = Deployment::start_idle(Database::create().await?, &environment).await?;
    deployment.use_token(Token::new(&secret(PERSON))?);
    deployment.add_executor(&[]).await?;
    let (mut entries, mut plan) = (yaml()?, yaml()?);
    writeln!(entries, "- tool: word_count\n  identities: [{WORKER}]\n  read_only: true")?;
    write!(plan, "{WORD_COUNT}")?;
    let entries = entries.path().to_string_lossy();
    let set = ["policy", "set", "default", "--tool-workers", &*entries];
    let shown = deployment.command_line(&set).await?;
    ensure!(shown.contains("tool_workers"), "{shown}");
    let mut token = NamedTempFile::new()?;
    writeln!(token, "{}", secret(WORKER))?;
    let worker = Command::new(stubs.join("venv/bin/python"))
        .arg(root().join("examples/worker.py"))
        .arg(stubs.join("generated"))
        .arg(deployment.first_executor()?.address())
        .arg(token.path())
        .arg("1")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut worker = Lines::of(worker)?;
    let connected = worker.next().await?;
    ensure!(connected == "connected default", "{connected}");
    let said = deployment.command_line(&["run", &plan.path().to_string_lossy()]).await?;
    ensure!(said.contains("accepted"), "{said}");
    let answered = worker.next().await?;
    ensure!(answered.starts_with("answered "), "{answered}");
    deployment.finish().await
}

/// The plan of docs/workers.md.
const WORD_COUNT: &str = "\
title: Count words
goal: count the words of a text
steps:
  - id: count
    description: count the words of a text
    script:
      - name: word_count
        arguments: {text: one two three}
";

fn yaml() -> Result<NamedTempFile> {
    Ok(tempfile::Builder::new().suffix(".yaml").tempfile()?)
}

/// The lines of a process, which ends with this value.
struct Lines {
    _process: tokio::process::Child,
    lines: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStdout>>,
}

impl Lines {
    fn of(mut process: tokio::process::Child) -> Result<Self> {
        use tokio::io::AsyncBufReadExt;
        let output = process.stdout.take().context("a pipe")?;
        let lines = tokio::io::BufReader::new(output).lines();
        Ok(Self { _process: process, lines })
    }

    async fn next(&mut self) -> Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await??;
        line.context("the process ended")
    }
}
