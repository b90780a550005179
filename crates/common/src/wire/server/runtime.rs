//! The threads a process works with, and the files it may have open.

use super::open_files::raise_open_files;
use std::io;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Runtime};

/// The runtime of a service, which may have as many files open as the system allows. Without a
/// number of `threads` it takes half of the processors: the others are for the database, or for the
/// commands that an executor starts, and a thread that finds no work on its own processor's caches
/// costs more than it brings.
///
/// # Errors
/// The system gives no threads, or does not say how many files it allows.
pub fn runtime(threads: Option<u32>) -> io::Result<Runtime> {
    raise_open_files()?;
    let wanted = threads.and_then(|threads| usize::try_from(threads).ok());
    let half = || available_parallelism().map_or(1, |processors| processors.get() / 2);
    let threads = wanted.unwrap_or_else(half).max(1);
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}
