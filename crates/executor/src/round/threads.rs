//! Reads many files of a workspace by several threads.

use crate::snapshot::Check;
use crate::tool::{ErrorCode, ToolError};
use std::thread;

/// Threads that read files at most.
const MAX_THREADS: usize = 16;
/// Fewer files than these are read by one thread.
const ALONE: usize = 32;

/// What `read` finds in each of the files, in their order.
///
/// # Errors
/// Those of `read` and of `check`, which is called before each file.
pub(super) fn read_by_threads<F: Sync, T: Send>(
    files: &[F],
    read: impl Fn(&F) -> Result<Option<T>, ToolError> + Sync,
    check: Check<'_>,
) -> Result<Vec<T>, ToolError> {
    let read_all = |part: &[F]| -> Result<Vec<T>, ToolError> {
        let mut found = Vec::new();
        for file in part {
            check()?;
            found.extend(read(file)?);
        }
        Ok(found)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let (own, others) = files.split_at(files.len().div_ceil(threads).max(ALONE).min(files.len()));
    thread::scope(|scope| {
        let read_all = &read_all;
        let begin = |part| {
            let thread = thread::Builder::new().name("sources".to_owned());
            (part, thread.spawn_scoped(scope, move || read_all(part)).ok())
        };
        let begun: Vec<_> = others.chunks(own.len().max(1)).map(begin).collect();
        let mut found = read_all(own)?;
        for (part, thread) in begun {
            // Without a thread for it the reading only takes longer.
            let Some(thread) = thread else {
                found.append(&mut read_all(part)?);
                continue;
            };
            let read = thread.join().map_err(|_| {
                let message = "reading the sources of the workspace failed: a defect";
                ToolError::new(ErrorCode::InternalError, message)
            })?;
            found.append(&mut read?);
        }
        Ok(found)
    })
}
