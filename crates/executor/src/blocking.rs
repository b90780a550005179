//! Work that reads files, beside the threads of the runtime.

use crate::tool::{ErrorCode, ToolError};

/// Runs what reads files beside the runtime's own threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        ToolError::new(ErrorCode::InternalError, format!("a look at the workspace failed: {error}"))
    })
}
