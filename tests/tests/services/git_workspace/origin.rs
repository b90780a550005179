//! A bare repository on disk.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A bare repository with one commit on the branch `main` and the tag `v1`.
pub(crate) struct Origin {
    folder: TempDir,
}

impl Origin {
    pub(crate) fn new() -> Result<Self> {
        Self::with(|tree| Ok(std::fs::write(tree.join("README.md"), "old\n")?))
    }

    pub(crate) fn with(fill: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let tree = folder.path().join("seed");
        std::fs::create_dir(&tree)?;
        fill(&tree)?;
        let git = |arguments: &[&str]| run(&tree, arguments);
        git(&["init", "--quiet", "--initial-branch=main"])?;
        git(&["add", "--all", "--force"])?;
        git(&["commit", "--quiet", "-m", "start"])?;
        git(&["tag", "-a", "-m", "one", "v1"])?;
        git(&["clone", "--quiet", "--bare", ".", "../team/origin.git"])?;
        Ok(Self { folder })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("team/origin.git")
    }

    /// The folder that an HTTP server serves.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("team")
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// The beginning of its address.
    pub(crate) fn prefix(&self) -> String {
        format!("file://{}", self.root().display())
    }

    /// What git says of the bare repository.
    pub(crate) fn git(&self, arguments: &[&str]) -> Result<String> {
        run(&self.path(), arguments)
    }

    /// The content of a file in a commit.
    pub(crate) fn file(&self, commit: &str, path: &str) -> Result<String> {
        self.git(&["show", &format!("{commit}:{path}")])
    }

    /// The subjects of the commits from the branch to this commit, the oldest first.
    pub(crate) fn subjects(&self, commit: &str) -> Result<Vec<String>> {
        let log = self.git(&["log", "--reverse", "--format=%s", &format!("main..{commit}")])?;
        Ok(log.lines().map(str::to_owned).collect())
    }

    /// The commit that a reference names; none where it is not there.
    pub(crate) fn reference(&self, name: &str) -> Option<String> {
        let found = self.git(&["rev-parse", "--verify", "--quiet", name]).ok()?;
        Some(found.trim().to_owned())
    }

    /// Lets a hook of the repository decide about each push.
    pub(crate) fn hook(&self, name: &str, body: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path().join("hooks").join(name);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n"))?;
        Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
    }
}

fn run(folder: &Path, arguments: &[&str]) -> Result<String> {
    let ended = Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@t", "-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(folder)
        .output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "git {}: {said}", arguments.join(" "));
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
