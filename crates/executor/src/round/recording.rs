//! Finds out what repositories of a workspace record otherwise than at the start.

use super::recorded::{Recorded, is_same};
use super::{Round, Start};
use crate::git_reader::Version;
use crate::snapshot::{WorkTree, is_since};
use crate::tool::{ErrorCode, ToolError};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{GitChange, GitState};
use surety_common::domain::manifest::{Content, Entry, FileDigest, Kind, Manifest, Stamp};

/// The most objects that are read at once.
const MAX_OBJECTS: usize = 2_000;
/// The most commits of new references that are compared; others are as the steps left them.
const MAX_COMMITS: usize = 16;
/// References by which a line finds commits.
const REFERENCES: [&[u8]; 3] = [b"refs/heads/", b"refs/tags/", b"refs/stash"];
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
            let Some(tree) = WorkTree::at(&root.join(OsStr::from_bytes(folder))) else {
                continue;
            };
            let state = state.filter(|state| before.other_place(state, folder).is_none());
            let root = root.as_path();
            let place = Place { root, folder, tree: &tree, before, state, old };
            let manifests = (start, now);
            let by_head = self.recorded_by_head(manifests, &place, changes).await;
            let by_others = match &by_head {
                // A revision says nothing of the references.
                Ok(_) if start.revision.is_none() => {
                    self.recorded_by_others(manifests, &place).await
                }
                Ok(_) | Err(_) => Ok(Vec::new()),
            };
            for recorded in [by_head.map(|it| it.into_iter().collect()), by_others] {
                match recorded {
                    Ok(recorded) => found.extend(recorded),
                    Err(error) if error.code == ErrorCode::ProgramNotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(found)
    }

    /// What the commit of HEAD and the index have.
    async fn recorded_by_head(
        &self,
        (start, now): (&Start, &Manifest),
        place: &Place<'_>,
        changes: &[GitChange],
    ) -> Result<Option<Recorded>, ToolError> {
        let Place { tree, before, state, .. } = *place;
        let new = state.and_then(GitState::commit_name);
        let head = state.and_then(|state| head(state, &place.inside(&tree.git)?));
        // A branch that was rewritten is back at the commit of the start.
        let is_head = |it: &GitChange| {
            head.as_ref().is_some_and(|head| it.path == head.as_os_str().as_bytes())
        };
        let is_same = place.old == new && !is_written(tree, before.read_at());
        if is_same || changes.iter().any(is_head) {
            return Ok(None);
        }
        let commits = (place.old.as_deref(), new.as_deref());
        let versions = self.git_reader("recorded")?.recorded(tree, commits).await?;
        let versions = self.told_apart(start, now, (tree, place.folder), versions).await?;
        let shown = match new {
            Some(_) if place.old != new => head.clone(),
            Some(_) | None => {
                let index = tree.git.join("index");
                Some(place.inside(&index).unwrap_or(index))
            }
        };
        let beside = new.as_deref().zip(state);
        let mut beside: Vec<PathBuf> = beside
            .map(|(commit, now)| place.named_anew(now, |object| object == commit))
            .unwrap_or_default()
            .into_values()
            .flatten()
            .collect();
        beside.retain(|file| Some(file) != head.as_ref());
        let shown = shown.unwrap_or_else(|| tree.git.join("HEAD"));
        let is_of_index = place.old == new;
        let recorded = place.recorded(start, (new, shown), (head, beside), versions);
        Ok(recorded.map(|recorded| match is_of_index {
            true => Recorded { alone: alone(start, now, &recorded.paths), ..recorded },
            false => recorded,
        }))
    }

    /// What new references have that name neither the commit of HEAD nor one before it, but one behind that of the start: a
    /// tag, a branch, what `git stash` keeps. Each commit with the files that name it.
    async fn recorded_by_others(
        &self,
        (start, now): (&Start, &Manifest),
        place: &Place<'_>,
    ) -> Result<Vec<Recorded>, ToolError> {
        let (Some(old), Some(state)) = (&place.old, place.state) else { return Ok(Vec::new()) };
        let head = state.commit_name();
        let is_other = |object: &str| object != old && Some(object) != head.as_deref();
        let mut found = Vec::new();
        for (commit, mut files) in place.named_anew(state, is_other).into_iter().take(MAX_COMMITS) {
            let reader = self.git_reader("references")?;
            let is_later = reader.is_ancestor(place.tree, old, &commit).await?;
            let is_before = match &head {
                Some(head) => reader.is_ancestor(place.tree, &commit, head).await?,
                None => false,
            };
            let Some(file) = files.pop().filter(|_| is_later && !is_before) else { continue };
            let commits = (Some(old.as_str()), Some(commit.as_str()));
            let [versions, _] = reader.recorded(place.tree, commits).await?;
            let versions = [versions, Vec::new()];
            let versions =
                self.told_apart(start, now, (place.tree, place.folder), versions).await?;
            let of_commit = (Some(commit), file.clone());
            found.extend(place.recorded(start, of_commit, (Some(file), files), versions));
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

/// Those of the paths that an index has otherwise whose files are as at the start. What the ignore rules named although it
/// was tracked is none of them: it may go.
fn alone(start: &Start, now: &Manifest, paths: &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
    let is_file = |path: &[u8]| now.get(path).is_some_and(|entry| entry.kind == Kind::File);
    let was_ruled = |path: &Vec<u8>| start.manifest.rules.tracked.binary_search(path).is_ok();
    let is_one = |path: &&Vec<u8>| {
        is_file(path) && is_same(start.manifest.get(path), now.get(path)) && !was_ruled(path)
    };
    paths.iter().filter(is_one).cloned().collect()
}

/// Whether an index was written after the start was read.
fn is_written(tree: &WorkTree, read_at: Option<i64>) -> bool {
    let Some(read_at) = read_at else { return true };
    std::fs::metadata(tree.git.join("index")).is_ok_and(|found| is_since(&found, read_at))
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

/// A repository of the workspace, and the commit of the start.
struct Place<'r> {
    root: &'r Path,
    /// The folder of its work tree, relative to the workspace.
    folder: &'r [u8],
    tree: &'r WorkTree,
    before: &'r GitState,
    state: Option<&'r GitState>,
    old: Option<String>,
}

impl Place<'_> {
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(self.root).map(Path::to_owned).ok()
    }

    /// The files of branches, tags and stashes that are new since the start, by the objects that they name, where references
    /// are files of the workspace.
    fn named_anew(
        &self,
        now: &GitState,
        is_wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, Vec<PathBuf>> {
        let mut named: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        if now.tables.is_some() || now.folder.starts_with(b"/") {
            return named;
        }
        let folder = Path::new(OsStr::from_bytes(&now.folder));
        for (name, object) in &now.references {
            let is_kept = REFERENCES.iter().any(|kept| name.starts_with(kept));
            let object = String::from_utf8_lossy(object);
            let is_name = !object.is_empty() && object.bytes().all(|it| it.is_ascii_hexdigit());
            if is_kept
                && is_name
                && !self.before.references.contains_key(name)
                && is_wanted(&object)
            {
                let file = folder.join(OsStr::from_bytes(name));
                named.entry(object.into_owned()).or_default().push(file);
            }
        }
        named
    }

    fn recorded(
        &self,
        start: &Start,
        (commit, shown): (Option<String>, PathBuf),
        (head, beside): (Option<PathBuf>, Vec<PathBuf>),
        versions: BTreeMap<Vec<u8>, Option<(u32, String)>>,
    ) -> Option<Recorded> {
        (!versions.is_empty()).then(|| Recorded {
            folder: PathBuf::from(OsStr::from_bytes(self.folder)),
            commit,
            head,
            beside,
            shown,
            objects: self.inside(&self.tree.common).map(|common| common.join("objects")),
            paths: versions.keys().cloned().collect(),
            alone: BTreeSet::new(),
            inputs: BTreeMap::new(),
            manifest: with(&start.manifest, &versions),
        })
    }
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
