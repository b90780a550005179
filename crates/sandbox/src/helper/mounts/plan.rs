//! What is mounted where, parents before what lies below them.

use crate::spec::Spec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders that every machine has for what goes away.
const TEMPORARY: [&str; 2] = ["/dev/shm", "/tmp"];

/// One path of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// How a path comes to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// An empty folder of the command's own.
    Private,
    /// An empty folder of the command's own that every account may use.
    Temporary,
    /// The host's, to be read and run.
    ReadOnly,
    /// The host's, with changes that go away.
    Cache,
    /// The host's.
    Writable,
    /// The workspace with changes.
    View,
    /// A symbolic link.
    Link(PathBuf),
    /// A file with this text.
    File(String),
}

/// The entries in the order in which they are made. A path that was named twice has the wider right.
pub(super) fn plan(spec: &Spec) -> Vec<Entry> {
    let tree = &spec.tree;
    let mut entries = BTreeMap::new();
    let mut put = |paths: &[PathBuf], kind: Kind| {
        for path in paths {
            entries.insert(path.clone(), kind.clone());
        }
    };
    put(&TEMPORARY.map(PathBuf::from), Kind::Temporary);
    put(&tree.read_only, Kind::ReadOnly);
    put(&tree.caches, Kind::Cache);
    put(&tree.private, Kind::Private);
    put(std::slice::from_ref(&tree.workspace), Kind::ReadOnly);
    put(&tree.writable, Kind::Writable);
    put(&tree.protected, Kind::ReadOnly);
    if spec.view.is_some() {
        entries.retain(|path, kind| {
            let of_workspace = matches!(kind, Kind::Writable | Kind::ReadOnly);
            !(of_workspace && path.starts_with(&tree.workspace))
        });
        entries.insert(tree.workspace.clone(), Kind::View);
    }
    for (path, target) in &tree.links {
        entries.entry(path.clone()).or_insert_with(|| Kind::Link(target.clone()));
    }
    for (path, text) in &tree.files {
        entries.entry(path.clone()).or_insert_with(|| Kind::File(text.clone()));
    }
    let kept = entries.clone();
    entries.retain(|path, kind| !is_covered(&kept, path, kind));
    // A map of paths gives a folder before what lies in it.
    entries.into_iter().map(|(path, kind)| Entry { path, kind }).collect()
}

/// Whether the nearest folder above shows the same.
fn is_covered(entries: &BTreeMap<PathBuf, Kind>, path: &Path, kind: &Kind) -> bool {
    let above = path.ancestors().skip(1).find_map(|above| entries.get(above));
    matches!(
        (kind, above),
        (Kind::ReadOnly, Some(Kind::ReadOnly)) | (Kind::Writable, Some(Kind::Writable))
    )
}
