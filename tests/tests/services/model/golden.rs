//! The first two requests of a run with the settings of `docs/models.md`: one for the plan, one for the first turn.

use crate::model::stage::{Plays, is_planning, next_plan, one_step, say, unplanned, write_answer};
use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_common::wire::v1;
use surety_e2e::harness::Deployment;
use surety_e2e::model_server::{ModelServer, Recorded, Settings};

/// Where the settings of the page say that keys are.
const SECRETS: &str = "/run/secrets/";
const SERVERS: [&str; 6] = ["OpenAI", "Anthropic", "vLLM", "Ollama", "llama.cpp", "LiteLLM"];
const GOAL: &str = "Write the answer";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The TOML block below a heading of the page.
fn settings(server: &str) -> Result<String> {
    let page = std::fs::read_to_string(folder("../docs/models.md"))?;
    let (_, below) = page.split_once(&format!("\n### {server}\n")).context("a heading")?;
    let (_, block) = below.split_once("```toml\n").context("a block")?;
    let (block, _) = block.split_once("```").context("the end of the block")?;
    Ok(block.to_owned())
}

/// The value of a key of the block.
fn value<'b>(block: &'b str, key: &str) -> Option<&'b str> {
    let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
    line.split_once('"').map(|(value, _)| value)
}

/// A request without what differs from run to run.
fn shown(record: &Recorded, workspace: &str) -> Result<Value> {
    let mut headers = record.headers.clone();
    for name in ["host", "content-length", "user-agent", "traceparent", "tracestate"] {
        headers.remove(name);
    }
    let whole = json!({"line": record.line, "headers": headers, "body": record.body});
    Ok(serde_json::from_str(&whole.to_string().replace(workspace, "/workspace"))?)
}

async fn first_two(server: &str) -> Result<Value> {
    let block = settings(server)?;
    let keys = tempfile::tempdir()?;
    let key = value(&block, "key_file").map(|path| path.trim_start_matches(SECRETS).to_owned());
    if let Some(name) = &key {
        let path = keys.path().join(name);
        std::fs::write(&path, format!("key-of-{name}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    let plays = Plays::default();
    plays.add(GOAL, |number, asked| match is_planning(asked) {
        true => say(&one_step()),
        false if number == 1 => write_answer(),
        false => next_plan(),
    });
    let model = value(&block, "model").context("a model")?.to_owned();
    let known = Settings {
        key: key.map(|name| format!("key-of-{name}")),
        models: vec![model],
        ..Settings::default()
    };
    let endpoint = ModelServer::start(known, plays.script()).await?;
    let url = value(&block, "url").context("an address")?;
    let mut text = block
        .replace(url, &endpoint.url())
        .replace(SECRETS, &format!("{}/", keys.path().display()));
    // The default of this key goes by the address that stands here no longer.
    if url.contains("api.openai.com") {
        text.push_str("max_tokens_field = \"max_completion_tokens\"\n");
    }
    let profiles = keys.path().join("profiles.toml");
    std::fs::write(&profiles, text)?;
    let profiles = profiles.to_string_lossy().into_owned();
    let environment = [("SURETY_MODEL_PROFILES_FILE", profiles.as_str())];
    let deployment = Deployment::start_with(&environment).await?;
    let workspace = tempfile::tempdir()?;
    let place = workspace.path().to_string_lossy().into_owned();
    let run = deployment.create_run(unplanned(GOAL, &place)).await?;
    let ended = deployment.wait_for_end(&run.id).await?;
    ensure!(ended.state() == v1::RunState::Done, "{server}: {ended:#?}");
    deployment.finish().await?;
    let asked = endpoint.recorded();
    let requests = asked.iter().filter(|record| record.body.get("messages").is_some());
    requests.take(2).map(|record| shown(record, &place)).collect()
}

#[tokio::test]
async fn the_settings_of_the_page_make_the_requests_of_the_golden_files() -> Result<()> {
    let runs = SERVERS.map(|server| async move {
        let found = first_two(server).await.with_context(|| server.to_owned())?;
        let text = serde_json::to_string_pretty(&found)? + "\n";
        let name = server.to_lowercase().replace('.', "-");
        let path = folder("tests/services/model/golden").join(format!("{name}.json"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text)?;
        }
        let golden = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        ensure!(text == golden, "{server}: run with UPDATE_DOCS=1 and read the difference: {text}");
        Ok(())
    });
    try_join_all(runs).await?;
    Ok(())
}
