//! What a view changes in a workspace.

use crate::scratch::make;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a view changes in the workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Changes {
    /// Paths of the workspace, and the files whose content they get.
    pub(super) replace: BTreeMap<PathBuf, PathBuf>,
    /// Paths that are taken out.
    pub(super) remove: BTreeSet<PathBuf>,
}

impl Changes {
    pub(super) fn has(&self, path: &Path) -> bool {
        self.replace.contains_key(path) || self.remove.contains(path)
    }
}

pub(super) fn same_content(one: &Path, other: &Path) -> bool {
    let (Ok(a), Ok(b)) = (fs::symlink_metadata(one), fs::symlink_metadata(other)) else {
        return false;
    };
    if a.is_symlink() || b.is_symlink() {
        return fs::read_link(one).is_ok_and(|a| fs::read_link(other).is_ok_and(|b| a == b));
    }
    a.is_file()
        && b.is_file()
        && a.len() == b.len()
        && a.mode() == b.mode()
        && fs::read(one).is_ok_and(|a| fs::read(other).is_ok_and(|b| a == b))
}

/// Writes a reference as it was at the start.
pub(super) fn write_reference(to: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(above) = to.parent() {
        make(above)?;
    }
    fs::write(to, content)
}
