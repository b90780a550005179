//! One case, as its file says it.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The folder and the name of its file.
    #[serde(skip)]
    pub id: String,
    /// Its text, whose names of places are replaced when it is played.
    #[serde(skip)]
    pub text: String,
    /// What kind of claim it is.
    pub class: String,
    /// What happens in it.
    pub title: String,
    /// The rule that decides it.
    pub rule: String,
    /// What the verdict must be.
    pub expect: Expected,
    /// A part of the reason for which it must be refused.
    #[serde(default)]
    pub because: String,
    /// Cautions that the verdict must have.
    #[serde(default)]
    pub cautions: Vec<String>,
    /// The mechanism without which it cannot be right yet.
    pub waits_for: Option<String>,
    /// Whether it takes more than a few seconds.
    #[serde(default)]
    pub slow: bool,
    /// Programs without which it is skipped.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The project in the workspace, before `files`.
    #[serde(default = "default_base")]
    pub base: String,
    /// Files of the workspace; null takes one of the base away.
    #[serde(default)]
    pub files: BTreeMap<String, Option<String>>,
    /// Whether the workspace is a repository with one commit.
    #[serde(default)]
    pub git: bool,
    /// Whether the run works on a clone of that repository. The truth is then asked of the commit of its ref.
    #[serde(default)]
    pub repository: bool,
    /// A line of shell that prepares the workspace.
    #[serde(default)]
    pub setup: String,
    /// The run's workspace, where it is another folder than the one of `files`.
    pub workspace: Option<String>,
    /// The user's checks: a line that must succeed, or a check.
    #[serde(default)]
    pub checks: Vec<Value>,
    /// The user's checks as the plan's text carries them.
    #[serde(default)]
    pub text_checks: Vec<Value>,
    /// The plan's own checks.
    #[serde(default)]
    pub plan_checks: Vec<Value>,
    /// The plan's todos.
    #[serde(default)]
    pub todos: Vec<Value>,
    /// The steps; `script` alone is one step.
    #[serde(default)]
    pub steps: Vec<Value>,
    /// The calls of the only step.
    #[serde(default)]
    pub script: Vec<Value>,
    /// What the only step says at its end.
    #[serde(default)]
    pub says: String,
    /// What an agent that decides the steps over the API replies, turn by turn, and what happens beside it.
    #[serde(default)]
    pub agent: Vec<Value>,
    /// What the service's model replies, request by request: as `agent`, and `plan` for a plan. Without steps it plans the
    /// goal.
    #[serde(default)]
    pub model: Vec<Value>,
    /// What a worker that serves the tool `remote_build` says of its calls, in their order.
    #[serde(default)]
    pub worker: Vec<Value>,
    /// The run's policy.
    #[serde(default)]
    pub policy: Policy,
    /// The run's namespace; the default one where it is empty.
    #[serde(default)]
    pub namespace: String,
    /// The run's limits; no repairs and no replans where it names none.
    #[serde(default)]
    pub limits: BTreeMap<String, u32>,
    /// Calls of the API, and changes by another process, while the run is under way.
    #[serde(default)]
    pub direct: Vec<Value>,
    /// The run that follows on this one from one of its steps, and that is judged in its place.
    pub fork: Option<Fork>,
    /// A line of shell that succeeds when the claim is true; `tests` stands for the base's own.
    #[serde(default)]
    pub truth: String,
}

/// A fork of the run, once that is at rest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The step that it begins with.
    pub from: String,
    /// A line of shell in the workspace before that.
    #[serde(default)]
    pub sh: String,
}

/// What a run's policy says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Whether the steps' receipts decide.
    #[serde(default)]
    pub receipts_only: bool,
    /// Whether the plan's own checks alone are refused.
    #[serde(default)]
    pub require_independent: bool,
    /// What is done in doubt: `ask`, `refuse` or `allow`.
    #[serde(default)]
    pub in_doubt: String,
    /// Cautions that refuse.
    #[serde(default)]
    pub refuse_on: Vec<String>,
    /// Globs of further check inputs.
    #[serde(default)]
    pub protect: Vec<String>,
    /// Globs of files that the run may change.
    #[serde(default)]
    pub may_change: Vec<String>,
    /// When failing tests are added: `auto`, `always` or `never`.
    #[serde(default)]
    pub canary: String,
    /// Lines that prepare the views of checks.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Verification commands, by their names.
    #[serde(default)]
    pub verify_tools: BTreeMap<String, Vec<String>>,
    /// Ports of the host's loopback that commands reach.
    #[serde(default)]
    pub loopback_ports: Vec<u32>,
    /// Hosts that commands reach.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// What the verdict must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Accepted.
    Accepted,
    /// Not accepted: refused, not created, or waiting for a person.
    Refused,
    /// Accepted, and the verdict says that the plan set every check that counts.
    Weak,
}

/// Which rate a case counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Claims that are false, or that nothing proves.
    Lies,
    /// True runs.
    Honest,
    /// Commands that reach for what they may not.
    Isolation,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 3] = [Self::Lies, Self::Honest, Self::Isolation];

    /// The folder of its cases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lies => "lies",
            Self::Honest => "honest",
            Self::Isolation => "isolation",
        }
    }
}

impl Case {
    /// Reads a case.
    ///
    /// # Errors
    /// The text is no case.
    pub fn read(id: &str, text: &str) -> Result<Self> {
        let case: Self = serde_saphyr::from_str(text).with_context(|| format!("{id}.yaml"))?;
        ensure!(
            case.script.is_empty() || case.steps.is_empty(),
            "{id}.yaml: a script or steps, not both"
        );
        Ok(Self { id: id.to_owned(), text: text.to_owned(), ..case })
    }

    /// Whether the model makes the plan of the run.
    pub(super) fn plans_by_model(&self) -> bool {
        self.model.first().is_some_and(|said| said.get("plan").is_some())
    }

    /// The case with the names of places (`<ws>`) replaced.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn at(&self, places: &[(&str, String)]) -> Result<Self> {
        let replace = |text: String, (name, place): &(&str, String)| {
            text.replace(&format!("<{name}>"), place)
        };
        Self::read(&self.id, &places.iter().fold(self.text.clone(), replace))
    }

    /// The part that its folder names.
    pub fn part(&self) -> Part {
        let is_here = |part: &Part| self.id.starts_with(part.as_str());
        Part::ALL.into_iter().find(is_here).unwrap_or(Part::Lies)
    }
}

/// Every case, sorted by its id.
///
/// # Errors
/// A file that is no case.
pub fn all() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for part in Part::ALL {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("liars").join(part.as_str());
        let files = std::fs::read_dir(&folder)
            .with_context(|| format!("{}", folder.display()))?
            .map(|entry| Ok(entry?.path()));
        let mut files = files.collect::<Result<Vec<PathBuf>>>()?;
        files.retain(|file| file.extension().is_some_and(|kind| kind == "yaml"));
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let id = format!("{}/{name}", part.as_str());
            cases.push(Case::read(&id, &std::fs::read_to_string(&file)?)?);
        }
    }
    Ok(cases)
}

fn default_base() -> String {
    "sums".to_owned()
}
