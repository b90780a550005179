//! The files of a repository's objects that were written since a moment.

use super::git::WorkTree;
use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How far the clock of a file system may be behind that of the machine, in nanoseconds.
const BEHIND: i64 = 100_000_000;
/// Caches of git beside the objects: it reads them first, and does without them.
const CACHES: [&str; 3] =
    ["info/commit-graph", "info/commit-graphs/commit-graph-chain", "pack/multi-pack-index"];

/// Files of objects, each by its path below the folder of objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenObjects {
    /// Objects in files of their own.
    pub(crate) loose: Vec<String>,
    /// The indexes of packs.
    pub(crate) packs: Vec<String>,
    /// What git keeps to be faster.
    pub(crate) caches: Vec<String>,
}

impl WrittenObjects {
    /// Those of a repository that were written since a moment, in nanoseconds since 1970. It blocks.
    pub(crate) fn since(tree: &WorkTree, moment: i64) -> Self {
        let objects = tree.common.join("objects");
        let is_hex = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut found = Self::default();
        for folder in names(&objects).into_iter().filter(|name| name.len() == 2 && is_hex(name)) {
            let own = written(&objects.join(&folder), moment).into_iter();
            let own = own.filter(|name| matches!(name.len(), 38 | 62) && is_hex(name));
            found.loose.extend(own.map(|name| format!("{folder}/{name}")));
        }
        let packs = written(&objects.join("pack"), moment);
        let index = |name: &String| {
            let (stem, end) = name.rsplit_once('.')?;
            matches!(end, "idx" | "pack").then(|| format!("pack/{stem}.idx"))
        };
        found.packs = packs.iter().filter_map(index).collect();
        found.packs.sort_unstable();
        found.packs.dedup();
        let is_new = |name: &&str| {
            fs::symlink_metadata(objects.join(name)).is_ok_and(|it| is_since(&it, moment))
        };
        found.caches = CACHES.iter().copied().filter(is_new).map(str::to_owned).collect();
        found
    }
}

fn listing(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok)
}

fn names(folder: &Path) -> Vec<String> {
    listing(folder).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The names of the files in a folder that were written since a moment.
fn written(folder: &Path, moment: i64) -> Vec<String> {
    let is_new = |entry: &DirEntry| entry.metadata().is_ok_and(|found| is_since(&found, moment));
    let names = listing(folder).filter(is_new);
    names.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Whether anything about a file changed since a moment: no program can set this time.
pub(crate) fn is_since(found: &fs::Metadata, moment: i64) -> bool {
    let changed = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    changed >= moment.saturating_sub(BEHIND)
}
