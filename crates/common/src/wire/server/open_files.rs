//! The limit of open files of a process: it needs one per connection, and four per running command.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;

/// Enough for thousands of commands, and few enough for programs that close all numbers one by one.
const ENOUGH: u64 = 65_536;
/// The most that macOS allows a process, whatever limit it reports.
const OPEN_MAX: u64 = 10_240;

/// Raises the limit of open files to what the system allows, at most 65,536. Child processes
/// inherit it.
///
/// The default is 1,024 on most systems and 256 on macOS, which is too low for an executor's slots.
///
/// # Errors
/// The system does not report its limit.
pub(super) fn raise_open_files() -> io::Result<()> {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    for wish in [ENOUGH, OPEN_MAX].map(|wish| wish.min(most)) {
        // An unchanged limit is no failure: work that needs more files waits.
        if wish <= now || setrlimit(Resource::RLIMIT_NOFILE, wish, most).is_ok() {
            break;
        }
    }
    Ok(())
}

/// The limit of open files of this process.
///
/// # Errors
/// The system does not report it.
pub fn open_files() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)?.0)
}
