//! Files of now with some parts of the start: manifests with their keys about tests, sources with their tests and
//! without added suppressions, and documents with their examples.

use super::opening::{Merged, Opening, Put};
use super::{Originals, Round, Start};
use crate::tool::{RelPath, ToolError, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use surety_common::domain::check_inputs::{
    Difference, InputKind, KeysBack, Now, Origin, Paths, StartFiles, StartInputs, StartTests,
    is_compiled_by_make, is_copied_by_make, is_makefile, is_merged, merged, merged_added,
    only_adds,
};
use surety_common::domain::manifest::{Change, Entry, Kind, Manifest, changes};
use surety_common::domain::source_tests::{
    Comparison, Manifests, Modules, Moved, Remaining, compare, may_have_tests, missing_documents,
    missing_examples, selects_targets,
};
use surety_common::domain::suppressions::{Suppressions, may_suppress};
use surety_common::domain::tests_seen::has_search_path;

/// The largest manifest and the largest source that is merged, in bytes.
const MAX_MERGED: u64 = 8 << 20;
/// The most added sources that are read for the tests of one that is gone.
const MAX_ADDED: usize = 2_000;

/// Changed, deleted and added files that may be merged.
pub(super) fn mergeable(
    inputs: &StartInputs<'_>,
    start: &Manifest,
    now: &Manifest,
) -> Vec<Vec<u8>> {
    let is_one = |change: &Change<'_>| {
        let path = change.path();
        let is_manifest = is_merged(&String::from_utf8_lossy(path));
        let has_parts = is_manifest
            || may_suppress(&String::from_utf8_lossy(path))
            || change.before.is_some() && (inputs.is_document(path) || may_have_tests(path));
        has_parts
            && inputs.kind_of(path).is_none()
            && change.is_of_content()
            && !change.is_ignored()
            && !inputs.rules().may_change(path)
    };
    changes(start, now).filter(is_one).map(|change| change.path().to_vec()).collect()
}

impl Round {
    pub(super) fn merge(
        &self,
        originals: &Originals,
    ) -> Result<BTreeMap<Vec<u8>, Merged>, ToolError> {
        let workspace = self.setup.folder.workspace()?;
        let opening = self.opening()?;
        let (Some(start), Some(now)) = (self.start()?, &opening.now) else {
            return Ok(BTreeMap::new());
        };
        let root = workspace.root().as_os_str().as_bytes();
        let inputs =
            StartInputs::new(&self.setup.rules, &start.facts.imports, &start.manifest, root);
        let files = Files { workspace: &workspace, inputs: &inputs, originals, start, now };
        let mut found = BTreeMap::new();
        let mut tests = None;
        // A line that tests some targets alone may test no root that the run added.
        let are_all_tested = !opening.exams.keys().any(|line| selects_targets(line))
            && !originals.texts().any(|(path, text)| is_recipe(path) && selects_in_recipe(text));
        let moved = files.moved(&opening.mergeable, are_all_tested);
        for path in &opening.mergeable {
            let merged = if start.manifest.get(path).is_some_and(|it| it.kind != Kind::Folder) {
                files.changed(path, &moved)
            } else {
                let tests = tests.get_or_insert_with(|| StartTests::of(&inputs, &start.manifest));
                files.added(path, tests)
            };
            found.extend(merged.map(|merged| (path.clone(), merged)));
        }
        files.add_moved(&opening.mergeable, are_all_tested, &mut found);
        files.add_makefiles(opening, &mut found);
        files.add_suppressions(&opening.mergeable, &mut found);
        Ok(found)
    }
}

struct Files<'f> {
    workspace: &'f Workspace,
    inputs: &'f StartInputs<'f>,
    originals: &'f Originals,
    start: &'f Start,
    now: &'f Manifest,
}

impl Files<'_> {
    fn text(&self, path: &[u8]) -> Option<String> {
        let place = RelPath::root().join(OsStr::from_bytes(path));
        String::from_utf8(self.workspace.read(&place, MAX_MERGED).ok()?).ok()
    }

    fn is_gone(&self, path: &[u8]) -> bool {
        self.now.get(path).is_none_or(|entry| entry.kind == Kind::Folder)
    }

    /// The tests in Rust sources that the run added, in roots of crates too where the lines test all of them.
    fn moved(&self, mergeable: &[Vec<u8>], are_all_tested: bool) -> Moved {
        let of_now = |path: &&Vec<u8>| is_rust(path) && !self.is_gone(path);
        let sources: Vec<(&Vec<u8>, String)> = mergeable
            .iter()
            .filter(of_now)
            .take(MAX_ADDED)
            .filter_map(|path| Some((path, self.text(path)?)))
            .collect();
        let texts: Vec<&str> = sources.iter().map(|(_, text)| text.as_str()).collect();
        let is_added = |path: &[u8]| self.start.manifest.get(path).is_none();
        let added = sources.iter().filter(|(path, _)| is_added(path));
        let added: Vec<_> = added.map(|(path, text)| (path.as_slice(), text.as_str())).collect();
        Moved::of(&added, &texts, are_all_tested.then_some(self as &dyn Manifests))
    }

    /// The modules that the Rust sources of now declare; none where there are too many of them to be read.
    fn modules(&self) -> Option<Modules> {
        let is_source =
            |entry: &&Entry| is_rust(&entry.path) && entry.kind == Kind::File && !entry.ignored;
        let sources: Vec<&Entry> = self.now.entries().iter().filter(is_source).collect();
        if sources.len() > MAX_ADDED {
            return None;
        }
        let mut modules = Modules::default();
        for Entry { path, content, .. } in sources {
            let Some(text) = self.text(path) else { continue };
            let before = self.start.manifest.get(path).map(|entry| &entry.content);
            modules.add(&text, before == Some(content));
        }
        Some(modules)
    }

    /// What a view has of a file that was there at the start; none where the run left its parts as they were.
    fn changed(&self, path: &[u8], moved: &Moved) -> Option<Merged> {
        let name = String::from_utf8_lossy(path);
        if is_merged(&name) {
            return self.manifest(path, &name);
        }
        if self.originals.is_left_out(path) {
            let notes = vec![format!("changed {name} (tests)")];
            return Some(Merged { put: Put::Unknown, notes });
        }
        let before = self.originals.text(path)?;
        if self.is_gone(path) {
            return None;
        }
        let now = self.text(path);
        let changed =
            |name: &str, put| Merged { put, notes: vec![format!("changed {name} (tests)")] };
        // A text that no longer reads has no tests, whatever a compiler says.
        let Some(now) = now else { return Some(changed(&name, Put::Original)) };
        if self.inputs.is_document(path) {
            let missing = missing_examples(before, &now)?;
            return Some(changed(&name, Put::Text(format!("{now}\n\n{missing}"))));
        }
        let merged = with_tests(path, (before, &now), moved);
        // A source that no longer reads is the original already.
        if !name.ends_with(".rs") || merged.as_ref().is_some_and(|it| it.put == Put::Original) {
            return merged;
        }
        let Some(items) = missing_documents(before, &now) else { return merged };
        let mut merged = merged.unwrap_or(Merged { put: Put::Nothing, notes: Vec::new() });
        let text = match merged.put {
            Put::Text(text) => text,
            Put::Nothing | Put::Unknown | Put::Original => now,
        };
        merged
            .notes
            .push(format!("changed {name}: a document is its documentation no more (test)"));
        Some(Merged { put: Put::Text(format!("{text}{items}")), ..merged })
    }

    fn manifest(&self, path: &[u8], name: &str) -> Option<Merged> {
        let notes = vec![format!("changed {name} (test keys)")];
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        // A whole package that had no tests may go.
        if !folder.is_empty() && self.is_dropped(folder) {
            return None;
        }
        let Some(before) = self.originals.text(path) else {
            // A link, or no text: it can only be put back as a whole.
            let put = if self.originals.has(path) { Put::Original } else { Put::Unknown };
            return Some(Merged { put, notes });
        };
        let text = self.text(path);
        let is_file = self.now.get(path).is_some_and(|entry| entry.kind == Kind::File);
        let now = match &text {
            _ if self.is_gone(path) => Now::Gone,
            Some(text) if is_file => Now::Text(text),
            Some(_) | None => Now::Unreadable,
        };
        let put = match merged(name, before, now, self) {
            Some(KeysBack::Merged(text)) => Put::Text(text),
            Some(KeysBack::Original) => Put::Original,
            Some(KeysBack::Lost) => Put::Nothing,
            None if now == Now::Gone && is_package(name) && self.has_tests_below(name, true) => {
                Put::Original
            }
            None => return None,
        };
        Some(Merged { put, notes })
    }

    fn added(&self, path: &[u8], tests: &StartTests) -> Option<Merged> {
        let name = String::from_utf8_lossy(path);
        let (above, own) = name.rsplit_once('/').unwrap_or(("", &name));
        let mut folders = above.match_indices('/').map(|(end, _)| above.get(..end).unwrap_or(""));
        let outer = |folder: &str| format!("{folder}/{own}");
        let has_outer = !above.is_empty()
            && (self.was_there(own) || folders.any(|folder| self.was_there(&outer(folder))));
        let shadows = has_outer && self.was_there(above);
        let text = merged_added(&name, &self.text(path)?, (tests.decides(&name), shadows), self)?;
        let put = match text {
            KeysBack::Merged(text) => Put::Text(text),
            KeysBack::Original | KeysBack::Lost => return None,
        };
        Some(Merged { put, notes: vec![format!("added {name} (test keys)")] })
    }

    /// Adds the sources that are gone: their tests must stand in others that are built, or are put into the added one
    /// that has most of the rest.
    fn add_moved(
        &self,
        mergeable: &[Vec<u8>],
        are_all_tested: bool,
        found: &mut BTreeMap<Vec<u8>, Merged>,
    ) {
        let is_gone = |path: &&Vec<u8>| {
            may_have_tests(path) && self.is_gone(path) && self.originals.text(path).is_some()
        };
        let gone: Vec<&Vec<u8>> = mergeable.iter().filter(is_gone).collect();
        if gone.is_empty() {
            return;
        }
        let sources = changes(&self.start.manifest, self.now)
            .filter(|change| change.is_of_content() && !change.is_ignored())
            .filter(|change| change.after.is_some_and(|it| it.kind == Kind::File))
            .filter(|change| may_have_tests(change.path()));
        let modules = if gone.iter().any(|path| is_rust(path)) { self.modules() } else { None };
        let manifests = are_all_tested.then_some(self as &dyn Manifests);
        let mut remaining = Remaining::default();
        let mut added = BTreeSet::new();
        for change in sources.take(MAX_ADDED) {
            let path = change.path();
            let is_new = change.before.is_none() && self.inputs.kind_of(path).is_none();
            let is_built = || modules.as_ref().is_none_or(|it| it.build(path, manifests));
            if is_new && is_rust(path) && !is_built() {
                continue;
            }
            let Some(text) = self.text(path) else { continue };
            remaining.add(path, &text);
            if is_new {
                added.insert(path);
            }
        }
        for path in gone {
            let Some(before) = self.originals.text(path) else { continue };
            let name = String::from_utf8_lossy(path);
            let is_free = |other: &[u8]| added.contains(other) && !found.contains_key(other);
            let Some(moved) = remaining.compare_gone(path, before, is_free) else { continue };
            // Where all of them stand elsewhere, none is removed.
            if !moved.lost.is_empty() {
                let notes = vec![format!("removed {name} (tests)")];
                found.insert(path.clone(), Merged { put: Put::Nothing, notes });
            }
            if let Some((other, text)) = moved.restored {
                let shown = String::from_utf8_lossy(&other).into_owned();
                let lost = moved.lost.iter().map(|test| format!("changed {shown}: {test} (test)"));
                found.insert(other, Merged { put: Put::Text(text), notes: lost.collect() });
            }
        }
    }

    /// A makefile that only adds to that of the start stays as it is.
    fn add_makefiles(&self, opening: &Opening, found: &mut BTreeMap<Vec<u8>, Merged>) {
        let put_back = opening.exams.values().flat_map(|exam| &exam.put_back);
        for Difference { path, kind, .. } in put_back {
            let name = String::from_utf8_lossy(path);
            if *kind != InputKind::Configuration || !is_makefile(&name) || found.contains_key(path)
            {
                continue;
            }
            let texts = self.originals.text(path).zip(self.text(path));
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            let lines = || opening.exams.keys().map(String::as_str).collect();
            let added = texts.filter(|(before, now)| {
                let searches = has_search_path(before);
                only_adds(before, now, &Beside { files: self, folder, lines: lines(), searches })
            });
            if let Some((_, now)) = added {
                let notes = vec![format!("changed {name} (sources and targets added)")];
                found.insert(path.clone(), Merged { put: Put::Text(now), notes });
            }
        }
    }

    /// Takes the suppressions that the run added out of the sources.
    fn add_suppressions(&self, mergeable: &[Vec<u8>], found: &mut BTreeMap<Vec<u8>, Merged>) {
        let mut all = Suppressions::default();
        let mut sources: Vec<(&Vec<u8>, bool, String)> = Vec::new();
        for path in mergeable {
            let name = String::from_utf8_lossy(path);
            let was_file = self.start.manifest.get(path).is_some_and(|it| it.kind != Kind::Folder);
            let (before, now) = (self.originals.any_text(path), self.text(path));
            if was_file && before.is_none() {
                // Without its text of the start it cannot be told what was added.
                if now.is_some_and(|now| Suppressions::are_in(&name, &now)) {
                    let notes = vec![format!("changed {name} (suppressions)")];
                    found.entry(path.clone()).or_insert(Merged { put: Put::Unknown, notes });
                }
                continue;
            }
            all.add(&name, before, now.as_deref());
            // One that had no code is as good as new.
            let is_new = before.is_none_or(|before| before.trim().is_empty());
            let with_some = now.filter(|now| Suppressions::are_in(&name, now));
            sources.extend(with_some.map(|now| (path, is_new, now)));
        }
        for (path, is_new, now) in sources {
            let text = match found.get(path).map(|merged| &merged.put) {
                Some(Put::Original) => continue,
                Some(Put::Text(text)) => text,
                Some(Put::Nothing | Put::Unknown) | None => &now,
            };
            let name = String::from_utf8_lossy(path);
            let Some((text, said)) = all.without_added(&name, is_new, text) else { continue };
            let added = said.iter().map(|said| format!("changed {name}: {said} (suppression)"));
            let merged = found.entry(path.clone());
            let merged = merged.or_insert(Merged { put: Put::Nothing, notes: Vec::new() });
            merged.notes.extend(added);
            merged.put = Put::Text(text);
        }
    }

    /// Whether the folder of a file had tests, in files of their own or inside sources.
    fn has_tests_below(&self, path: &str, inside: bool) -> bool {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let whole = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.start.manifest.entries().iter().any(|entry| {
            let has_some =
                || may_have_tests(&entry.path) && self.originals.text(&entry.path).is_some();
            entry.path.starts_with(whole.as_bytes())
                && !entry.ignored
                && (self.inputs.kind_of(&entry.path) == Some(InputKind::Test)
                    || inside && has_some())
        })
    }
}

/// Whether a file is one with recipes that lines start.
fn is_recipe(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path);
    let name = path.rsplit('/').next().unwrap_or(&path);
    is_makefile(name)
        || matches!(name, "justfile" | "Justfile" | "package.json")
        || name.ends_with(".sh")
}

fn selects_in_recipe(text: &str) -> bool {
    text.lines()
        .any(|line| line.contains("cargo") && line.contains("test") && selects_targets(line))
}

fn is_rust(path: &[u8]) -> bool {
    path.ends_with(b".rs")
}

/// The files as a makefile in this folder names them.
struct Beside<'f> {
    files: &'f Files<'f>,
    folder: &'f str,
    /// The lines of the checks.
    lines: Vec<&'f str>,
    /// Whether the makefile has a search path.
    searches: bool,
}

impl Beside<'_> {
    fn whole(&self, path: &str) -> String {
        match self.folder {
            "" => path.to_owned(),
            folder => format!("{folder}/{path}"),
        }
    }
}

impl StartFiles for Beside<'_> {
    fn is_check_input(&self, path: &str) -> bool {
        self.files.inputs.kind_of(self.whole(path).as_bytes()).is_some()
    }

    fn is_gone(&self, path: &str) -> bool {
        let path = self.whole(path);
        self.files.was_there(&path) && !self.files.is_there(&path)
    }

    fn has_stem(&self, stem: &str) -> bool {
        // Make looks for what it builds from along a search path too, and for all others beside the makefile.
        self.files.start.manifest.entries().iter().any(|entry| {
            let path = String::from_utf8_lossy(&entry.path);
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let (own, extension) = name.split_once('.').unwrap_or((name, ""));
            let is_found = match extension {
                "" => folder == self.folder,
                extension if is_copied_by_make(extension) => self.searches || folder == self.folder,
                extension => is_compiled_by_make(extension),
            };
            own == stem && is_found
        })
    }

    fn has(&self, name: &str) -> bool {
        self.files.start.manifest.entries().iter().any(|entry| {
            let path = String::from_utf8_lossy(&entry.path);
            let (folder, own) = path.rsplit_once('/').unwrap_or(("", &path));
            own == name && (self.searches || folder == self.folder)
        })
    }

    fn is_in_a_line(&self, name: &str) -> bool {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let mut words = self.lines.iter().flat_map(|line| line.split(|it| !is_of_name(it)));
        words.any(|word| word == name)
    }
}

impl Paths for Files<'_> {
    fn was_there(&self, path: &str) -> bool {
        self.start.manifest.get(path.as_bytes()).is_some()
    }

    fn is_dropped(&self, folder: &str) -> bool {
        if folder.contains(['*', '?', '[', '{', '!']) {
            return false;
        }
        let whole = format!("{folder}/");
        let is_inside = |entry: &Entry| entry.path.starts_with(whole.as_bytes());
        let is_left = self
            .now
            .entries()
            .iter()
            .any(|entry| !entry.ignored && entry.kind != Kind::Folder && is_inside(entry));
        !is_left && !self.has_tests_below(&whole, false)
    }

    fn is_there(&self, path: &str) -> bool {
        self.now.get(path.as_bytes()).is_some()
    }

    fn origin_of(&self, ecosystem: &str, package: &str) -> Option<Origin> {
        self.inputs.origin_of(ecosystem, package)
    }
}

impl Manifests for Files<'_> {
    fn has_manifest(&self, path: &str) -> bool {
        self.now.get(path.as_bytes()).is_some()
    }

    fn texts(&self, path: &str) -> Option<[String; 2]> {
        let start = self.originals.text(path.as_bytes())?;
        Some([start.to_owned(), self.text(path.as_bytes())?])
    }
}

/// Whether a manifest makes its folder a package, so that the tests there run.
fn is_package(name: &str) -> bool {
    name.ends_with("Cargo.toml") || name.ends_with("package.json")
}

/// A source file with its tests of the start; none where the run left these as they were.
fn with_tests(path: &[u8], (before, now): (&str, &str), moved: &Moved) -> Option<Merged> {
    let Comparison { changed, conditions, restored, reads } = compare(path, before, now, moved);
    let path = String::from_utf8_lossy(path);
    let changed = changed.iter().map(|name| format!("changed {path}: {name} (test)"));
    let conditions = conditions.iter().map(|name| format!("changed {path}: {name} (condition)"));
    let notes: Vec<String> = changed.chain(conditions).collect();
    let put = match restored {
        Some(text) => Put::Text(text),
        None if !reads => Put::Original,
        None => Put::Nothing,
    };
    (!notes.is_empty()).then_some(Merged { put, notes })
}
