//! What a view changes in a workspace.

use crate::scratch::make;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a view changes in the workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Changes {
    /// Paths of the workspace, and the files whose content they get.
    pub(super) replace: BTreeMap<PathBuf, PathBuf>,
    /// Paths that are taken out.
    pub(super) remove: BTreeSet<PathBuf>,
    /// Paths that an earlier view put into a layer below this one, and that this one does not have.
    pub(super) undone: BTreeSet<PathBuf>,
    /// Paths that get the times of the start, in nanoseconds since 1970.
    pub(super) times: BTreeMap<PathBuf, i64>,
}

impl Changes {
    pub(super) fn has(&self, path: &Path) -> bool {
        self.replace.contains_key(path) || self.takes_out(path)
    }

    pub(super) fn takes_out(&self, path: &Path) -> bool {
        self.remove.contains(path) || self.undone.contains(path)
    }
}

pub(super) fn same_content(one: &Path, other: &Path) -> bool {
    let modes = [one, other].map(|path| fs::symlink_metadata(path).map(|found| found.mode()));
    let [Ok(a), Ok(b)] = modes else { return false };
    a == b && same_text(one, other)
}

/// Whether two files, or two links, say the same, whatever their permissions. What a build wrote may be large, so it is
/// compared in parts.
pub(super) fn same_text(one: &Path, other: &Path) -> bool {
    let (Ok(a), Ok(b)) = (fs::symlink_metadata(one), fs::symlink_metadata(other)) else {
        return false;
    };
    if a.is_symlink() || b.is_symlink() {
        return fs::read_link(one).is_ok_and(|a| fs::read_link(other).is_ok_and(|b| a == b));
    }
    a.is_file()
        && b.is_file()
        && a.len() == b.len()
        && same_bytes(one, other).is_ok_and(|are_same| are_same)
}

fn same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) =
        (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let length = a.len().min(b.len());
        if length == 0 {
            return Ok(a.is_empty() && b.is_empty());
        }
        if a.get(..length) != b.get(..length) {
            return Ok(false);
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Writes a reference as it was at the start.
pub(super) fn write_reference(to: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(above) = to.parent() {
        make(above)?;
    }
    fs::write(to, content)
}
