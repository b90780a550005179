//! A server whose owner was killed.
//!
//! This process holds the data folder's lock, so the owner has ended. On Linux the kernel has
//! signalled the server to end too; on other systems it still runs. It is stopped and not reused,
//! because only a child process ends with this one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::error::PostgresError;
use super::layout::Layout;
use super::process::{FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN, send, serves};

/// The time limit after each shutdown signal.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Stops the server of an earlier owner, and removes an outdated process file.
pub(super) async fn stop(layout: &Layout) -> Result<(), PostgresError> {
    let file = layout.cluster().join("postmaster.pid");
    let Some(pid) = process_in(&file) else {
        return Ok(());
    };
    if !serves(pid, layout.cluster()) {
        return clear(&file);
    }
    tracing::warn!(pid, "postgres: stopping the server of an earlier run whose owner has ended");
    for signal in [FAST_SHUTDOWN, IMMEDIATE_SHUTDOWN, Signal::SIGKILL] {
        send(pid, signal);
        let ended = async {
            while serves(pid, layout.cluster()) {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(PATIENCE, ended).await.is_ok() {
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

/// Postgres refuses to start while any process has the id in this file, such as after a restart of
/// the machine or in a new container.
fn clear(file: &Path) -> Result<(), PostgresError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(PostgresError::folder(file)(error))
        }
        _ => Ok(()),
    }
}
