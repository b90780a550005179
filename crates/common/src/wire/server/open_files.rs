//! How many files a process may have open: connections, and four for each command that runs.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io;

/// Enough for thousands of commands, and not so many that a program which goes through all numbers
/// takes long.
const ENOUGH: u64 = 65_536;
/// The most that macOS gives a process, whatever it says.
const OPEN_MAX: u64 = 10_240;

/// Asks for as many as the system lets this process have, 65,536 at most. What it starts has as many.
///
/// Without being asked most systems allow 1,024, and macOS 256: an executor's slots need more.
///
/// # Errors
/// The system does not say how many it allows.
pub(super) fn raise_open_files() -> io::Result<()> {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    for wish in [ENOUGH, OPEN_MAX].map(|wish| wish.min(most)) {
        // As many as before are no failure: what needs more of them waits.
        if wish <= now || setrlimit(Resource::RLIMIT_NOFILE, wish, most).is_ok() {
            break;
        }
    }
    Ok(())
}

/// How many files this process may have open.
///
/// # Errors
/// The system does not say.
pub fn open_files() -> io::Result<u64> {
    Ok(getrlimit(Resource::RLIMIT_NOFILE)?.0)
}
