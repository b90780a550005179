//! Waits while the machine has no free file descriptors or processes, or while the executor's data folder cannot be
//! written. A call that was refused for that reason was not started, so it is retried, as with an unavailable database.
//! The plan is not at fault.

use super::leased_run::LeasedRun;
use crate::blocking::blocking;
use crate::pauses::Pauses;
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The result of an attempt that needs resources of the machine.
pub(super) trait Tried {
    /// Whether the machine lacked resources for it.
    fn found_no_resources(&self) -> bool;

    /// Whether it failed at a file or folder, which may be one of the executor's own.
    fn failed_at_file(&self) -> bool;

    /// The result when the work on the run was cancelled in the meantime.
    fn called_off() -> Self;
}

impl Tried for ToolOutcome {
    fn found_no_resources(&self) -> bool {
        self.error_code == Some(ErrorCode::MachineExhausted)
    }

    fn failed_at_file(&self) -> bool {
        self.error_code.is_some_and(ErrorCode::is_of_file)
    }

    fn called_off() -> Self {
        ToolError::called_off().into()
    }
}

impl<T> Tried for Result<T, ToolError> {
    fn found_no_resources(&self) -> bool {
        self.as_ref().is_err_and(|error| error.code == ErrorCode::MachineExhausted)
    }

    fn failed_at_file(&self) -> bool {
        self.as_ref().is_err_and(|error| error.code.is_of_file())
    }

    fn called_off() -> Self {
        Err(ToolError::called_off())
    }
}

/// What an attempt lacked.
enum Lack {
    /// File descriptors or processes.
    Resources,
    /// A data folder that can be written.
    DataFolder(std::io::Error),
}

impl Lack {
    async fn of(run: &LeasedRun, tried: &impl Tried) -> Option<Self> {
        if tried.found_no_resources() {
            return Some(Self::Resources);
        }
        if !tried.failed_at_file() {
            return None;
        }
        let sandbox = run.engine.sandbox.clone();
        let written = blocking(move || sandbox.write_to_scratch()).await;
        written.ok()?.err().map(Self::DataFolder)
    }

    fn log(&self, run: &LeasedRun) {
        match self {
            Self::Resources => tracing::warn!(
                run_id = %run.spec.id,
                "waiting for the machine: no file descriptors or processes are free; raise its limits or use fewer slots"
            ),
            Self::DataFolder(error) => tracing::warn!(
                run_id = %run.spec.id,
                folder = %run.engine.sandbox.scratch().display(),
                %error,
                "waiting for the executor's data folder: it cannot be written; free space there or make it writable, \
                 or name another one with --executor-data-dir (SURETY_EXECUTOR_DATA_DIR)"
            ),
        }
    }
}

/// Retries until the machine has the resources, or until the time limit.
pub(super) async fn wait_for_resources<T: Tried, F: Future<Output = T>>(
    run: &LeasedRun,
    time: Duration,
    mut attempt: impl FnMut() -> F,
) -> T {
    let until = Instant::now() + time;
    let mut pauses = Pauses::new();
    let mut logged = false;
    loop {
        let tried = attempt().await;
        let Some(lack) = Lack::of(run, &tried).await else { return tried };
        let again = Instant::now() + pauses.next();
        // If every waiting run kept a file open, none would become free.
        run.folder.close();
        if !std::mem::replace(&mut logged, true) {
            lack.log(run);
        }
        if again >= until {
            return tried;
        }
        tokio::select! {
            () = sleep_until(again) => {}
            () = run.lease.calls.cancelled() => return T::called_off(),
        }
    }
}
