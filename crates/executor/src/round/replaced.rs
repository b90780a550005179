//! Installed packages of tests that are not what they were at the start.

use super::{Originals, Round, Start};
use crate::tool::{RelPath, ToolError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use surety_common::domain::check_inputs::{StartInputs, replaced_package};
use surety_common::domain::manifest::{Change, Kind, Manifest, changes};

/// Folders in a package that its programs write by themselves.
const CACHES: &[&str] = &[".cache", ".vite", "__pycache__"];

impl Round {
    /// The folders of packages of tests that are not what they were at the start, and that no manifest names anew: a
    /// file has other bytes, was added or is gone, or a link stands in its place. A package that is only installed
    /// again has the same files. It blocks.
    pub(super) fn replaced_packages(
        &self,
        originals: &Originals,
        named: &[String],
    ) -> Result<BTreeSet<String>, ToolError> {
        let (Some(start), Some(now)) = (self.start()?, &self.opening()?.now) else {
            return Ok(BTreeSet::new());
        };
        let workspace = self.setup.folder.workspace()?;
        let root = workspace.root().as_os_str().as_bytes();
        let inputs =
            StartInputs::new(&self.setup.rules, &start.facts.imports, &start.manifest, root);
        let is_of_tests = |ecosystem: &str, name: &str| inputs.origin_of(ecosystem, name).is_some();
        let has_digest = |path: &[u8], digest: &[u8; 32]| {
            let place = RelPath::root().join(OsStr::from_bytes(path));
            let now = workspace.read(&place, Originals::MAX_PACKAGE_FILE);
            now.is_ok_and(|now| blake3::hash(&now).as_bytes() == digest)
        };
        let is_same = |change: &Change<'_>| match (change.before, change.after) {
            (Some(before), Some(after)) if before.kind == after.kind => {
                let digest = originals.package_digest(change.path());
                let is_known = digest.is_none_or(|digest| has_digest(change.path(), digest));
                let is_file = before.kind == Kind::File;
                let same_file = before.size == after.size && is_known;
                // The content of a link is what it leads to.
                if is_file { same_file } else { before.content == after.content }
            }
            (_, _) => false,
        };
        let mut found = BTreeSet::new();
        let mut known = None;
        for change in changes(&start.manifest, now).filter(Change::is_ignored) {
            let path = String::from_utf8_lossy(change.path());
            let is_cache = path.split('/').any(|part| CACHES.contains(&part));
            let Some(folder) = replaced_package(&path, named, is_of_tests) else { continue };
            if is_cache || found.contains(&folder) {
                continue;
            }
            let known = known.get_or_insert_with(|| Installed::of(start, is_of_tests));
            if known.may_be_loaded(&folder, &start.manifest) && !is_same(&change) {
                found.insert(folder);
            }
        }
        Ok(found)
    }
}

/// The packages of tests that were installed at the start.
struct Installed {
    folders: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Installed {
    fn of(start: &Start, is_of_tests: impl Fn(&str, &str) -> bool) -> Self {
        let ignored = start.manifest.entries().iter().filter(|entry| entry.ignored);
        let folders: BTreeSet<String> = ignored
            .filter_map(|entry| {
                replaced_package(&String::from_utf8_lossy(&entry.path), &[], &is_of_tests)
            })
            .collect();
        let names = folders.iter().map(|folder| split(folder).1.to_owned()).collect();
        Self { folders, names }
    }

    /// Whether tests of the start load a package there: it was there, or takes the place of one that was further up.
    /// What a package of now brings for itself is loaded by it alone.
    fn may_be_loaded(&self, folder: &str, start: &Manifest) -> bool {
        let (above, name) = split(folder);
        let was_there = || above.is_empty() || start.get(above.as_bytes()).is_some();
        self.folders.contains(folder) || self.names.contains(name) && was_there()
    }
}

/// The folder in whose `node_modules` a package lies, and its name.
fn split(folder: &str) -> (&str, &str) {
    let (above, name) = folder.rsplit_once("node_modules/").unwrap_or(("", folder));
    (above.trim_end_matches('/'), name)
}
