//! The command line for tasks, agents, hooks and mail against real services: what it prints, as text and as JSON, its
//! exit codes, and the stable codes of what it refuses.

mod agents;
mod connect;
mod mail;
mod tasks;
mod webhooks;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;
use surety_e2e::agent::secret;
use surety_e2e::harness::{PATIENCE, binary};
use surety_e2e::toolchain::Stage;
use tempfile::{NamedTempFile, TempDir};
use tokio::process::Command;
use tokio::time::timeout;

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    errors: String,
}

/// The command line with the token of one identity, without the settings of this machine.
struct Shell {
    url: String,
    token: NamedTempFile,
    folder: TempDir,
}

impl Shell {
    fn of(stage: &Stage, identity: &str) -> Result<Self> {
        let mut token = NamedTempFile::new()?;
        token.write_all(secret(identity).as_bytes())?;
        let folder = tempfile::tempdir()?;
        Ok(Self { url: stage.deployment.planner.url(), token, folder })
    }

    async fn run(&self, words: &[&str]) -> Result<Ended> {
        let running = Command::new(binary("surety")?)
            .args(words)
            .env("SURETY_URL", &self.url)
            .env("SURETY_TOKEN_FILE", self.token.path())
            .env("SURETY_DATA_DIR", self.folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = timeout(PATIENCE, running).await.context("the command does not end")??;
        Ok(Ended {
            code: ended.status.code(),
            out: String::from_utf8(ended.stdout)?,
            errors: String::from_utf8(ended.stderr)?,
        })
    }

    /// What a command prints that succeeds.
    async fn text(&self, words: &[&str]) -> Result<String> {
        let ended = self.run(words).await?;
        ensure!(ended.code == Some(0) && ended.errors.is_empty(), "{words:?}: {ended:#?}");
        Ok(ended.out)
    }

    /// The one line of JSON that a command prints for a script.
    async fn json(&self, words: &[&str]) -> Result<Value> {
        let out = self.text(&[words, &["--json"]].concat()).await?;
        ensure!(out.lines().count() == 1, "{words:?}: {out}");
        Ok(serde_json::from_str(&out)?)
    }

    /// A command fails with 1 and this code, for people and for scripts, and prints no result.
    async fn refuses(&self, words: &[&str], code: &str) -> Result<()> {
        let ended = self.run(words).await?;
        let is_refused = ended.code == Some(1) && ended.out.is_empty();
        let says = ended.errors.starts_with(&format!("error[{code}]: "));
        ensure!(is_refused && says, "{words:?} is not {code}: {ended:#?}");
        let ended = self.run(&[words, &["--json"]].concat()).await?;
        let said: Value = serde_json::from_str(&ended.errors).context(ended.errors.clone())?;
        ensure!(ended.code == Some(1) && ended.out.is_empty(), "{words:?}: {ended:#?}");
        ensure!(said["error"]["code"] == code, "{words:?}: {said}");
        ensure!(said["error"]["message"].as_str().is_some_and(|it| !it.is_empty()), "{said}");
        Ok(())
    }
}

/// The words of a table's row that begins with an id.
fn row(table: &str, id: &str) -> Result<Vec<String>> {
    let found = table.lines().find(|line| line.split_whitespace().next() == Some(id));
    let found = found.with_context(|| format!("no row of {id} in\n{table}"))?;
    Ok(found.split_whitespace().map(str::to_owned).collect())
}
