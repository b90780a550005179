//! What a round knows before its first command.

use super::originals::Originals;
use super::recorded::Recorded;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use surety_common::domain::check::{CheckKind, Owner};
use surety_common::domain::check_inputs::{Exam, GitChange};
use surety_common::domain::manifest::Manifest;
use surety_common::domain::plan::Plan;
use surety_common::domain::run::Policy;
use surety_common::domain::verification::{Observation, Probe, Verification};

/// What a round got from the start of the run.
#[derive(Debug)]
pub(super) struct Given {
    /// The check inputs.
    pub(super) originals: Arc<Originals>,
    /// Files of now with some parts of the start.
    pub(super) merged: BTreeMap<Vec<u8>, Merged>,
    /// Changed manifests and lock files that name a dependency which they did not name at the start.
    pub(super) added: Vec<String>,
    /// These dependencies.
    pub(super) named: Vec<String>,
    /// What their package managers installed.
    pub(super) installed: Vec<PathBuf>,
    /// The files of repositories that the views of each line have, and what stands in their places.
    pub(super) repositories: BTreeMap<String, Vec<(PathBuf, PathBuf)>>,
}

impl Given {
    /// Whether the views of a line have a file as it was at the start.
    pub(super) fn has(&self, line: &str, path: &[u8]) -> bool {
        let of_line = self.repositories.get(line).into_iter().flatten();
        self.originals.has(path)
            || of_line.into_iter().any(|(place, _)| place.as_os_str().as_bytes() == path)
    }
}

/// A file of which a view has some parts as they were at the start.
#[derive(Debug)]
pub(super) struct Merged {
    /// What a view has.
    pub(super) put: Put,
    /// What the run did to these parts.
    pub(super) notes: Vec<String>,
}

/// What a view has of a merged file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Put {
    /// The file of now.
    Nothing,
    /// The same, because the file of the start was not kept.
    Unknown,
    /// This text.
    Text(String),
    /// The file of the start.
    Original,
}

impl Merged {
    /// Whether a view has another file than the workspace.
    pub(super) const fn differs(&self) -> bool {
        matches!(self.put, Put::Text(_) | Put::Original)
    }
}

/// The workspace at the start of a round, against that of the run.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// The workspace at the start of the round; none when nothing could have written since the start.
    pub(super) now: Option<Arc<Manifest>>,
    /// What the run did to the check inputs of each line.
    pub(super) exams: BTreeMap<String, Exam>,
    /// The scripts of each line that are products because other files import them.
    pub(super) imported: BTreeMap<String, Vec<String>>,
    /// What steps did to the repository.
    pub(super) git: Vec<GitChange>,
    /// What repositories record beside the files.
    pub(super) recorded: Vec<Recorded>,
    /// Files whose content steps changed: a view gets them with a new time, so that no build answers for an
    /// older text.
    pub(super) changed: Vec<Vec<u8>>,
    /// Changed manifests of package managers, changed, added or deleted sources, and documents with examples, of
    /// which a view may have some parts as they were at the start.
    pub(super) mergeable: Vec<Vec<u8>>,
    /// Ignored files and folders that steps wrote.
    pub(super) ignored: Vec<PathBuf>,
    /// Whether ignored files of the start cannot be told from later ones.
    pub(super) ignored_unknown: bool,
    /// Whether tests may load anything that steps changed: any file that is no check input and no plain document, an
    /// added one of either kind, or what a manifest says.
    pub(super) loadable: bool,
    /// Whether steps changed a file that is no check input.
    pub(super) touched: bool,
    /// Manifests and lock files of package managers that steps changed.
    pub(super) dependencies: Vec<String>,
    /// The first ignored file of the start that a package manager installed, and that steps changed or deleted.
    pub(super) packages_lost: Option<String>,
    /// The lines that prepare the views.
    pub(super) prepare: Vec<Probe>,
}

/// What stands for the line of the project's own tests, which is chosen when they run.
pub(super) const OWN_TESTS: &str = "";

/// The line of a probe that runs with the original check inputs; empty for the project's own tests.
pub(super) fn line_with_originals(probe: &Probe) -> Option<&str> {
    match (&probe.observation, probe.owner) {
        (Observation::Command(line), Owner::User | Owner::Operator)
        | (Observation::Prepare(line), _) => Some(line),
        (Observation::Verification(verification), _) => Some(&verification.line),
        (Observation::ProjectTests, _) => Some(OWN_TESTS),
        (Observation::Command(_), Owner::Plan)
        | (Observation::Change(_) | Observation::File { .. } | Observation::Content { .. }, _) => {
            None
        }
    }
}

/// The lines of a plan's checks, of those of its steps, of what prepares their views and of named verification
/// commands: they run with the original check inputs.
pub fn lines_with_originals(plan: &Plan, policy: &Policy) -> Vec<String> {
    let all = || plan.verify.iter().chain(plan.steps.iter().flat_map(|step| &step.verify));
    let checks =
        all().filter(|check| check.kind == CheckKind::CommandSuccess && check.owner != Owner::Plan);
    let prepare = policy.prepare_lines().map(|(_, line)| line.to_owned());
    let named = all()
        .filter_map(|check| Verification::of_check(check, policy).ok().flatten())
        .map(|(_, verification)| verification.line);
    checks.map(|check| check.target.clone()).chain(prepare).chain(named).collect()
}
