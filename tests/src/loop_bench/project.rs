//! The project of a task on the disk: as it begins, changed, and asked for the truth.

use super::task::{Base, Change, Task};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// How long a line may take.
const LINE: Duration = Duration::from_secs(120);
/// The bytes that are kept of what a line wrote.
const SAID_BYTES: usize = 1500;
/// Folders that hold what was built: a clean copy has none of them.
const BUILT: [&str; 5] = [".git", "target", "build", "__pycache__", "node_modules"];

/// Whether a result is right.
#[derive(Debug, Clone)]
pub struct Truth {
    /// Whether it is.
    pub holds: bool,
    /// The end of what the truth test wrote.
    pub said: String,
}

/// A project on the disk. It is removed with the value's end.
pub struct Project {
    home: TempDir,
}

impl Project {
    /// The project of a task as it begins: a git repository with one commit.
    ///
    /// # Errors
    /// A file cannot be written, or git failed.
    pub async fn create(task: &Task, base: &Base) -> Result<Self> {
        let project = Self::of_files(task.files(base))?;
        let commit = "git init -q -b main && git add -A && git -c user.name=Test \
                      -c user.email=test@localhost -c commit.gpgsign=false commit -qm start";
        let (done, said) = sh(project.path(), commit).await?;
        ensure!(done, "{}: {said}", task.id);
        Ok(project)
    }

    fn of_files<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let project = Self { home: tempfile::tempdir()? };
        for (path, text) in files {
            project.write(path, text)?;
        }
        Ok(project)
    }

    /// Its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Makes changes.
    ///
    /// # Errors
    /// A text to be replaced does not stand in its file exactly once.
    pub fn apply(&self, changes: &[Change]) -> Result<()> {
        for change in changes {
            match change {
                Change::Write { file, text } => self.write(file, text)?,
                Change::Edit { file, old, new } => {
                    let before = std::fs::read_to_string(self.path().join(file))
                        .with_context(|| file.clone())?;
                    let places = before.matches(old.as_str()).count();
                    ensure!(places == 1, "{file}: the text to replace stands {places} times in it");
                    self.write(file, &before.replace(old.as_str(), new))?;
                }
            }
        }
        Ok(())
    }

    /// Asks the truth test of the task, in a clean copy with the tests as they were. It runs what is in the project
    /// without a sandbox.
    ///
    /// # Errors
    /// The copy cannot be made, or the test does not end.
    pub async fn truth(&self, task: &Task, base: &Base) -> Result<Truth> {
        let copy = Self { home: tempfile::tempdir()? };
        copy_sources(self.path(), copy.path())?;
        for (path, text) in task.tests() {
            copy.write(path, text)?;
        }
        copy.write(&base.truth.path, &task.truth)?;
        let (mut holds, mut said) = sh(copy.path(), &base.truth.line).await?;
        if let Some(entry) = &task.changelog {
            let text = std::fs::read_to_string(copy.path().join("CHANGELOG.md"));
            if !text.unwrap_or_default().contains(entry.as_str()) {
                holds = false;
                said.push_str("\nthe changelog does not say it");
            }
        }
        Ok(Truth { holds, said })
    }
}

/// Copies the files of a project, but for what was built. Links are left out: they could lead out of the project.
fn copy_sources(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        let target: PathBuf = to.join(&name);
        if BUILT.iter().any(|built| name == *built) || kind.is_symlink() {
            continue;
        }
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
            copy_sources(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Runs a line of shell with a small environment. Answers whether it succeeded, and the end of what it wrote.
async fn sh(folder: &Path, line: &str) -> Result<(bool, String)> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env_clear().stdin(Stdio::null());
    for name in ["PATH", "HOME", "LANG", "RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let child = command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let Ok(output) = tokio::time::timeout(LINE, child.wait_with_output()).await else {
        if let Some(group) = group {
            killpg(group, Signal::SIGKILL)?;
        }
        return Ok((false, format!("{line} did not end within {} s", LINE.as_secs())));
    };
    let output = output?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let from = said.ceil_char_boundary(said.len().saturating_sub(SAID_BYTES));
    Ok((output.status.success(), said.get(from..).unwrap_or_default().trim().to_owned()))
}
