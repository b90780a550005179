//! The times of files.

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::fs;
use std::io;
use std::path::Path;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Sets the time of the last write of a file or a folder, in nanoseconds since 1970. It need not be one that may be read.
/// Nothing is set where nothing stands, or a link.
///
/// # Errors
/// It belongs to another account, or lies on a file system that cannot be written.
pub fn set_modified(path: &Path, at: i64) -> io::Result<()> {
    let is_one = |found: fs::Metadata| found.is_file() || found.is_dir();
    if !fs::symlink_metadata(path).is_ok_and(is_one) {
        return Ok(());
    }
    let modified = TimeSpec::new(at.div_euclid(SECOND), at.rem_euclid(SECOND));
    let flag = UtimensatFlags::NoFollowSymlink;
    Ok(utimensat(AT_FDCWD, path, &TimeSpec::UTIME_OMIT, &modified, flag)?)
}
