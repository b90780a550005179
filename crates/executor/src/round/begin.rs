//! What a round finds out before its first command: what steps changed since the start.

use super::ended::Ended;
use super::merge::mergeable;
use super::opening::{Given, Merged, Opening, Put, line_with_originals};
use super::recorded::Recorded;
use super::{Originals, Round, Start};
use crate::blocking::blocking;
use crate::snapshot::{Reach, Written};
use crate::tool::{ErrorCode, RelPath, ToolError, WriteScope};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::canary::may_be_loaded;
use surety_common::domain::check_inputs::{
    Assumed, Exam, GitChange, StartInputs, added_dependencies, ecosystem_of, installs,
    is_installed, is_mixed,
};
use surety_common::domain::manifest::{Change, Entry, Kind, Manifest, changes};
use surety_common::domain::receipt::Fact;
use surety_common::domain::verification::{Observation, Probe};

/// The largest manifest of a package manager that is compared, in bytes.
const MAX_MANIFEST: u64 = 64 << 20;
/// Paths that are named where the workspace changed during a round.
const MAX_MOVED: usize = 5;

/// What was read of the workspace at the start of a round.
struct Found {
    now: Arc<Manifest>,
    git: Vec<GitChange>,
    recorded: Vec<Recorded>,
    asked: BTreeMap<String, Vec<String>>,
}

impl Round {
    /// Reads the workspace (V0), and compares it with the start where a probe runs a command. Call it before the
    /// first probe.
    /// Answers whether the round needs the originals, which [`Round::give`] takes.
    ///
    /// # Errors
    /// As [`Round::snapshot`]. Every command of the round then fails with this error.
    pub async fn open(self: &Arc<Self>, probes: &[Probe]) -> Result<bool, ToolError> {
        let lines: Vec<_> = probes.iter().filter_map(line_with_originals).collect();
        let runs = probes.iter().any(super::runs_command);
        let opening = match self.start() {
            Ok(Some(start)) if runs => self.compare(start, &lines).await.map(|opening| {
                let prepares =
                    |probe: &&Probe| matches!(probe.observation, Observation::Prepare(_));
                let prepare = probes.iter().filter(prepares).cloned().collect();
                Opening { prepare, ..opening }
            }),
            Ok(Some(start)) => {
                let now = self.snapshot_of(start, Reach::NotIgnored).await;
                now.map(|now| Opening { now: Some(now), ..Opening::default() })
            }
            Ok(None) => Ok(Opening::default()),
            Err(error) => Err(error),
        };
        let answer = opening.as_ref().map_err(Clone::clone).map(|opening| {
            !opening.mergeable.is_empty()
                || !opening.dependencies.is_empty()
                || opening.exams.values().any(Exam::differs)
        });
        // Without resources of the machine, or with a full data folder, it is tried again.
        let passes = |error: &ToolError| {
            error.code == ErrorCode::MachineExhausted || error.code.is_of_file()
        };
        if !answer.as_ref().is_err_and(passes) {
            drop(self.opening.set(opening));
        }
        answer
    }

    /// Keeps why the workspace was not compared, once that is not tried again: each command of the round that needs it
    /// fails with this error.
    pub fn not_opened(&self, error: &ToolError) {
        // One that was kept before stays.
        drop(self.opening.set(Err(error.clone())));
    }

    async fn compare(
        self: &Arc<Self>,
        start: &Start,
        lines: &[&str],
    ) -> Result<Opening, ToolError> {
        let now = self.snapshot_of(start, Reach::Everything).await?;
        let root = self.setup.folder.workspace()?.root().to_owned();
        let state = self.git_state(start, (&root, &now)).await?;
        let git = self.git_changes(start, (&root, &now), &state).await?;
        let recorded = self.recorded(start, &now, (&state, &git)).await?;
        let asked = self.asked_commands(&start.facts.imports, lines).await?;
        let found = Found { now, git, recorded, asked };
        let round = Arc::clone(self);
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        blocking(move || round.examine(&root, &lines, found)).await?
    }

    /// Compares each line's check inputs with those of the start.
    fn examine(&self, root: &Path, lines: &[String], found: Found) -> Result<Opening, ToolError> {
        let Found { now, git, mut recorded, asked } = found;
        let Some(start) = self.start()? else { return Ok(Opening::default()) };
        let root = root.as_os_str().as_bytes();
        let inputs =
            StartInputs::new(&self.setup.rules, &start.facts.imports, &start.manifest, root)
                .asking(asked)
                .hiding(self.hiding(&start.manifest, &now)?);
        let exams = lines.iter().map(|line| {
            let mut exam = Exam::of(&inputs, line, &start.manifest, &now);
            exam.add_git(&git);
            for recorded in &mut recorded {
                let manifests = [&*start.manifest, &*now];
                let shown = recorded.examine((line, &inputs), manifests, &exam);
                exam.add_git(shown.as_slice());
            }
            (line.clone(), exam)
        });
        let exams = exams.collect();
        let known = &start.manifest.place;
        let ignored_unknown = known.boot.is_empty() || known.mount == 0 || *known != now.place;
        let changed = changed(&start.manifest, &now);
        let mergeable = mergeable(&inputs, &start.manifest, &now);
        let ignored =
            if ignored_unknown { Vec::new() } else { ignored(&inputs, &start.manifest, &now) };
        let dependencies = dependencies(&start.manifest, &now);
        Ok(Opening {
            mergeable,
            exams,
            imported: imported(&inputs, lines),
            git,
            recorded,
            changed,
            ignored,
            ignored_unknown: ignored_unknown && now.entries().iter().any(|entry| entry.ignored),
            loadable: loadable(&inputs, &start.manifest, &now) || !dependencies.is_empty(),
            touched: products(&inputs, &start.manifest, &now).next().is_some()
                || has_other_folders(&start.manifest, &now)
                || !dependencies.is_empty(),
            dependencies,
            packages_lost: packages_lost(&start.manifest, &now),
            prepare: Vec::new(),
            now: Some(now),
        })
    }

    /// Takes the originals, where [`Round::open`] asked for them, and reads the files that are merged with
    /// them.
    ///
    /// # Errors
    /// The workspace cannot be opened.
    pub async fn give(self: &Arc<Self>, originals: Arc<Originals>) -> Result<(), ToolError> {
        let taken = self.take_originals(originals).await;
        if let Err(error) = &taken {
            // No view is made without them.
            drop(self.not_given.set(error.clone()));
        }
        taken
    }

    async fn take_originals(self: &Arc<Self>, originals: Arc<Originals>) -> Result<(), ToolError> {
        let (round, kept) = (Arc::clone(self), Arc::clone(&originals));
        let merged = blocking(move || round.merge(&kept)).await??;
        let repositories = self.repositories(&originals, &merged).await?;
        let round = Arc::clone(self);
        blocking(move || {
            let (added, named) = round.added_dependencies(&originals, &merged)?;
            let replaced = round.replaced_packages(&originals, &named)?;
            let ignored = &round.opening()?.ignored;
            let is_of =
                |path: &Path, folder: &Path| path.starts_with(folder) || folder.starts_with(path);
            let kept = |path: &&PathBuf| !replaced.iter().any(|it| is_of(path, Path::new(it)));
            let kept: Vec<PathBuf> = ignored.iter().filter(kept).cloned().collect();
            let installed = installed(&kept, &added);
            drop(round.originals.set(Given {
                originals,
                merged,
                added,
                named,
                installed,
                repositories,
            }));
            Ok(())
        })
        .await?
    }

    /// Whether the originals were taken: the canary with the code of the start needs them.
    pub fn has_originals(&self) -> bool {
        self.originals.get().is_some()
    }

    /// Whether the workspace at the start of the round is known, and that of the start of the run.
    pub fn is_compared(&self) -> bool {
        self.opening().is_ok_and(|opening| opening.now.is_some())
    }

    /// What differs at the start of the round from the start of the run, ignored files apart, as a receipt says it.
    /// It is about no call: whatever wrote the files.
    ///
    /// # Errors
    /// The workspace, or its start, could not be read.
    pub fn written_since_start(&self) -> Result<Vec<Fact>, ToolError> {
        let (Some(now), Some(start)) = (&self.opening()?.now, self.start()?) else {
            return Ok(Vec::new());
        };
        Ok(Written::between(&start.manifest, now, &WriteScope::whole(), &[]).facts)
    }

    /// The workspace at the end of the round (V1); none when nothing is known of it before the run. Call it
    /// after the last probe.
    ///
    /// # Errors
    /// As [`Round::snapshot`].
    pub async fn end(&self) -> Result<Option<Ended>, ToolError> {
        let (Some(before), Some(start)) = (&self.opening()?.now, self.start()?) else {
            return Ok(None);
        };
        let after = self.snapshot_of(start, Reach::NotIgnored).await?;
        let differs = changes(before, &after)
            .filter(|change| change.is_of_content() && !change.is_ignored())
            .map(|change| change.path());
        // A file may be as it was, and have been another one while a check ran.
        let moved = differs.chain(rewritten(before, &after));
        let moved = moved.map(|path| String::from_utf8_lossy(path).into_owned());
        let moved = moved.take(MAX_MOVED).collect();
        blocking(move || Ended::of(&after, moved)).await.map(Some)
    }

    pub(super) fn merged(&self) -> impl Iterator<Item = (&Path, &Merged)> {
        let merged = self.originals.get().into_iter().flat_map(|given| &given.merged);
        merged.map(|(path, merged)| (Path::new(OsStr::from_bytes(path)), merged))
    }

    /// As [`Round::merged`], of a check's view.
    pub(super) fn merged_for(&self, line: &str) -> impl Iterator<Item = (&Path, &Merged)> {
        let exam = self.opening().ok().and_then(|opening| opening.exams.get(line));
        let only_reads = exam.is_some_and(|exam| exam.only_reads);
        self.merged().filter(move |_| !only_reads)
    }

    /// Manifests and lock files that name further dependencies, and these. One that was not kept may, and what a view
    /// does not have of one names none.
    fn added_dependencies(
        &self,
        originals: &Originals,
        merged: &BTreeMap<Vec<u8>, Merged>,
    ) -> Result<(Vec<String>, Vec<String>), ToolError> {
        let (opening, workspace) = (self.opening()?, self.setup.folder.workspace()?);
        let (mut manifests, mut named) = (Vec::new(), Vec::new());
        let Some(start) = self.start()? else { return Ok((manifests, named)) };
        for path in &opening.dependencies {
            let place = RelPath::root().join(OsStr::new(path));
            let Ok(now) = workspace.read(&place, MAX_MANIFEST) else { continue };
            let now = match merged.get(path.as_bytes()).map(|merged| &merged.put) {
                Some(Put::Text(text)) => text.clone(),
                Some(Put::Original) => continue,
                Some(Put::Nothing | Put::Unknown) | None => {
                    String::from_utf8_lossy(&now).into_owned()
                }
            };
            let before = originals.text(path.as_bytes());
            let was_there = start.manifest.get(path.as_bytes()).is_some();
            let found = added_dependencies(path, before, &now);
            if was_there && before.is_none() || !found.is_empty() {
                manifests.push(path.clone());
            }
            named.extend(found);
        }
        Ok((manifests, named))
    }

    /// The dependencies that changed manifests name further.
    pub(super) fn named_anew(&self) -> &[String] {
        self.originals.get().map(|given| given.named.as_slice()).unwrap_or_default()
    }

    /// Changed manifests that name further dependencies, and what was installed by them.
    pub(super) fn installed(&self) -> (&[String], &[PathBuf]) {
        let given = self.originals.get();
        given.map_or((&[], &[]), |given| (&given.added, &given.installed))
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

/// What differs of files whose content counts.
fn differing<'m>(start: &'m Manifest, now: &'m Manifest) -> impl Iterator<Item = Change<'m>> {
    changes(start, now).filter(|change| change.is_of_content() && !change.is_ignored())
}

/// Whether a path is no check input by its name, or in truth.
fn is_product(inputs: &StartInputs<'_>, path: &[u8]) -> bool {
    inputs.rules().kind_of(path).is_none() || inputs.kind_of(path).is_none()
}

/// What differs of files that are no check inputs.
fn products<'m>(
    inputs: &'m StartInputs<'m>,
    start: &'m Manifest,
    now: &'m Manifest,
) -> impl Iterator<Item = Change<'m>> {
    differing(start, now).filter(|change| is_product(inputs, change.path()))
}

/// Whether a folder came or went, or has other permissions: tests may ask for one.
fn has_other_folders(start: &Manifest, now: &Manifest) -> bool {
    changes(start, now).any(|change| {
        let mut sides = [change.before, change.after].into_iter().flatten();
        !change.is_ignored() && sides.any(|entry| entry.kind == Kind::Folder)
    })
}

/// Whether tests may load what differs: a product of any kind, or an added check input, some of which stay.
fn loadable(inputs: &StartInputs<'_>, start: &Manifest, now: &Manifest) -> bool {
    let is_one = |change: &Change<'_>| {
        let is_file = [change.before, change.after].into_iter().flatten();
        change.before.is_none_or(|_| is_product(inputs, change.path()))
            && is_file.into_iter().any(|entry| entry.kind != Kind::Folder)
            && may_be_loaded(&String::from_utf8_lossy(change.path()))
    };
    differing(start, now).any(|change| is_one(&change))
}

/// Files that were written in between and are as they were. No check writes to the workspace itself.
fn rewritten<'m>(before: &'m Manifest, after: &'m Manifest) -> impl Iterator<Item = &'m [u8]> {
    let times =
        |entry: &Entry| (entry.stamp.modified_ns, entry.stamp.changed_ns, entry.stamp.inode);
    let entries = before.entries().iter().filter(|entry| entry.stamp.steady && !entry.ignored);
    let written = entries.filter_map(move |entry| {
        let now = after.get(&entry.path)?;
        (now.content == entry.content && times(now) != times(entry)).then_some(&*entry.path)
    });
    let same_place = before.place == after.place;
    written.take_while(move |_| same_place)
}

/// The scripts of each line that are products because other files import them.
fn imported(inputs: &StartInputs<'_>, lines: &[String]) -> BTreeMap<String, Vec<String>> {
    let of_line = |line: &String| {
        let scripts = inputs.scripts(line).into_iter();
        let scripts = scripts.filter(|(_, (_, assumed))| *assumed == Assumed::ImportedProduct);
        let paths = scripts.map(|(path, _)| String::from_utf8_lossy(&path).into_owned());
        (line.clone(), paths.collect())
    };
    lines.iter().map(of_line).collect()
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

/// Ignored paths that are not as at the start; of a folder that was not there only the folder. Check inputs are none of
/// them.
fn ignored(inputs: &StartInputs<'_>, start: &Manifest, now: &Manifest) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let is_one = |change: &Change<'_>| change.is_ignored() && !inputs.counts(change);
    for change in changes(start, now).filter(is_one) {
        let Some(after) = change.after else { continue };
        let name = String::from_utf8_lossy(change.path());
        let is_new_folder =
            after.kind == Kind::Folder && change.before.is_none() && !is_mixed(&name);
        let path = Path::new(OsStr::from_bytes(change.path()));
        let is_inside = found.last().is_some_and(|folder| path.starts_with(folder));
        if !is_inside && (is_new_folder || after.kind != Kind::Folder) {
            found.push(path.to_owned());
        }
    }
    found
}

/// Manifests and lock files of package managers that differ.
fn dependencies(start: &Manifest, now: &Manifest) -> Vec<String> {
    changes(start, now)
        .filter(|change| change.is_of_content() && !change.is_ignored())
        .map(|change| String::from_utf8_lossy(change.path()).into_owned())
        .filter(|path| ecosystem_of(path).is_some())
        .collect()
}

/// The first file that a package manager installed before the start and that is another now, or gone: without
/// it the workspace of the start cannot be made again. Caches are made again by themselves.
fn packages_lost(start: &Manifest, now: &Manifest) -> Option<String> {
    let is_cache =
        |path: &str| path.split('/').any(|part| [".cache", "__pycache__", ".vite"].contains(&part));
    changes(start, now)
        .filter(|change| {
            change.is_ignored() && change.before.is_some_and(|it| it.kind == Kind::File)
        })
        .map(|change| String::from_utf8_lossy(change.path()).into_owned())
        .find(|path| is_installed(path) && !is_cache(path))
}

/// What the package managers of changed manifests installed.
fn installed(ignored: &[PathBuf], dependencies: &[String]) -> Vec<PathBuf> {
    let ecosystems: BTreeSet<_> = dependencies.iter().filter_map(|it| ecosystem_of(it)).collect();
    let is_one = |path: &&PathBuf| {
        ecosystems.iter().any(|ecosystem| installs(ecosystem, &path.to_string_lossy()))
    };
    ignored.iter().filter(is_one).cloned().collect()
}
