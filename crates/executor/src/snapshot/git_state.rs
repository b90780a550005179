//! What a repository says about how git behaves in a workspace, read from its files. No git is started.

use super::git::{WorkTree, read};
use super::read::now_ns;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{
    GitState, Tables, effective_configuration, read_packed, short_names, upstreams,
};
use surety_common::domain::manifest::{Kind, Manifest};

/// The largest file that is read, in bytes; packed references apart.
const FILE_LIMIT: u64 = 1 << 20;
const PACKED_LIMIT: u64 = 16 << 20;
/// Files of one folder, and references, that are read.
const MAX_FILES: usize = 500;
/// The most entries of one folder that are put in order.
const MAX_LISTED: usize = 200_000;
/// What git looks for in the folders `hooks` and `info` (githooks(5), gitrepository-layout(5)).
const KNOWN: &[&str] = &[
    "applypatch-msg",
    "attributes",
    "commit-msg",
    "exclude",
    "fsmonitor-watchman",
    "grafts",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "sparse-checkout",
    "update",
];
const MAX_REFERENCES: usize = 20_000;
/// The reference that names the branch of a work tree.
const HEAD: &[u8] = b"HEAD";
/// Tables of references of one repository, and the largest.
const MAX_TABLES: usize = 500;
const TABLE_LIMIT: u64 = 64 << 20;
/// Repositories inside a workspace that are compared.
const MAX_NESTED: usize = 4096;
/// Repositories of submodules inside each other that are entered.
const MAX_DEPTH: u32 = 4;

/// A repository's state, and the files behind it: path, permissions and content.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    pub(crate) state: GitState,
    pub(crate) files: Vec<(Vec<u8>, u32, Vec<u8>)>,
}

impl Repository {
    /// The repository around a workspace, and those in its folders; empty where there is none. It blocks.
    pub(crate) fn around(root: &Path, manifest: &Manifest) -> Self {
        let tree = WorkTree::around(root);
        let common = tree.as_ref().map(|tree| real(&tree.common));
        let mut found = tree.map(|tree| Self::of(root, &tree)).unwrap_or_default();
        let folders = manifest.entries().iter();
        let folders = folders.filter(|entry| entry.kind == Kind::Folder && !entry.ignored);
        for folder in folders {
            let place = root.join(OsStr::from_bytes(&folder.path));
            if found.state.nested.len() >= MAX_NESTED || !place.join(".git").exists() {
                continue;
            }
            let Some(tree) = WorkTree::at(&place) else { continue };
            let its = real(&tree.common);
            // Another work tree of the same repository.
            if common.as_ref() == Some(&its) {
                continue;
            }
            let is_submodule = common.as_ref().is_some_and(|common| its.starts_with(common));
            let mut nested = Self::of(root, &tree);
            // The files of a submodule are compared with the repository that has it, its references here.
            if is_submodule {
                nested.state.files.clear();
            } else {
                found.files.extend(nested.files);
            }
            found.state.nested.insert(folder.path.to_vec(), nested.state);
        }
        found
    }

    fn of(root: &Path, tree: &WorkTree) -> Self {
        let mut found = Self::default();
        let (git, common) = (real(&tree.git), real(&tree.common));
        found.state.folder = named(root, &common);
        found.gather(root, &common, MAX_DEPTH);
        if git != common {
            for name in ["config.worktree", "info/attributes", "info/sparse-checkout"] {
                found.add(root, &git.join(name));
            }
        }
        found.state.head = small(&git.join("HEAD")).trim_ascii().to_vec();
        let packed = read(&common.join("packed-refs"), PACKED_LIMIT).ok().flatten();
        found.state.packed = packed.unwrap_or_default();
        let mut references = BTreeMap::new();
        read_packed(&found.state.packed, &mut references);
        loose(&common, Path::new("refs"), &mut references);
        found.state.references = references;
        found.read_tables(&git, &common);
        found.add_names_of_files(&git);
        let configuration = read(&common.join("config"), FILE_LIMIT).ok().flatten();
        let configuration = configuration.unwrap_or_default();
        found.state.references.extend(upstreams(&String::from_utf8_lossy(&configuration)));
        let dot_git = tree.top.join(".git");
        let is_file = fs::symlink_metadata(&dot_git).is_ok_and(|it| it.is_file());
        found.state.set_place(named(root, &git), is_file.then(|| small(&dot_git)));
        // Without an index that reads, no mark counts as one of the start.
        found.state.set_overlooked(tree.overlooked().unwrap_or_default());
        found.state.set_read_at(now_ns());
        found
    }

    /// Files of the repository's own folder that have the short name of a reference: git reads them first.
    fn add_names_of_files(&mut self, git: &Path) {
        let first = |name: &[u8]| {
            let end = name.iter().position(|byte| *byte == b'/').unwrap_or(name.len());
            OsStr::from_bytes(name.get(..end).unwrap_or_default()).to_owned()
        };
        let own: BTreeSet<_> = entries(git).into_iter().map(|entry| entry.file_name()).collect();
        let names = short_names(&self.state.references).filter(|name| own.contains(&first(name)));
        let files: Vec<_> = names
            .map(|name| (name.to_vec(), git.join(OsStr::from_bytes(name))))
            .filter(|(_, path)| path.is_file())
            .map(|(name, path)| (name, small(&path).trim_ascii().to_vec()))
            .filter(|(_, text)| text.starts_with(b"ref:") || is_object(text))
            .collect();
        self.state.references.extend(files);
    }

    /// The references in tables, where git keeps them so. HEAD is one of them, in a table of the work tree.
    fn read_tables(&mut self, git: &Path, common: &Path) {
        let mut references = BTreeMap::new();
        let Some(tables) = tables(&common.join("reftable"), &mut references) else { return };
        let mut own = BTreeMap::new();
        if git != common {
            tables_of_work_tree(git, &mut own);
        }
        let head = references.remove(HEAD);
        self.state.head = own.remove(HEAD).or(head).unwrap_or_default();
        references.retain(|name, _| name.starts_with(b"refs/"));
        self.state.references = references;
        self.state.tables = Some(tables);
    }

    /// The files that decide how git behaves, those of submodules too.
    fn gather(&mut self, root: &Path, folder: &Path, depth: u32) {
        for name in ["config", "config.worktree", "shallow", "objects/info/alternates"] {
            self.add(root, &folder.join(name));
        }
        for name in ["hooks", "info"] {
            for entry in settings(&folder.join(name)) {
                self.add(root, &entry.path());
            }
        }
        if depth > 0 {
            self.submodules(root, &folder.join("modules"), depth - 1);
        }
    }

    fn submodules(&mut self, root: &Path, folder: &Path, depth: u32) {
        for entry in entries(folder) {
            let path = entry.path();
            if path.join("HEAD").is_file() {
                self.gather(root, &path, depth);
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.submodules(root, &path, depth - 1);
            }
        }
    }

    fn add(&mut self, root: &Path, path: &Path) {
        let Some(content) = read(path, FILE_LIMIT).ok().flatten() else { return };
        let mode = fs::metadata(path).map_or(0o644, |found| found.permissions().mode() & 0o7777);
        let is_configuration = path.file_name().is_some_and(|name| {
            name.as_bytes() == b"config" || name.as_bytes() == b"config.worktree"
        });
        let mut hash = blake3::Hasher::new();
        hash.update(if mode & 0o111 == 0 { b"-" } else { b"x" });
        if is_configuration {
            hash.update(effective_configuration(&String::from_utf8_lossy(&content)).as_bytes());
        } else {
            hash.update(&content);
        }
        let name = named(root, path);
        self.state.files.insert(name.clone(), *hash.finalize().as_bytes());
        self.files.push((name, mode, content));
    }
}

/// Reads all tables of a folder, the oldest first; none where there are none. One that does not read is kept by
/// its name, and counts as a change.
fn tables(folder: &Path, references: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Tables> {
    let list = read(&folder.join("tables.list"), FILE_LIMIT).ok().flatten()?;
    let mut tables = Tables { list: list.clone(), ..Tables::default() };
    for name in list.split(|byte| *byte == b'\n').filter(|name| !name.is_empty()).take(MAX_TABLES) {
        let path = folder.join(OsStr::from_bytes(name));
        let table = read(&path, TABLE_LIMIT).ok().flatten();
        if table.and_then(|table| tables.read(&table, references)).is_none() {
            tracing::warn!(table = %path.display(), "snapshot: a table of git's references does not read; `git refs verify` says more");
            tables.unread.push(name.to_vec());
        }
    }
    Some(tables)
}

fn tables_of_work_tree(git: &Path, references: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    if tables(&git.join("reftable"), references).is_none() {
        tracing::debug!(git = %git.display(), "snapshot: the work tree has no references of its own");
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A path relative to the workspace where it lies inside.
fn named(root: &Path, path: &Path) -> Vec<u8> {
    path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec()
}

fn small(path: &Path) -> Vec<u8> {
    read(path, FILE_LIMIT).ok().flatten().unwrap_or_default()
}

/// Whether a text is the name of an object.
fn is_object(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

/// The entries of a folder, in the order of their names.
fn entries(folder: &Path) -> Vec<DirEntry> {
    let Ok(listing) = fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<_> = listing.filter_map(Result::ok).take(MAX_LISTED).collect();
    entries.sort_by_key(DirEntry::file_name);
    entries.truncate(MAX_REFERENCES);
    entries
}

/// The files of a folder of settings or hooks: those that git itself looks for come first, so that no number of others hides
/// them. git never runs an example.
fn settings(folder: &Path) -> Vec<DirEntry> {
    let mut files = entries(folder);
    files.retain(|entry| entry.path().extension().is_none_or(|end| end != "sample"));
    files.sort_by_key(|entry| !entry.file_name().to_str().is_some_and(|it| KNOWN.contains(&it)));
    files.truncate(MAX_FILES);
    files
}

/// The references that lie in files of their own. They win over packed ones.
fn loose(common: &Path, below: &Path, references: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for entry in entries(&common.join(below)) {
        if references.len() > MAX_REFERENCES {
            return;
        }
        let name = below.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            loose(common, &name, references);
        } else {
            let object = small(&entry.path()).trim_ascii().to_vec();
            references.insert(name.into_os_string().into_vec(), object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_files_hides_a_hook_that_git_runs() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..2 * MAX_FILES {
            fs::write(folder.path().join(format!("a{number}")), "").unwrap();
            fs::write(folder.path().join(format!("a{number}.sample")), "").unwrap();
        }
        fs::write(folder.path().join("pre-commit"), "exit 0\n").unwrap();
        let found = settings(folder.path());
        assert_eq!(found.len(), MAX_FILES);
        assert_eq!(found.first().unwrap().file_name(), "pre-commit");
        assert!(!found.iter().any(|it| it.path().extension().is_some_and(|end| end == "sample")));
    }
}
