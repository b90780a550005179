//! A server whose owner was killed.
//!
//! We hold the data folder's lock, so its owner is gone. Where the kernel can, it has told the
//! server to end at that moment; elsewhere the server still runs. It is stopped, not adopted:
//! only a child of ours ends with us.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::error::PostgresError;
use super::layout::Layout;
use super::process::{FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN, send, serves};

/// How long it is given after each kind of request to end.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Stops what an earlier owner left running, and clears a process file that points nowhere.
pub(super) async fn stop(layout: &Layout) -> Result<(), PostgresError> {
    let file = layout.cluster().join("postmaster.pid");
    let Some(pid) = process_in(&file) else {
        return Ok(());
    };
    if !serves(pid, layout.cluster()) {
        return clear(&file);
    }
    tracing::warn!(pid, "stopping the Postgres of an earlier run whose owner is gone");
    for signal in [FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN, Signal::SIGKILL] {
        send(pid, signal);
        let gone = async {
            while serves(pid, layout.cluster()) {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(PATIENCE, gone).await.is_ok() {
            return Ok(());
        }
    }
    Err(PostgresError::OrphanStays { pid })
}

fn process_in(file: &Path) -> Option<i32> {
    let text = fs::read_to_string(file).ok()?;
    // A cluster that runs alone under a debugger writes a negative id.
    text.lines().next()?.trim().parse::<i32>().ok()?.checked_abs()
}

/// Postgres would refuse to start while any process has the id in this file, such as after a
/// restart of the machine or in a new container.
fn clear(file: &Path) -> Result<(), PostgresError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(PostgresError::folder(file)(error))
        }
        _ => Ok(()),
    }
}
