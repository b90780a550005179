//! Reads a file that another process may change, replace or turn into a link meanwhile.

use crate::message::Reason;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest file that is parsed, in bytes: a syntax tree takes many times as much memory.
pub const FILE_LIMIT: u64 = 4 << 20;

/// The text of a file below the working directory.
pub(crate) fn read(path: &str) -> Result<String, Reason> {
    let file = open(Path::new(path)).map_err(|error| reason(&error))?;
    let found = file.metadata().map_err(|error| reason(&error))?;
    if !found.is_file() {
        return Err(Reason::NotAFile);
    }
    // Not more memory than the limit, also where the file grows.
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(Reason::TooLarge);
    }
    if bytes.contains(&0) {
        return Err(Reason::Binary);
    }
    String::from_utf8(bytes).map_err(|_| Reason::NotUtf8)
}

/// Opens without waiting for the writer of a pipe, and never outside the working directory.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), resolve) {
        // An old kernel, or a filter of a container that refuses the call.
        Err(Errno::NOSYS | Errno::PERM) => open_no_link(path),
        opened => Ok(opened?.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> io::Result<File> {
    open_no_link(path)
}

/// Without the kernel's help the sandbox alone bounds where a link in a folder of the path leads.
fn open_no_link(path: &Path) -> io::Result<File> {
    if std::fs::symlink_metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(io::Error::from(io::ErrorKind::CrossesDevices))
}

fn reason(error: &io::Error) -> Reason {
    if error.kind() == io::ErrorKind::NotFound {
        Reason::Removed
    } else if error.kind() == io::ErrorKind::CrossesDevices {
        Reason::OutsideWorkspace
    } else {
        Reason::Unreadable
    }
}
