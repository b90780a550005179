//! One task, as its file says it.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What kind of work a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A defect is repaired.
    Bug,
    /// Something is added.
    Feature,
    /// The code changes and its behaviour does not.
    Refactoring,
    /// A text for people is written.
    Documentation,
}

/// One change of a project.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Change {
    /// A text that stands once in a file is replaced.
    Edit {
        /// The file.
        file: String,
        /// The text.
        old: String,
        /// What takes its place.
        new: String,
    },
    /// A file is written.
    Write {
        /// The file.
        file: String,
        /// Its text.
        text: String,
    },
}

impl Change {
    /// The file that it changes.
    #[must_use]
    pub fn file(&self) -> &str {
        match self {
            Self::Edit { file, .. } | Self::Write { file, .. } => file,
        }
    }

    /// The tool call that makes it.
    #[must_use]
    pub fn call(&self) -> (&'static str, Value) {
        match self {
            Self::Edit { file, old, new } => {
                ("edit_file", json!({"path": file, "old_text": old, "new_text": new}))
            }
            Self::Write { file, text } => ("write_file", json!({"path": file, "content": text})),
        }
    }
}

/// A test that is added to a project, and the line that runs it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedTest {
    /// Its path.
    pub path: String,
    /// The line.
    pub line: String,
}

/// What the projects of a language share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The programs that it needs.
    pub needs: Vec<String>,
    /// Files of every project.
    pub files: BTreeMap<String, String>,
    /// The line that runs the project's tests.
    pub verify: String,
    /// Where a hidden check lies.
    pub hidden: AddedTest,
    /// Where the truth test lies.
    pub truth: AddedTest,
    /// A test that tests nothing.
    pub empty_test: String,
}

/// A task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The language and the name of its file.
    #[serde(skip)]
    pub id: String,
    /// The language.
    #[serde(skip)]
    pub language: String,
    /// The kind of work.
    pub kind: Kind,
    /// The goal, in one line.
    pub goal: String,
    /// The files of the project beside those of its base.
    files: BTreeMap<String, String>,
    /// Checks of the user beside the project's tests: lines, or checks with `kind`, `target` and `params`.
    #[serde(default)]
    verify: Vec<Value>,
    /// What the changelog has to say; none where it need not say anything.
    pub changelog: Option<String>,
    /// The right change, without the changelog.
    change: Vec<Change>,
    /// A change that serves the visible tests only, without the changelog.
    #[serde(default)]
    special: Vec<Change>,
    /// A hidden check of the user.
    pub hidden: Option<String>,
    /// The test that decides whether a result is right. Only the benchmark runs it.
    pub truth: String,
}

impl Task {
    /// The files of the project, those of its base included.
    pub fn files<'a>(&'a self, base: &'a Base) -> impl Iterator<Item = (&'a str, &'a str)> {
        base.files.iter().chain(&self.files).map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The tests of the project.
    pub fn tests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| is_test(path))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The right change, the changelog's last.
    #[must_use]
    pub fn change(&self) -> Vec<Change> {
        self.change.iter().cloned().chain(self.entry()).collect()
    }

    /// The change that serves the visible tests only, the changelog's last; none where the task has none.
    #[must_use]
    pub fn special_case(&self) -> Option<Vec<Change>> {
        let made = || self.special.iter().cloned().chain(self.entry()).collect();
        (!self.special.is_empty()).then(made)
    }

    /// The entry of the changelog.
    fn entry(&self) -> Option<Change> {
        self.changelog.as_ref().map(|text| Change::Edit {
            file: "CHANGELOG.md".to_owned(),
            old: "## Unreleased\n".to_owned(),
            new: format!("## Unreleased\n\n- {text}\n"),
        })
    }

    /// The user's checks, by their ids: the tests, the changelog, the hidden check, and the others.
    #[must_use]
    pub fn checks(&self, base: &Base) -> Vec<Value> {
        let mut checks =
            vec![json!({"id": "tests", "kind": "command_success", "target": base.verify})];
        if let Some(text) = &self.changelog {
            checks.push(json!({"id": "changelog", "kind": "content_contains",
                               "target": "CHANGELOG.md", "params": {"contains": text}}));
        }
        if let Some(text) = &self.hidden {
            let AddedTest { path, line } = &base.hidden;
            checks.push(json!({"id": "hidden", "kind": "command_success", "target": line,
                               "overlay": {path: text}}));
        }
        for (number, written) in (1..).zip(&self.verify) {
            let mut check = match written.as_str() {
                Some(line) => json!({"kind": "command_success", "target": line}),
                None => written.clone(),
            };
            check["id"] = json!(format!("check-{number}"));
            checks.push(check);
        }
        checks
    }
}

fn is_test(path: &str) -> bool {
    path.starts_with("test/") || path.starts_with("tests/") || path.starts_with("test_")
}

/// All tasks, and the bases by language.
#[derive(Debug)]
pub struct Tasks {
    /// The tasks, by language and name.
    pub tasks: Vec<Task>,
    /// The bases by language.
    pub bases: BTreeMap<String, Base>,
}

impl Tasks {
    /// Reads all of them.
    ///
    /// # Errors
    /// A file cannot be read, or a language has no base.
    pub fn read() -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/loop");
        let text = std::fs::read_to_string(folder.join("bases.yaml"))?;
        let bases: BTreeMap<String, Base> = serde_saphyr::from_str(&text).context("bases.yaml")?;
        let mut tasks = Vec::new();
        for language in bases.keys() {
            for path in yaml_files(&folder.join("tasks").join(language))? {
                let text = std::fs::read_to_string(&path)?;
                let read = serde_saphyr::from_str(&text);
                let task: Task = read.with_context(|| path.display().to_string())?;
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let id = format!("{language}/{name}");
                tasks.push(Task { id, language: language.clone(), ..task });
            }
        }
        Ok(Self { tasks, bases })
    }

    /// The base of a task.
    ///
    /// # Errors
    /// Its language has none.
    pub fn base(&self, task: &Task) -> Result<&Base> {
        self.bases.get(&task.language).with_context(|| format!("{} has no base", task.language))
    }

    /// The languages of which a program is not on this machine, and the program.
    #[must_use]
    pub fn missing(&self) -> BTreeMap<&str, &str> {
        let missing = |base: &'_ Base| base.needs.iter().position(|program| !is_in_path(program));
        let found = self.bases.iter().filter_map(|(language, base)| {
            let program = missing(base).and_then(|place| base.needs.get(place))?;
            Some((language.as_str(), program.as_str()))
        });
        found.collect()
    }
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
