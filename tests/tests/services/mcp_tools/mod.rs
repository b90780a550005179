//! Tools of MCP servers: a server of our own over stdio and HTTP, in every kind of trouble, and servers that others
//! wrote.

mod bounds;
mod calls;
mod http;
mod lists;
mod lost;
mod published;
mod settings;
mod words;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;
use surety_common::wire::token::Token;
use surety_common::wire::v1;
use surety_e2e::agent::{PERSON, secret, token_file};
use surety_e2e::harness::{Database, Deployment, PATIENCE};
use surety_e2e::script::{Trail, plan, request, step};
use tempfile::{NamedTempFile, TempDir};

/// The variable that names the file with the servers.
const SETTING: &str = "SURETY_EXECUTOR_MCP";

/// The folder of this file, with the server of the tests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/mcp_tools")
}

/// The interpreter of the system: one that a version manager puts before it is slow to start.
fn python() -> &'static str {
    if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// The command of the tests' server, as TOML.
fn command(trail: &Trail, flags: &[&str]) -> String {
    let script = folder().join("server.py").display().to_string();
    let marks = trail.path("").display().to_string();
    let words = [&[python(), &script, "--marks", &marks], flags].concat();
    json!(words).to_string()
}

/// The entry of the tests' server under the name `t`, with further lines.
fn entry(trail: &Trail, flags: &[&str], more: &str) -> String {
    format!(
        "[mcp.t]\ncommand = {}\nread_only = [{:?}]\nnamespaces = [\"default\"]\n{more}\n",
        command(trail, flags),
        folder().display().to_string()
    )
}

/// Services with one executor and its MCP servers.
struct Stage {
    deployment: Deployment,
    _tokens: NamedTempFile,
    _file: NamedTempFile,
}

impl Stage {
    async fn start(servers: &str) -> Result<Self> {
        Self::start_with(servers, &[]).await
    }

    async fn start_with(servers: &str, environment: &[(&str, &str)]) -> Result<Self> {
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), servers)?;
        let path = file.path().display().to_string();
        let tokens = token_file()?;
        let known = tokens.path().display().to_string();
        let common = [("SURETY_TOKEN_FILE", known.as_str())];
        let mut deployment = Deployment::start_idle(Database::create().await?, &common).await?;
        deployment.use_token(Token::new(&secret(PERSON))?);
        let own = [&[(SETTING, path.as_str())], environment].concat();
        deployment.add_executor(&own).await?;
        Ok(Self { deployment, _tokens: tokens, _file: file })
    }

    /// A run of one step that makes these calls in a workspace.
    async fn create(&self, calls: &[Value], workspace: &TempDir) -> Result<v1::Run> {
        self.deployment.create_run(one_step(calls, workspace)).await
    }

    /// As [`Stage::create`], to the end.
    async fn run(&self, calls: &[Value], workspace: &TempDir) -> Result<v1::Run> {
        let run = self.create(calls, workspace).await?;
        self.deployment.wait_for_end(&run.id).await
    }

    /// Calls one tool, and gives its receipt; the run's end is what it makes of it.
    async fn call(&self, name: &str, arguments: Value) -> Result<v1::EvidenceReceipt> {
        let workspace = tempfile::tempdir()?;
        let run = self.run(&[call(name, arguments)], &workspace).await?;
        let receipts = self.receipts(&run.id).await?;
        let of_call = receipts.into_iter().find(|receipt| receipt.name == name);
        of_call.with_context(|| format!("no receipt of {name}: {run:#?}"))
    }

    /// As [`Stage::call`], for a call that has to fail with a code.
    async fn fails(&self, name: &str, arguments: Value, code: &str, said: &str) -> Result<()> {
        let receipt = self.call(name, arguments).await?;
        ensure!(!receipt.success, "{name} succeeded: {receipt:#?}");
        let summary = &receipt.summary;
        ensure!(
            summary.starts_with(code) && summary.contains(said),
            "{name}: {code} {said}: {summary}"
        );
        Ok(())
    }

    async fn receipts(&self, run_id: &str) -> Result<Vec<v1::EvidenceReceipt>> {
        let receipt = |event: v1::Event| match event.kind {
            Some(v1::event::Kind::Receipt(receipt)) => Some(receipt),
            _ => None,
        };
        Ok(self.deployment.events(run_id).await?.into_iter().filter_map(receipt).collect())
    }

    /// The output of a call, or one of its attachments.
    async fn output(&self, run_id: &str, call_id: &str) -> Result<Vec<u8>> {
        let request = v1::GetOutputRequest {
            run_id: run_id.to_owned(),
            call_id: call_id.to_owned(),
            ..Default::default()
        };
        let mut parts = self.deployment.runs()?.get_output(request).await?.into_inner();
        let mut output = Vec::new();
        while let Some(part) = parts.message().await? {
            output.extend(part.data);
        }
        Ok(output)
    }

    /// The tools of a namespace.
    async fn tools(&self, namespace: &str) -> Result<Vec<v1::Tool>> {
        use surety_common::wire::v1::tool_service_client::ToolServiceClient;
        let executor = self.deployment.executors.first().context("an executor")?;
        let token = Token::new(&secret(PERSON))?;
        let channel = surety_common::wire::client::channel(&executor.url(), Some(&token))?;
        let request =
            v1::ListToolsRequest { namespace: namespace.to_owned(), ..Default::default() };
        Ok(ToolServiceClient::new(channel).list_tools(request).await?.into_inner().tools)
    }

    /// Waits until a tool is listed: an executor serves while it asks its servers.
    async fn listed(&self, name: &str) -> Result<v1::Tool> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(tool) = self.tool(name).await? {
                return Ok(tool);
            }
            ensure!(Instant::now() < until, "{name} is not listed");
            tokio::task::yield_now().await;
        }
    }

    async fn tool(&self, name: &str) -> Result<Option<v1::Tool>> {
        Ok(self.tools("default").await?.into_iter().find(|tool| tool.name == name))
    }
}

fn one_step(calls: &[Value], workspace: &TempDir) -> v1::CreateRunRequest {
    let limits = v1::Limits { max_repairs: Some(0), max_replans: Some(0), ..v1::Limits::default() };
    let request = request(&plan(&[step("s", &[], calls)]), &workspace.path().display().to_string());
    v1::CreateRunRequest { limits: Some(limits), ..request }
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn echo(text: &str) -> Value {
    call("t__echo", json!({"text": text}))
}

/// The values of a receipt's outputs under a key.
fn outputs<'r>(receipt: &'r v1::EvidenceReceipt, key: &'r str) -> impl Iterator<Item = &'r str> {
    receipt.facts.iter().filter_map(move |fact| match &fact.fact {
        Some(v1::fact::Fact::Output(output)) if output.key == key => Some(output.value.as_str()),
        _ => None,
    })
}

/// The files that a receipt says were written.
fn written(receipt: &v1::EvidenceReceipt) -> Vec<&str> {
    let paths = receipt.facts.iter().filter_map(|fact| match &fact.fact {
        Some(v1::fact::Fact::FileWritten(written)) => Some(written.path.as_str()),
        _ => None,
    });
    paths.collect()
}
