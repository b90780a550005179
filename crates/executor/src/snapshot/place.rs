//! Which folder a workspace is, and whether the times of its files can be trusted.

use crate::tool::{ToolError, Workspace};
use nix::sys::stat;
use std::os::fd::AsRawFd;
use surety_common::domain::manifest::Place;

/// Names this boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// What stands before the mount's number.
const MOUNT: &str = "mnt_id:";

/// A folder as it is now.
#[derive(Debug)]
pub(super) struct Here {
    pub(super) place: Place,
    /// Whether its file system sets times at each change, and this machine's kernel makes the changes.
    pub(super) trusted: bool,
}

impl Here {
    /// Whether times that were read at the other place mean the same here.
    pub(super) fn holds_times_of(&self, other: &Place) -> bool {
        self.trusted && !other.boot.is_empty() && other.mount != 0 && self.place == *other
    }
}

/// The place of an open workspace.
///
/// # Errors
/// What the operating system says.
pub(super) fn of(workspace: &Workspace) -> Result<Here, ToolError> {
    let folder = workspace.handle();
    let failed = |error| ToolError::errno(workspace.root().display(), error);
    let found = stat::fstat(folder).map_err(failed)?;
    let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
    let place = Place { boot, mount: mount(folder), device: found.st_dev, inode: found.st_ino };
    Ok(Here { place, trusted: is_trusted(folder) })
}

fn mount(folder: impl AsRawFd) -> u64 {
    let info = format!("/proc/self/fdinfo/{}", folder.as_raw_fd());
    let info = std::fs::read_to_string(info).unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix(MOUNT));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// Others than these may be changed from elsewhere, or keep their own time.
#[cfg(target_os = "linux")]
fn is_trusted(folder: impl std::os::fd::AsFd) -> bool {
    use nix::sys::statfs::{self, FsType};
    const F2FS: FsType = FsType(0xf2f5_2010);
    const ZFS: FsType = FsType(0x2fc1_2fc1);
    let known = [
        statfs::EXT4_SUPER_MAGIC,
        statfs::XFS_SUPER_MAGIC,
        statfs::BTRFS_SUPER_MAGIC,
        statfs::TMPFS_MAGIC,
        statfs::OVERLAYFS_SUPER_MAGIC,
        F2FS,
        ZFS,
    ];
    statfs::fstatfs(folder).is_ok_and(|found| known.contains(&found.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_trusted(_: impl std::os::fd::AsFd) -> bool {
    false
}
