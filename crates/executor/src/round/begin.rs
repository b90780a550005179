//! What a round finds out before its first command: what steps changed since the start.

use super::opening::{Given, Merged, Opening, line_with_originals};
use super::{Originals, Round, Start};
use crate::blocking::blocking;
use crate::snapshot::Reach;
use crate::tool::{ErrorCode, RelPath, ToolError};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check_inputs::{Exam, is_merged, merged};
use surety_common::domain::manifest::{Change, Kind, Manifest, changes};
use surety_common::domain::source_tests::{Comparison, compare, may_have_tests};
use surety_common::domain::verification::Probe;

/// The largest manifest that is merged, in bytes.
const MAX_MERGED: u64 = 8 << 20;

/// Paths that are named where the workspace changed during a round.
const MAX_MOVED: usize = 5;

impl Round {
    /// Compares the workspace with the start, where a probe runs a command. Call it before the first probe.
    /// Answers whether the round needs the originals, which [`Round::give`] takes.
    ///
    /// # Errors
    /// As [`Round::snapshot`]. Every command of the round then fails with this error.
    pub async fn open(&self, probes: &[Probe]) -> Result<bool, ToolError> {
        let lines: Vec<_> = probes.iter().filter_map(line_with_originals).collect();
        let runs = probes.iter().any(super::runs_command);
        let opening = match self.start() {
            Ok(Some(start)) if runs => self.compare(start, &lines).await,
            Ok(_) => Ok(Opening::default()),
            Err(error) => Err(error),
        };
        let answer = opening.as_ref().map_err(Clone::clone).map(|opening| {
            !opening.mergeable.is_empty()
                || opening.exams.values().any(|exam| !exam.put_back.is_empty())
        });
        // Without resources of the machine it is tried again.
        if !answer.as_ref().is_err_and(|error| error.code == ErrorCode::MachineExhausted) {
            drop(self.opening.set(opening));
        }
        answer
    }

    async fn compare(&self, start: &Start, lines: &[&str]) -> Result<Opening, ToolError> {
        let now = self.snapshot_of(start, Reach::Everything).await?;
        let exam = |line: &&str| {
            ((*line).to_owned(), Exam::of(&self.setup.rules, line, &start.manifest, &now))
        };
        let known = &start.manifest.place;
        let ignored_unknown = known.boot.is_empty() || known.mount == 0 || *known != now.place;
        let changed = changed(&start.manifest, &now);
        let rules = &self.setup.rules;
        let mergeable = changes(&start.manifest, &now).filter_map(|change| {
            let path = change.path();
            let is_one = is_merged(&String::from_utf8_lossy(path)) && is_file(&change)
                || may_have_tests(path) && rules.kind_of(path).is_none();
            let is_changed =
                change.is_of_content() && !change.is_ignored() && change.before.is_some();
            (is_one && is_changed && !rules.may_change(path)).then(|| path.to_vec())
        });
        Ok(Opening {
            mergeable: mergeable.collect(),
            exams: lines.iter().map(exam).collect(),
            changed,
            ignored: if ignored_unknown { Vec::new() } else { ignored(&start.manifest, &now) },
            ignored_unknown: ignored_unknown && now.entries().iter().any(|entry| entry.ignored),
            dependencies: dependencies(&start.manifest, &now),
            now: Some(now),
        })
    }

    /// Takes the originals, where [`Round::open`] asked for them, and reads the files that are merged with
    /// them.
    ///
    /// # Errors
    /// The workspace cannot be opened.
    pub async fn give(self: &Arc<Self>, originals: Arc<Originals>) -> Result<(), ToolError> {
        let round = Arc::clone(self);
        blocking(move || {
            let merged = round.merge(&originals)?;
            drop(round.originals.set(Given { originals, merged }));
            Ok(())
        })
        .await?
    }

    fn merge(&self, originals: &Originals) -> Result<BTreeMap<Vec<u8>, Merged>, ToolError> {
        let workspace = self.setup.folder.workspace()?;
        let merge = |path: &Vec<u8>| {
            let place = RelPath::root().join(OsStr::from_bytes(path));
            let now = workspace.read(&place, MAX_MERGED).unwrap_or_default();
            let now = String::from_utf8(now).unwrap_or_default();
            let name = String::from_utf8_lossy(path);
            let before = originals.text(path)?;
            let merged = if is_merged(&name) {
                let notes = vec![format!("changed {name} (test keys)")];
                Merged { text: Some(merged(&name, before, &now)?), notes }
            } else {
                with_tests(path, before, &now)?
            };
            Some((path.clone(), merged))
        };
        Ok(self.opening()?.mergeable.iter().filter_map(merge).collect())
    }

    /// The paths that changed since [`Round::open`], ignored ones apart, at most a few of them. Call it after
    /// the last probe: what was observed is then not about one state of the workspace.
    ///
    /// # Errors
    /// As [`Round::snapshot`].
    pub async fn moved_paths(&self) -> Result<Vec<String>, ToolError> {
        let (Some(before), Some(start)) = (&self.opening()?.now, self.start()?) else {
            return Ok(Vec::new());
        };
        let after = self.snapshot_of(start, Reach::NotIgnored).await?;
        let moved = changes(before, &after)
            .filter(|change| change.is_of_content() && !change.is_ignored())
            .map(|change| String::from_utf8_lossy(change.path()).into_owned());
        Ok(moved.take(MAX_MOVED).collect())
    }

    pub(super) fn merged(&self) -> impl Iterator<Item = (&Path, &Merged)> {
        let merged = self.originals.get().into_iter().flat_map(|given| &given.merged);
        merged.map(|(path, merged)| (Path::new(OsStr::from_bytes(path)), merged))
    }

    pub(super) fn opening(&self) -> Result<&Opening, ToolError> {
        match (self.opening.get(), self.start()?) {
            (Some(opening), _) => opening.as_ref().map_err(Clone::clone),
            (None, None) => Ok(&self.unopened),
            (None, Some(_)) => {
                let message = "the round was not compared with the start of the run";
                Err(ToolError::new(ErrorCode::InternalError, message))
            }
        }
    }
}

/// A source file with its tests of the start; none where the run left these as they were.
fn with_tests(path: &[u8], before: &str, now: &str) -> Option<Merged> {
    let Comparison { changed, conditions, restored } = compare(path, before, now);
    let path = String::from_utf8_lossy(path);
    let changed = changed.iter().map(|name| format!("changed {path}: {name} (test)"));
    let conditions = conditions.iter().map(|name| format!("changed {path}: {name} (condition)"));
    let notes: Vec<String> = changed.chain(conditions).collect();
    (!notes.is_empty()).then_some(Merged { text: restored, notes })
}

fn is_file(change: &Change<'_>) -> bool {
    change.after.is_some_and(|entry| entry.kind == Kind::File)
}

fn changed(start: &Manifest, now: &Manifest) -> Vec<Vec<u8>> {
    changes(start, now)
        .filter(|change| change.is_of_content() && !change.is_ignored() && is_file(change))
        .map(|change| change.path().to_vec())
        .collect()
}

/// Ignored paths that are not as at the start; of a folder that was not there only the folder.
fn ignored(start: &Manifest, now: &Manifest) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for change in changes(start, now).filter(Change::is_ignored) {
        let Some(after) = change.after else { continue };
        let is_new_folder = after.kind == Kind::Folder && change.before.is_none();
        let path = Path::new(OsStr::from_bytes(change.path()));
        let is_inside = found.last().is_some_and(|folder| path.starts_with(folder));
        if !is_inside && (is_new_folder || after.kind != Kind::Folder) {
            found.push(path.to_owned());
        }
    }
    found
}

/// What package managers install by.
const DEPENDENCIES: [&str; 30] = [
    "Cargo.lock",
    "Cargo.toml",
    "Gemfile",
    "Gemfile.lock",
    "Pipfile",
    "Pipfile.lock",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "bun.lockb",
    "composer.json",
    "composer.lock",
    "deno.json",
    "deno.lock",
    "environment.yml",
    "go.mod",
    "go.sum",
    "mix.exs",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "requirements.txt",
    "setup.py",
    "uv.lock",
    "yarn.lock",
];

fn dependencies(start: &Manifest, now: &Manifest) -> Vec<String> {
    let name = |path: &[u8]| {
        let text = String::from_utf8_lossy(path).into_owned();
        let name = text.rsplit('/').next().unwrap_or(&text);
        let is_one = DEPENDENCIES.contains(&name)
            || name.starts_with("requirements") && name.ends_with(".txt")
            || name.ends_with(".csproj");
        is_one.then_some(text)
    };
    changes(start, now)
        .filter(|change| change.is_of_content() && !change.is_ignored())
        .filter_map(|change| name(change.path()))
        .collect()
}
