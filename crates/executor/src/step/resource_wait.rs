//! A machine whose open files or processes are all in use: what is refused for that was not begun, so
//! it is waited for, like for a database that is away. It is no fault of the plan.

use super::leased_run::LeasedRun;
use crate::pauses::Pauses;
use crate::tool::{ErrorCode, ToolError, ToolOutcome};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Something that was tried on the machine.
pub(super) trait Tried {
    /// Whether the machine had no room for it.
    fn found_no_resources(&self) -> bool;

    /// What it ends with when the work on its run was called off meanwhile.
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

/// Tries until the machine has room for it, or until the time is over.
pub(super) async fn wait_for_resources<T: Tried, F: Future<Output = T>>(
    run: &LeasedRun,
    time: Duration,
    mut attempt: impl FnMut() -> F,
) -> T {
    let until = Instant::now() + time;
    let mut pauses = Pauses::new();
    let mut told = false;
    loop {
        let tried = attempt().await;
        let again = Instant::now() + pauses.next();
        if !tried.found_no_resources() || again >= until {
            return tried;
        }
        // Were each to wait with a file open, none would find one.
        run.folder.close();
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(
                run_id = %run.spec.id,
                "waiting for the machine: its open files or processes are all in use"
            );
        }
        tokio::select! {
            () = sleep_until(again) => {}
            () = run.lease.calls.cancelled() => return T::called_off(),
        }
    }
}
