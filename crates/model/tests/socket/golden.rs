//! The first two requests with the settings of `docs/models.md`, and the codes of that page.

use super::with_schema;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_e2e::model_server::{ModelServer, Recorded, Reply, Script, Settings};
use surety_model::{
    Blame, ChatError, ChatRequest, Endpoints, Message, Phase, Profiles, Role, TokenUsage,
};
use tokio_util::sync::CancellationToken;

/// Where the settings of the page say that keys are.
const SECRETS: &str = "/run/secrets/";
const SERVERS: [&str; 6] = ["OpenAI", "Anthropic", "vLLM", "Ollama", "llama.cpp", "LiteLLM"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> Result<String> {
    Ok(std::fs::read_to_string(repository().join("docs/models.md"))?)
}

/// The TOML block below a heading.
fn settings(page: &str, server: &str) -> Result<String> {
    let (_, below) = page.split_once(&format!("\n### {server}\n")).context("a heading")?;
    let (_, block) = below.split_once("```toml\n").context("a block")?;
    let (block, _) = block.split_once("```").context("the end of the block")?;
    Ok(block.to_owned())
}

/// A request without what differs from run to run.
fn shown(record: &Recorded) -> Value {
    let mut headers = record.headers.clone();
    for name in ["host", "content-length", "user-agent"] {
        headers.remove(name);
    }
    json!({"line": record.line, "headers": headers, "body": record.body})
}

async fn first_two(block: &str, folder: &Path) -> Result<Value> {
    let text = block.replace(SECRETS, &format!("{}/", folder.display()));
    let profiles = Profiles::read(&text, Path::new("docs/models.md"))?;
    let mut profile = profiles.get(profiles.name_for(surety_model::ModelUse::Step))?.clone();
    let settings = Settings {
        key: profile.key.as_ref().map(|key| key.expose().to_owned()),
        models: vec![profile.model.clone()],
        ..Settings::default()
    };
    let script = Script::list([
        Reply::text("{\"action\":\"continue\"}"),
        Reply::text("{\"action\":\"done\"}"),
    ]);
    let server = ModelServer::start(settings, script).await?;
    profile.url = server.url();
    let name = profile.name.clone();
    let model = Endpoints::open(Profiles::one(profile))?.model(&name)?;
    let mut request: ChatRequest = with_schema();
    let cancel = CancellationToken::new();
    let reply = model.reply(&request, &mut |_| {}, &cancel).await?;
    request.messages.push(Message::new(Role::Assistant, reply.text));
    request.messages.push(Message::new(Role::User, "Turn 1 was applied."));
    assert_eq!(model.reply(&request, &mut |_| {}, &cancel).await?.text, "{\"action\":\"done\"}");
    Ok(server.recorded().iter().map(shown).collect())
}

#[tokio::test]
async fn the_settings_of_the_page_make_the_requests_of_the_golden_files() -> Result<()> {
    let page = page()?;
    let folder = tempfile::tempdir()?;
    for name in ["openai", "anthropic", "vllm", "litellm"] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("key-of-{name}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    }
    for server in SERVERS {
        let found = first_two(&settings(&page, server)?, folder.path()).await;
        let found = found.with_context(|| server.to_owned())?;
        let text = serde_json::to_string_pretty(&found)? + "\n";
        let name = server.to_lowercase().replace('.', "-");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &text)?;
        }
        let golden = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        assert_eq!(text, golden, "{server}: run with UPDATE_DOCS=1 and read the difference");
    }
    Ok(())
}

/// One error of each code.
fn errors() -> Vec<ChatError> {
    let text = String::new;
    let (endpoint, profile, model, said, reason) = (text(), text(), text(), text(), text());
    let time = std::time::Duration::ZERO;
    let usage = TokenUsage::default();
    let end = endpoint.clone();
    vec![
        ChatError::Unauthorized {
            endpoint: text(),
            profile: profile.clone(),
            status: 401,
            said: text(),
        },
        ChatError::ModelUnknown { endpoint: text(), profile, model, said: text() },
        ChatError::ReplyCut { endpoint: text(), text: text(), usage, cost_micros: 0 },
        ChatError::Refused { endpoint: text(), said: text() },
        ChatError::Timeout { endpoint: text(), phase: Phase::Idle, limit: time },
        ChatError::RateLimited { endpoint: text(), retry_after: None, said: text() },
        ChatError::Unreachable { endpoint: text(), reason: text() },
        ChatError::Overloaded { endpoint: text(), status: 500, retry_after: None, said: text() },
        ChatError::CircuitOpen { endpoint: text(), failures: 1, retry_after: time },
        ChatError::BadReply { endpoint: text(), reason },
        ChatError::ContextTooLong { endpoint: text(), said: text() },
        ChatError::BadRequest { endpoint, status: 400, said },
        ChatError::Cancelled { endpoint: end },
    ]
}

#[test]
fn the_page_names_every_code_and_who_is_to_act() -> Result<()> {
    let page = page()?;
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `model_"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let documented: Vec<(&str, &str)> =
        rows.iter().map(|row| (row[1].trim_matches('`'), row[2])).collect();
    let blame = |blame: Blame| match blame {
        Blame::Endpoint => "the endpoint: the run waits",
        Blame::Configuration => "the operator",
        Blame::Request => "the request",
        Blame::Caller => "the caller",
    };
    let mut known: Vec<(&str, &str)> =
        errors().iter().map(|error| (error.code(), blame(error.blame()))).collect();
    known.extend([
        ("model_profile_unknown", "the operator"),
        ("model_configuration_invalid", "the operator"),
    ]);
    assert_eq!(documented, known);
    Ok(())
}
