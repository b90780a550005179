//! Waits while the machine has no free file descriptors or processes. A call that was refused for
//! that reason was not started, so it is retried, as with an unavailable database. The plan is not
//! at fault.

use super::leased_run::LeasedRun;
use crate::pauses::Pauses;
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The result of an attempt that needs resources of the machine.
pub(super) trait Tried {
    /// Whether the machine lacked resources for it.
    fn found_no_resources(&self) -> bool;

    /// The result when the work on the run was cancelled in the meantime.
    fn called_off() -> Self;
}

impl Tried for ToolOutcome {
    fn found_no_resources(&self) -> bool {
        self.error_code == Some(ErrorCode::MachineExhausted)
    }

    fn called_off() -> Self {
        ToolError::called_off().into()
    }
}

impl<T> Tried for Result<T, ToolError> {
    fn found_no_resources(&self) -> bool {
        self.as_ref().is_err_and(|error| error.code == ErrorCode::MachineExhausted)
    }

    fn called_off() -> Self {
        Err(ToolError::called_off())
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
        let again = Instant::now() + pauses.next();
        if !tried.found_no_resources() || again >= until {
            return tried;
        }
        // If every waiting run kept a file open, none would become free.
        run.folder.close();
        if !std::mem::replace(&mut logged, true) {
            tracing::warn!(
                run_id = %run.spec.id,
                "waiting for the machine: no file descriptors or processes are free; raise its limits or use fewer slots"
            );
        }
        tokio::select! {
            () = sleep_until(again) => {}
            () = run.lease.calls.cancelled() => return T::called_off(),
        }
    }
}
