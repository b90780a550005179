//! Finds out what repositories of a workspace record otherwise than at the start.

use super::recorded::{Recorded, is_same};
use super::{Round, Start};
use crate::git_reader::Version;
use crate::snapshot::WorkTree;
use crate::tool::{ErrorCode, ToolError};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{GitChange, GitState};
use surety_common::domain::manifest::{Content, Entry, FileDigest, Kind, Manifest, Stamp};

/// The most objects that are read at once.
const MAX_OBJECTS: usize = 2_000;
/// The names of an empty file.
const EMPTY: [&str; 2] = [
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];

impl Round {
    /// What the repositories of the workspace record otherwise than the commits of the start.
    ///
    /// # Errors
    /// A file could not be read, or git could not compare a repository: a line could find changed check inputs in it. Without
    /// git no line does.
    pub(super) async fn recorded(
        &self,
        start: &Start,
        now: &Manifest,
        (state, changes): (&GitState, &[GitChange]),
    ) -> Result<Vec<Recorded>, ToolError> {
        let root = self.setup.folder.workspace()?.root().to_owned();
        let mut found = Vec::new();
        for (folder, before, state) in start.facts.git.pairs(state) {
            let old = match &start.revision {
                Some(revision) if folder.is_empty() => Some(revision.clone()),
                Some(_) => continue,
                None => before.commit_name(),
            };
            let is_own = |state: &&GitState| before.other_place(state, folder).is_none();
            let state = state.filter(is_own);
            let new = state.and_then(GitState::commit_name);
            let Some(tree) = WorkTree::at(&root.join(OsStr::from_bytes(folder))) else {
                continue;
            };
            let inside = |path: &Path| path.strip_prefix(&root).map(Path::to_owned).ok();
            let head = state.and_then(|state| head(state, &inside(&tree.git)?));
            // A branch that was rewritten is back at the commit of the start.
            let is_head = |it: &GitChange| {
                head.as_ref().is_some_and(|head| it.path == head.as_os_str().as_bytes())
            };
            if old == new && !is_written(&tree, before.read_at()) || changes.iter().any(is_head) {
                continue;
            }
            let commits = (old.as_deref(), new.as_deref());
            let versions = match self.git_reader("recorded")?.recorded(&tree, commits).await {
                Ok(versions) => versions,
                Err(error) if error.code == ErrorCode::ProgramNotFound => continue,
                Err(error) => return Err(error),
            };
            let versions = self.told_apart(start, now, (&tree, folder), versions).await?;
            if versions.is_empty() {
                continue;
            }
            let shown = match new {
                Some(_) if old != new => head.clone(),
                Some(_) | None => Some(tree.git.join("index")),
            };
            let shown = shown.map(|path| inside(&path).unwrap_or(path));
            let beside = new.as_deref().zip(state);
            let beside = beside.map(|(commit, now)| named_anew(before, now, commit));
            found.push(Recorded {
                folder: PathBuf::from(OsStr::from_bytes(folder)),
                commit: new,
                beside: beside.unwrap_or_default(),
                shown: shown.unwrap_or_else(|| tree.git.join("HEAD")),
                head,
                objects: inside(&tree.common).map(|common| common.join("objects")),
                paths: versions.keys().cloned().collect(),
                inputs: BTreeMap::new(),
                manifest: with(&start.manifest, &versions),
            });
        }
        Ok(found)
    }

    /// What is recorded, by its path in the workspace, without what has the content of the start.
    async fn told_apart(
        &self,
        start: &Start,
        now: &Manifest,
        (tree, folder): (&WorkTree, &[u8]),
        versions: [Vec<Version>; 2],
    ) -> Result<BTreeMap<Vec<u8>, Option<(u32, String)>>, ToolError> {
        let above = Path::new(OsStr::from_bytes(folder));
        let place =
            |path: &[u8]| above.join(OsStr::from_bytes(path)).into_os_string().into_encoded_bytes();
        let versions: Vec<Version> = versions
            .into_iter()
            .flatten()
            .map(|it| Version { path: place(&it.path), ..it })
            .collect();
        // Where the file is as at the start, its recorded content tells whether this is.
        let asked: Vec<(&Entry, &String)> = versions
            .iter()
            .filter_map(|Version { path, object }| {
                let entry = start.manifest.get(path)?;
                let (_, name) = object.as_ref()?;
                is_same(Some(entry), now.get(path)).then_some((entry, name))
            })
            .collect();
        let is_of = |entry: &Entry, text: &[u8]| match &entry.content {
            Content::File(digest) => digest.blake3 == *blake3::hash(text).as_bytes(),
            Content::Target(target) => **target == *text,
            Content::None | Content::Unreadable => false,
        };
        let mut same = BTreeSet::new();
        for asked in asked.chunks(MAX_OBJECTS) {
            let names: Vec<_> = asked.iter().map(|(.., name)| name.as_bytes().to_vec()).collect();
            let blobs = self.git_reader("recorded")?.blobs(tree, &names).await?;
            let found = asked
                .iter()
                .zip(blobs)
                .filter(|((entry, _), text)| text.as_ref().is_some_and(|text| is_of(entry, text)));
            same.extend(found.map(|((_, name), _)| *name));
        }
        let differs =
            |version: &&Version| version.object.as_ref().is_none_or(|it| !same.contains(&it.1));
        let mut found: BTreeMap<Vec<u8>, Option<(u32, String)>> = BTreeMap::new();
        for Version { path, object } in versions.iter().filter(differs) {
            let kept = found.entry(path.clone()).or_default();
            *kept = kept.take().or_else(|| object.clone());
        }
        Ok(found)
    }
}

/// Whether an index was written after the start was read.
fn is_written(tree: &WorkTree, read_at: Option<i64>) -> bool {
    let Some(read_at) = read_at else { return true };
    let modified = std::fs::metadata(tree.git.join("index")).map(|found| {
        found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
    });
    modified.is_ok_and(|modified| modified >= read_at)
}

/// The file that names the commit of HEAD, where references are files of the workspace.
fn head(state: &GitState, git: &Path) -> Option<PathBuf> {
    if state.tables.is_some() || state.folder.starts_with(b"/") {
        return None;
    }
    let folder = Path::new(OsStr::from_bytes(&state.folder));
    Some(match state.branch() {
        Some(branch) => folder.join(OsStr::from_bytes(branch)),
        None => git.join("HEAD"),
    })
}

/// The files of references that name a commit and are new since the start, where references are files of the workspace.
fn named_anew(before: &GitState, now: &GitState, commit: &str) -> Vec<PathBuf> {
    if now.tables.is_some() || now.folder.starts_with(b"/") {
        return Vec::new();
    }
    let folder = Path::new(OsStr::from_bytes(&now.folder));
    let is_new = |name: &[u8]| name.starts_with(b"refs/") && !before.references.contains_key(name);
    let named = now
        .references
        .iter()
        .filter(|(name, object)| object.as_slice() == commit.as_bytes() && is_new(name));
    named.map(|(name, _)| folder.join(OsStr::from_bytes(name))).collect()
}

/// The start with what is recorded.
fn with(start: &Manifest, versions: &BTreeMap<Vec<u8>, Option<(u32, String)>>) -> Manifest {
    let own = start.entries().iter().filter(|entry| !versions.contains_key(&*entry.path));
    let recorded = versions.iter().filter_map(|(path, object)| {
        let (mode, object) = object.as_ref()?;
        let digest = *blake3::hash(object.as_bytes()).as_bytes();
        let is_link = mode & 0o170_000 == 0o120_000;
        Some(Entry {
            path: path.as_slice().into(),
            kind: if is_link { Kind::Link } else { Kind::File },
            mode: mode & 0o777,
            size: u64::from(!EMPTY.contains(&object.as_str())),
            ignored: start.get(path).is_some_and(|entry| entry.ignored),
            stamp: Stamp::default(),
            content: match is_link {
                true => Content::Target(object.as_bytes().into()),
                false => Content::File(FileDigest { blake3: digest, sha256: None }),
            },
        })
    });
    let entries = own.cloned().chain(recorded).collect();
    Manifest::new(start.place.clone(), start.rules.clone(), entries)
}
