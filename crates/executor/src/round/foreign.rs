//! Workspaces with folders of other groups, such as one that a team shares.

use super::Round;
use nix::unistd::{getegid, geteuid};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most folders that are looked at.
const MAX_FOLDERS: usize = 100_000;

impl Round {
    /// Whether a folder of the workspace has another owner or group than this account, so that views are copies. An account
    /// other than root makes an overlay in a user namespace in which only its own numbers exist, and the kernel makes
    /// no copy of a folder there whose owner or group has none. It blocks.
    pub(super) fn has_foreign_folders(&self, root: &Path) -> bool {
        *self.has_foreign_folders.get_or_init(|| !geteuid().is_root() && has_foreign(root))
    }
}

fn has_foreign(root: &Path) -> bool {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let mut open = vec![PathBuf::from(root)];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        // What cannot be read is no part of a view.
        let Ok(found) = fs::symlink_metadata(&folder) else { continue };
        seen += 1;
        if (found.uid(), found.gid()) != (uid, gid) {
            return true;
        }
        if seen > MAX_FOLDERS {
            return false;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|found| found.is_dir());
        open.extend(entries.filter(is_folder).map(|entry| entry.path()));
    }
    false
}
