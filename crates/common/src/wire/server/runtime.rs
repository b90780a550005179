//! The threads of a process, and its limit of open files.

use super::open_files::raise_open_files;
use std::io;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::runtime::Builder;

/// The time limit of work that still blocks a thread when everything else has ended, such as the read of a
/// large folder. The end of the process ends what is left.
const BLOCKING_END: Duration = Duration::from_secs(2);

/// Carries out the work of a process on a runtime of its own, with the limit of open files raised. By default
/// it uses half of the processors; the others are for the database or for an executor's commands. More
/// threads cost more in cache misses than they gain.
///
/// Work that blocks a thread delays the return by at most two seconds.
///
/// # Errors
/// The system starts no threads, or does not report its limit of open files.
pub fn block_on<T>(threads: Option<u32>, work: impl Future<Output = T>) -> io::Result<T> {
    raise_open_files()?;
    let wanted = threads.and_then(|threads| usize::try_from(threads).ok());
    let half = || available_parallelism().map_or(1, |processors| processors.get() / 2);
    let threads = wanted.unwrap_or_else(half).max(1);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let ended = runtime.block_on(work);
    runtime.shutdown_timeout(BLOCKING_END);
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn work_that_blocks_a_thread_does_not_hold_the_end_up() {
        let (release, held) = channel::<()>();
        let blocked = async {
            let (begun, has_begun) = channel();
            tokio::task::spawn_blocking(move || {
                begun.send(()).ok();
                // It ends with this test.
                held.recv().ok();
            });
            has_begun.recv().is_ok()
        };
        assert!(block_on(Some(1), blocked).unwrap());
        drop(release);
    }
}
