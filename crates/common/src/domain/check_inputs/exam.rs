//! What a run did to the check inputs of one check, and how a view gets the originals back.

use super::git::GitChange;
use super::language::language_of;
use super::line::{Role, Script, scripts_in};
use super::makefile::{is_compiled_by_make, is_copied_by_make};
use super::reading::Reading;
use super::shadow::{is_system_program, made_from, python_folders};
use super::start_tests::{StartTests, is_counterpart, stem};
use super::{InputKind, StartInputs};
use crate::domain::manifest::{Aspect, Change, Entry, Kind, Manifest, changes, retimed};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// One check input that is not as at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Relative to the workspace's root.
    pub path: Vec<u8>,
    /// Why it is a check input.
    pub kind: InputKind,
    /// What the run did to it.
    pub aspect: Aspect,
}

impl Difference {
    /// What came in the place of something else.
    fn added(path: &[u8]) -> Self {
        Self { path: path.to_vec(), kind: InputKind::Shadow, aspect: Aspect::Added }
    }
}

/// The check inputs of one check that a run changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exam {
    /// Changed and deleted ones, which a view gets as they were at the start.
    pub put_back: Vec<Difference>,
    /// Added ones, which a view does not have.
    pub take_out: Vec<Difference>,
    /// Added ones that stay, because the start has nothing that they could replace: the line names them, or
    /// they are the first of their kind.
    pub new: Vec<Difference>,
    /// Those outside the workspace: a view has them as they are.
    pub outside: Vec<Difference>,
    /// The times of the start, in nanoseconds since 1970, of what make or another tool would take for newer or older than it
    /// was: files that are older than at the start, and targets of make, both otherwise as at the start.
    pub times: Vec<(Vec<u8>, i64)>,
    /// Whether the line only reads files as they are: a view has none with parts of the start.
    pub only_reads: bool,
}

impl Exam {
    /// Compares the workspace with the start, for the check that this line runs. A project's own tests have
    /// an empty line.
    pub fn of(inputs: &StartInputs<'_>, line: &str, start: &Manifest, now: &Manifest) -> Self {
        let reading = Reading::of(line);
        let only_reads = reading.as_ref().is_some_and(Reading::is_plain);
        let mut exam = Self { only_reads, ..Self::default() };
        let mut tests = None;
        let protected = inputs.protected_scripts(line);
        let content = |change: &Change<'_>| change.is_of_content() && inputs.counts(change);
        let is_added_product = |change: &Change<'_>| {
            change.before.is_none() && inputs.kind_of_added(change.path()).is_none()
        };
        let added_stems: OnceCell<BTreeSet<String>> = OnceCell::new();
        let added_stems = || {
            added_stems.get_or_init(|| {
                let added = changes(start, now).filter(content).filter(is_added_product);
                added.map(|change| stem(&String::from_utf8_lossy(change.path()))).collect()
            })
        };
        let made = Made::of(inputs, line, [start, now]);
        exam.times = made.times();
        let folders = made.folders(|change| inputs.counts(change));
        let is_in_folder = |path: &[u8]| folders.iter().any(|folder| is_in(path, folder));
        exam.take_out.extend(folders.iter().map(|path| Difference::added(path)));
        for change in changes(start, now).filter(content) {
            let path = change.path();
            if is_in_folder(path) {
                exam.take_out.push(Difference::added(path));
                continue;
            }
            let was_there = start.get(path).is_some_and(|entry| entry.kind != Kind::Folder);
            let kind = if was_there {
                let is_script = || protected.contains(path).then_some(InputKind::Script);
                // What make makes is made again from the sources, however new it is.
                let is_product = || made.has(&change).then_some(InputKind::Shadow);
                inputs.kind_of_start(path).or_else(is_script).or_else(is_product)
            } else {
                made.kind_of_added(&change)
            };
            let (Some(kind), Some(aspect)) = (kind, change.aspect()) else { continue };
            // The text is still the original; a run may make it executable.
            if aspect == Aspect::Mode && (kind == InputKind::Script || gets_executable(&change)) {
                continue;
            }
            let is_data = |reading: &Reading| reading.is_data(&String::from_utf8_lossy(path), kind);
            if reading.as_ref().is_some_and(is_data) {
                continue;
            }
            let difference = Difference { path: path.to_vec(), kind, aspect };
            if was_there && made.is_product(path, kind) {
                // A view has none, as after `make clean`.
                if change.after.is_some_and(|entry| entry.kind == Kind::File) {
                    exam.take_out.push(difference);
                }
            } else if was_there {
                exam.put_back.push(difference);
            } else if kind != InputKind::Shadow
                && (tests.get_or_insert_with(|| StartTests::of(inputs, start)).is_new(
                    line,
                    (&String::from_utf8_lossy(path), kind),
                    (inputs, start),
                ) || kind == InputKind::Test
                    && is_counterpart(&String::from_utf8_lossy(path), start)
                    && added_stems().contains(&stem(&String::from_utf8_lossy(path)))
                    || kind == InputKind::Test && is_empty_package(&change, start))
            {
                exam.new.push(difference);
            } else {
                exam.take_out.push(difference);
            }
        }
        exam
    }

    /// Adds what a run did to the repository. What lies outside the workspace is in no view.
    pub fn add_git(&mut self, changes: &[GitChange]) {
        for change in changes {
            let GitChange { path, aspect, .. } = change;
            let difference =
                Difference { path: path.clone(), kind: InputKind::Git, aspect: *aspect };
            match aspect {
                _ if path.starts_with(b"/") => self.outside.push(difference),
                Aspect::Added => self.take_out.push(difference),
                Aspect::Removed | Aspect::Kind | Aspect::Content | Aspect::Mode => {
                    self.put_back.push(difference);
                }
            }
        }
    }

    /// Whether the originals are other files than those of the run.
    pub fn differs(&self) -> bool {
        !self.put_back.is_empty() || !self.take_out.is_empty()
    }

    /// Every check input that the run changed or added, sorted by path.
    pub fn differences(&self) -> Vec<&Difference> {
        let inside = self.put_back.iter().chain(&self.take_out).chain(&self.new);
        let mut all: Vec<_> = inside.chain(&self.outside).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }
}

/// Whether a path is in a folder.
fn is_in(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Whether a file only makes a folder a package of Python, and takes the place of no module.
fn is_empty_package(change: &Change<'_>, start: &Manifest) -> bool {
    let path = String::from_utf8_lossy(change.path());
    let is_empty = change.after.is_some_and(|it| it.kind == Kind::File && it.size == 0);
    path.strip_suffix("/__init__.py")
        .is_some_and(|folder| is_empty && start.get(format!("{folder}.py").as_bytes()).is_none())
}

/// Whether a file only became one that may be started.
fn gets_executable(change: &Change<'_>) -> bool {
    let bits = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.mode & 0o111);
    let (before, after) = (bits(change.before), bits(change.after));
    before & !after == 0 && after != before
}

/// What is made again from the sources in a view, and what the line asks for by its path.
struct Made<'a> {
    inputs: &'a StartInputs<'a>,
    line: &'a str,
    manifests: [&'a Manifest; 2],
    /// The scripts and configurations that the line names and that are no products.
    named: BTreeSet<String>,
    /// The programs that it starts by their paths.
    started: BTreeSet<String>,
    /// The folders, beside the root, in which Python looks for modules first.
    modules: BTreeSet<String>,
    /// The languages and the names of all sources, without extensions.
    stems: OnceCell<BTreeSet<(&'static str, String)>>,
}

impl<'a> Made<'a> {
    fn of(inputs: &'a StartInputs<'a>, line: &'a str, manifests: [&'a Manifest; 2]) -> Self {
        let scripts = scripts_in(line, &inputs.root_text());
        let is_program = |script: &&Script| {
            let is_one = matches!(script.role, Role::Program | Role::Script);
            is_one && language_of(&script.path).is_none() && made_from(&script.path).is_none()
        };
        let path = |script: &Script| script.path.clone();
        let named = scripts.iter().filter(|script| !script.is_product).map(path).collect();
        let started = scripts.iter().filter(is_program).map(path).collect();
        let mut modules = python_folders(line, &inputs.root_text());
        let of_recipes = inputs.texts().recipe_scripts(line).filter(|it| it.ends_with(".py"));
        modules.extend(of_recipes.filter_map(|it| Some(it.rsplit_once('/')?.0.to_owned())));
        Self { inputs, line, manifests, named, started, modules, stems: OnceCell::new() }
    }

    /// Why an added file is a check input of the line.
    fn kind_of_added(&self, change: &Change<'_>) -> Option<InputKind> {
        let path = String::from_utf8_lossy(change.path());
        let is_script = || self.named.contains(path.as_ref()).then_some(InputKind::Script);
        let takes_place = || self.has(change).then_some(InputKind::Shadow);
        let kind = self.inputs.kind_of_added(change.path());
        let is_program = || {
            let is_one = change.after.is_some_and(Entry::is_executable)
                && is_system_program(&path)
                && !self.inputs.rules().may_change(change.path());
            is_one.then_some(InputKind::Shadow)
        };
        let is_module =
            || self.inputs.is_module_in(&path, &self.modules).then_some(InputKind::Shadow);
        let kind = kind.or_else(takes_place).or_else(is_script).or_else(is_program);
        let kind = kind.or_else(is_module);
        // The line itself asks for this file, and not for a program of its name.
        let is_asked = kind == Some(InputKind::Shadow) && self.started.contains(path.as_ref());
        if is_asked && !self.has(change) { Some(InputKind::Script) } else { kind }
    }

    /// Folders that the run added in the place of targets: make takes one for what it would make.
    fn folders(&self, counts: impl Fn(&Change<'_>) -> bool) -> Vec<&'a [u8]> {
        let [start, now] = self.manifests;
        let is_one = |change: &Change<'_>| {
            change.before.is_none()
                && change.after.is_some_and(|now| now.kind == Kind::Folder)
                && counts(change)
                && self.is_target(change.path())
        };
        changes(start, now).filter(is_one).map(|change| change.path()).collect()
    }

    /// The times of the start of what a build would judge by another one.
    fn times(&self) -> Vec<(Vec<u8>, i64)> {
        let [start, now] = self.manifests;
        let judged = retimed(start, now).filter(|(before, after)| {
            let is_older = after.stamp.modified_ns < before.stamp.modified_ns;
            before.kind == Kind::File && is_older || self.is_target(&before.path)
        });
        judged.map(|(before, _)| (before.path.to_vec(), before.stamp.modified_ns)).collect()
    }

    /// Whether a change is of such a file, by its place or by its extension.
    fn has(&self, change: &Change<'_>) -> bool {
        change.after.is_some() && self.is_target(change.path()) || self.is_of_source(change.path())
    }

    /// The same of a check input.
    fn is_product(&self, path: &[u8], kind: InputKind) -> bool {
        self.is_target(path) || kind == InputKind::Shadow && self.is_of_source(path)
    }

    fn is_target(&self, path: &[u8]) -> bool {
        let (texts, path) = (self.inputs.texts(), String::from_utf8_lossy(path));
        texts.is_target(self.line, &path)
            || texts.is_sought(self.line, &path) && self.has_source_for_make(&path)
    }

    /// Whether make's own rules have a source to make a target from, there or by a search path.
    fn has_source_for_make(&self, target: &str) -> bool {
        let (folder, name) = target.rsplit_once('/').unwrap_or(("", target));
        let is_one = |path: &[u8]| {
            let path = String::from_utf8_lossy(path);
            let (own, file) = path.rsplit_once('/').unwrap_or(("", &path));
            let extension = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            extension
                .is_some_and(|it| is_compiled_by_make(it) || own == folder && is_copied_by_make(it))
        };
        let mut entries = self.manifests.iter().flat_map(|manifest| manifest.entries());
        entries.any(|entry| is_one(&entry.path))
    }

    /// Whether it is byte code or an object whose source is there.
    fn is_of_source(&self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        let stems = || {
            let entries = self.manifests.iter().flat_map(|manifest| manifest.entries());
            let paths = entries.map(|entry| String::from_utf8_lossy(&entry.path));
            paths.filter_map(|path| Some((language_of(&path)?, stem(&path)))).collect()
        };
        made_from(&path).is_some_and(|languages| {
            let stem = stem(&path);
            let stems = self.stems.get_or_init(stems);
            languages.iter().any(|language| stems.contains(&(*language, stem.clone())))
                && !self.inputs.rules().may_change(path.as_bytes())
        })
    }
}
