//! Real bare git repositories.

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A bare repository; its address is its path.
#[derive(Debug, Clone)]
pub struct Bare {
    path: PathBuf,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFact {
    /// It in hexadecimal.
    pub commit: String,
    /// Its committer's date.
    pub at: DateTime<Utc>,
    /// Its author.
    pub author: String,
    /// Its message.
    pub message: String,
}

impl Bare {
    /// Makes an empty repository at a path.
    ///
    /// # Errors
    /// git fails.
    pub fn create(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path)?;
        let bare = Self { path: path.to_owned() };
        bare.git(&["init", "--quiet", "--bare", "--initial-branch=main"], None)?;
        Ok(bare)
    }

    /// Its path, from which it can be cloned and to which can be pushed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Commits files upon a branch, which is begun at `main` where it is new, and returns the commit.
    ///
    /// # Errors
    /// git fails.
    pub fn commit(&self, branch: &str, files: &[(&str, &str)], message: &str) -> Result<String> {
        let parent = self.head(branch)?.map_or_else(|| self.head("main"), |head| Ok(Some(head)))?;
        let from = parent.map(|parent| format!("from {parent}\n")).unwrap_or_default();
        let data = |text: &str| format!("data {}\n{text}\n", text.len());
        let mut script = format!(
            "commit refs/heads/{branch}\ncommitter double <double@forge.example> now\n{}{from}",
            data(message)
        );
        for (path, text) in files {
            script.push_str(&format!("M 100644 inline {path}\n{}", data(text)));
        }
        self.git(&["fast-import", "--quiet", "--date-format=now"], Some(&script))?;
        self.head(branch)?.context("the commit")
    }

    /// The newest commit of a branch; none where there is no such branch.
    ///
    /// # Errors
    /// git cannot be started.
    pub fn head(&self, branch: &str) -> Result<Option<String>> {
        let name = format!("refs/heads/{branch}");
        let found = self.git(&["for-each-ref", "--format=%(objectname)", &name], None)?;
        Ok(found.lines().next().map(str::to_owned).filter(|commit| !commit.is_empty()))
    }

    /// Makes a reference name a commit, as forges do for each pull request.
    ///
    /// # Errors
    /// git fails.
    pub fn refer(&self, reference: &str, commit: &str) -> Result<()> {
        self.git(&["update-ref", reference, commit], None).map(drop)
    }

    /// Removes a reference.
    ///
    /// # Errors
    /// git fails.
    pub fn forget(&self, reference: &str) -> Result<()> {
        self.git(&["update-ref", "-d", reference], None).map(drop)
    }

    /// The unified diff of a branch since it left another.
    ///
    /// # Errors
    /// git fails.
    pub fn diff(&self, base: &str, head: &str) -> Result<String> {
        self.git(&["diff", &format!("{base}...{head}")], None).map(|text| format!("{text}\n"))
    }

    /// The files of that diff: letter of the change, added and removed lines, path.
    ///
    /// # Errors
    /// git fails.
    pub fn files(&self, base: &str, head: &str) -> Result<Vec<(char, u64, u64, String)>> {
        let range = format!("{base}...{head}");
        let names = self.git(&["diff", "--no-renames", "--name-status", &range], None)?;
        let numbers = self.git(&["diff", "--no-renames", "--numstat", &range], None)?;
        let pairs = names.lines().zip(numbers.lines());
        Ok(pairs
            .filter_map(|(name, number)| {
                let (letter, path) = name.split_once('\t')?;
                let mut parts = number.split('\t').map(|part| part.parse().unwrap_or_default());
                let (added, removed) = (parts.next()?, parts.next()?);
                Some((letter.chars().next()?, added, removed, path.to_owned()))
            })
            .collect())
    }

    /// Merges a commit into a branch; none where they conflict.
    ///
    /// # Errors
    /// git fails.
    pub fn merge(&self, branch: &str, head: &str, message: &str) -> Result<Option<String>> {
        let base = self.head(branch)?.context("the base branch")?;
        let Ok(tree) = self.git(&["merge-tree", "--write-tree", &base, head], None) else {
            return Ok(None);
        };
        let tree = tree.lines().next().context("a tree")?;
        let arguments = ["commit-tree", tree, "-m", message, "-p", &base, "-p", head];
        let commit = self.git(&arguments, None)?;
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &commit], None)?;
        Ok(Some(commit))
    }

    /// Commits of a branch or a commit, the newest first, at most 200.
    ///
    /// # Errors
    /// git fails, or does not know the name.
    pub fn commits(&self, from: &str) -> Result<Vec<CommitFact>> {
        let format = "--format=%H%x1f%cI%x1f%an%x1f%B%x1e";
        let text = self.git(&["log", "-n200", format, from, "--"], None)?;
        let read = |record: &str| {
            let mut parts = record.trim().split('\u{1f}');
            let (commit, at, author) = (parts.next()?, parts.next()?, parts.next()?);
            Some(CommitFact {
                commit: commit.to_owned(),
                at: DateTime::parse_from_rfc3339(at).ok()?.to_utc(),
                author: author.to_owned(),
                message: parts.next()?.trim().to_owned(),
            })
        };
        Ok(text.split('\u{1e}').filter_map(read).collect())
    }

    fn git(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        use std::io::Write;
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&self.path).args(arguments).current_dir(&self.path);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "double");
            command.env(format!("GIT_{role}_EMAIL"), "double@forge.example");
        }
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child =
            command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(text.as_bytes())?;
        }
        let ended = child.wait_with_output()?;
        if !ended.status.success() {
            bail!("git {arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
        }
        Ok(String::from_utf8_lossy(&ended.stdout).trim_end().to_owned())
    }
}
