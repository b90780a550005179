//! Files that a command has open or mapped and that have no name any more, so that no walk over folders finds them.

use super::processes::descendants;
use nix::errno::Errno;
use nix::sys::statfs::{FsType, HUGETLBFS_MAGIC, TMPFS_MAGIC, statfs};
use nix::unistd::geteuid;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The unit in which systems count what a file takes.
const BLOCK: u64 = 512;

/// File systems in memory, which other limits bound.
const IN_MEMORY: [FsType; 2] = [TMPFS_MAGIC, HUGETLBFS_MAGIC];

/// What such files take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unnamed {
    pub(super) bytes: u64,
    /// Whether no process of the command closed itself to this one.
    pub(super) all_seen: bool,
}

/// The files of all that descends from this process; each once.
pub(super) fn of_descendants() -> Unnamed {
    let mut files = BTreeMap::new();
    let mut all_seen = true;
    for process in descendants() {
        let folder = PathBuf::from(format!("/proc/{}", process.pid));
        for kind in ["fd", "map_files"] {
            match fs::read_dir(folder.join(kind)) {
                Ok(entries) => {
                    let found = entries.flatten().filter_map(|entry| unnamed(&entry.path()));
                    files.extend(found);
                }
                Err(error) if kind == "fd" => all_seen &= !closed_itself(&folder, &error),
                // Older kernels show mapped files to root only.
                Err(_) => {}
            }
        }
    }
    Unnamed {
        bytes: files.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)),
        all_seen,
    }
}

/// The device, the inode and the bytes of a file on disk that has no name.
fn unnamed(open: &Path) -> Option<((u64, u64), u64)> {
    let found = fs::metadata(open).ok()?;
    if found.nlink() > 0 || !found.is_file() {
        return None;
    }
    let system = statfs(open).ok()?.filesystem_type();
    let is_on_disk = !IN_MEMORY.contains(&system);
    is_on_disk.then(|| ((found.dev(), found.ino()), found.blocks().saturating_mul(BLOCK)))
}

/// Whether a process of this account cannot be looked into. One of another account may be closed by its account alone, and
/// one that has ended is gone.
fn closed_itself(folder: &Path, error: &io::Error) -> bool {
    let refused =
        matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EACCES | Errno::EPERM));
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
    refused && uid == Some(geteuid().as_raw().to_string().as_str())
}
