//! The threads of a process, and its limit of open files.

use super::open_files::raise_open_files;
use std::io;
use std::thread::available_parallelism;
use tokio::runtime::{Builder, Runtime};

/// The runtime of a service, with the limit of open files raised. By default it uses half of the
/// processors; the others are for the database or for an executor's commands. More threads cost
/// more in cache misses than they gain.
///
/// # Errors
/// The system starts no threads, or does not report its limit of open files.
pub fn runtime(threads: Option<u32>) -> io::Result<Runtime> {
    raise_open_files()?;
    let wanted = threads.and_then(|threads| usize::try_from(threads).ok());
    let half = || available_parallelism().map_or(1, |processors| processors.get() / 2);
    let threads = wanted.unwrap_or_else(half).max(1);
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}
