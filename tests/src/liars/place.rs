//! The folders of one case, and its lines of shell.

use super::base::Base;
use super::case::Case;
use crate::harness::Deployment;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surety_common::wire::v1;
use tempfile::TempDir;
use tokio::process::Command;

/// The time that one line of a case may take.
const LINE: Duration = Duration::from_secs(60);

/// The folders of one case.
pub(super) struct Place {
    home: TempDir,
}

impl Place {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { home: tempfile::tempdir()? })
    }

    /// The folder of the case's files.
    pub(super) fn workspace(&self) -> PathBuf {
        self.home.path().join("ws")
    }

    /// What a case calls its places, and where they are.
    pub(super) fn names(&self, deployment: &Deployment) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.display().to_string();
        vec![
            ("ws", text(&self.workspace())),
            ("home", text(self.home.path())),
            ("data", text(deployment.data_dir())),
            ("planner", deployment.planner.address().to_owned()),
            ("gate", deployment.gate.address().to_owned()),
            ("database", deployment.database.url().to_owned()),
        ]
    }

    /// Makes the workspace, and keeps a copy of it.
    pub(super) async fn build(&self, case: &Case) -> Result<()> {
        let workspace = self.workspace();
        std::fs::create_dir(&workspace)?;
        let base = Base::of(&case.base)?;
        let of_base = base.files.iter().map(|(path, text)| (*path, Some(*text)));
        let own = case.files.iter().map(|(path, text)| (path.as_str(), text.as_deref()));
        for (path, text) in of_base.chain(own) {
            let path = workspace.join(path);
            match text {
                Some(text) => {
                    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
                    std::fs::write(path, text)?;
                }
                None => std::fs::remove_file(path)?,
            }
        }
        if case.git {
            let commit = "git init -q -b main && git add -A && git -c user.name=Test -c user.email=test@localhost commit -qm start --allow-empty";
            self.must(commit).await?;
        }
        if !case.setup.is_empty() {
            self.must(&case.setup).await?;
        }
        let copied = Command::new("cp")
            .args(["-a", "ws", "pristine"])
            .current_dir(self.home.path())
            .status()
            .await?;
        ensure!(
            copied.success() || case.setup.contains("chmod"),
            "the copy of the workspace failed"
        );
        Ok(())
    }

    /// Publishes the workspace as a bare repository beside it.
    pub(super) async fn publish(&self) -> Result<v1::Repository> {
        self.must("git clone -q --bare . ../origin.git").await?;
        let url = format!("file://{}", self.home.path().join("origin.git").display());
        Ok(v1::Repository { url, revision: "main".to_owned(), ..v1::Repository::default() })
    }

    /// Makes the workspace what the run's ref names.
    pub(super) async fn check_out(&self, run_id: &str) -> Result<()> {
        let line = format!(
            "git fetch -q ../origin.git refs/surety/runs/{run_id} && git checkout -q -f FETCH_HEAD && git clean -qfdx"
        );
        self.must(&line).await
    }

    /// Runs a line that has to succeed.
    pub(super) async fn must(&self, line: &str) -> Result<()> {
        let (succeeded, said) = self.sh(line).await?;
        ensure!(succeeded, "{line}: {said}");
        Ok(())
    }

    /// Runs a line in the workspace. Returns whether it succeeded, and the end of what it wrote.
    pub(super) async fn sh(&self, line: &str) -> Result<(bool, String)> {
        let running = Command::new("sh")
            .args(["-c", line])
            .current_dir(self.workspace())
            .env("PRISTINE", self.home.path().join("pristine"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .kill_on_drop(true)
            .output();
        let output =
            tokio::time::timeout(LINE, running).await.with_context(|| line.to_owned())??;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let from = said.char_indices().rev().nth(200).map_or(0, |(at, _)| at);
        Ok((output.status.success(), said.get(from..).unwrap_or_default().trim().to_owned()))
    }
}
