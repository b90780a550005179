//! Configurations that cannot be used, and what is shown of those that can.

use anyhow::{Context, Result, ensure};
use std::fs;
use surety_e2e::harness::{Database, Process, Service, binary};
use tempfile::NamedTempFile;
use tokio::process::Command;

#[tokio::test]
async fn an_unusable_configuration_names_file_key_and_what_to_do() -> Result<()> {
    let database = Database::create().await?;
    for (text, said) in [
        ("[mcp.files]\ncommand = [\"x\"]\n", "mcp.files.namespaces"),
        ("[mcp.files]\ncomand = [\"x\"]\n", "line 2"),
        (
            "[mcp.files]\ncommand = [\"x\"]\nnamespaces = [\"a\"]\nenv = { T = \"secret:npm\" }\n",
            "mcp.files.env.T refers to the secret \"npm\"",
        ),
        (
            "[mcp.far]\nurl = \"http://x/mcp\"\nnamespaces = [\"a\"]\nheaders_from_files = { Authorization = \"/no/such\" }\n",
            "mcp.far.headers_from_files.Authorization cannot be read",
        ),
    ] {
        let file = NamedTempFile::new()?;
        fs::write(file.path(), text)?;
        let path = file.path().display().to_string();
        let environment = [(super::SETTING, path.as_str())];
        let started = Process::start(Service::Executor, &database, &environment).await;
        let refused = started.err().with_context(|| format!("it says that it listens: {text}"))?;
        let refused = format!("{refused:#}").replace("\\\"", "\"");
        ensure!(refused.contains(super::SETTING) && refused.contains(said), "{said}: {refused}");
    }
    database.drop().await
}

#[tokio::test]
async fn the_configuration_is_shown_without_its_secrets() -> Result<()> {
    let file = NamedTempFile::new()?;
    let servers = "[mcp.files]\ncommand = [\"mcp-server-filesystem\", \"{workspace}\"]\nnamespaces = [\"a\"]\n\
                   env = { TOKEN = \"c4nary\" }\n[mcp.far]\nurl = \"https://u:c4nary@far.example/mcp?key=c4nary\"\n\
                   namespaces = [\"*\"]\n";
    fs::write(file.path(), servers)?;
    for format in [&["config", "check"][..], &["config", "check", "--json"]] {
        let shown = Command::new(binary("surety")?)
            .args(format)
            .env_remove("DATABASE_URL")
            .env(super::SETTING, file.path())
            .output()
            .await?;
        let text = String::from_utf8_lossy(&shown.stdout);
        let errors = String::from_utf8_lossy(&shown.stderr);
        ensure!(shown.status.success(), "{errors}");
        for said in [
            "files: command mcp-server-filesystem",
            "TOKEN",
            "https://far.example/mcp",
            "every namespace",
        ] {
            ensure!(text.contains(said), "{said}: {text}");
        }
        ensure!(!text.contains("c4nary"), "{text}");
    }
    Ok(())
}
