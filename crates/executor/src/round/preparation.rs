//! What a round remembers of the lines that prepare its views.

use crate::tool::ToolError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// How the lines that prepare the views ended.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    /// The first line that failed: its check id, and why.
    failed: Mutex<Option<(String, ToolError)>>,
    /// How the lines ended with the workspace of the start.
    pub(super) at_start: OnceCell<Result<(), ToolError>>,
}

impl Preparation {
    /// The first line that failed.
    pub(super) fn failed(&self) -> MutexGuard<'_, Option<(String, ToolError)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
