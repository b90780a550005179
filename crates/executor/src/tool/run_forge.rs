//! The forge of a run that is a task: the assignee's own account there.

use crate::tool::{ErrorCode, ToolError};
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use surety_forge::{Forge, ForgeError, ForgeErrorCode, RepoName};
use tokio::sync::OnceCell;

/// What the forge tools of a run act on.
#[derive(Clone)]
pub struct ForgeOfTask {
    /// The forge, as the assignee's own account sees it.
    pub forge: Arc<dyn Forge>,
    /// The repository that the task is about.
    pub repo: RepoName,
    /// The pull request or the issue that the task is about.
    pub number: Option<u64>,
    /// When the task began: nothing that it wrote is older.
    pub began_at: DateTime<Utc>,
}

/// Finds the forge of a run, when a tool first asks for it.
pub type FindForge =
    Arc<dyn Fn() -> BoxFuture<'static, Result<ForgeOfTask, ToolError>> + Send + Sync>;

/// The forge of a run; none of a run that is no task. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunForge(Option<Arc<Found>>);

struct Found {
    find: FindForge,
    found: OnceCell<ForgeOfTask>,
}

impl RunForge {
    /// The forge that is found by this.
    #[must_use]
    pub fn found_by(find: FindForge) -> Self {
        Self(Some(Arc::new(Found { find, found: OnceCell::new() })))
    }

    /// What the tools act on.
    ///
    /// # Errors
    /// `forge_unavailable` for a run that is no task, and for an assignee without a credential.
    pub(super) async fn open(&self) -> Result<&ForgeOfTask, ToolError> {
        let Some(found) = &self.0 else {
            return Err(unavailable("the run is no task of a forge"));
        };
        found.found.get_or_try_init(|| (found.find)()).await
    }
}

/// The refusal of a run whose forge cannot be used.
pub(crate) fn unavailable(why: &str) -> ToolError {
    ToolError::new(ErrorCode::ForgeUnavailable, why)
}

impl fmt::Debug for RunForge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunForge").field(&self.0.is_some()).finish()
    }
}

/// The failure of a call of the forge. Its text has no credential.
pub(super) fn failed(error: &ForgeError) -> ToolError {
    let code = match error.code {
        ForgeErrorCode::Unreachable | ForgeErrorCode::RateLimited | ForgeErrorCode::BadAnswer => {
            ErrorCode::ForgeFailed
        }
        ForgeErrorCode::Unauthorized
        | ForgeErrorCode::CredentialUnreadable
        | ForgeErrorCode::ConfigInvalid => ErrorCode::ForgeUnavailable,
        ForgeErrorCode::TooLarge => ErrorCode::TooLarge,
        ForgeErrorCode::Forbidden
        | ForgeErrorCode::NotFound
        | ForgeErrorCode::Conflict
        | ForgeErrorCode::Unprocessable
        | ForgeErrorCode::NotServed => ErrorCode::ForgeRefused,
    };
    ToolError::new(code, error.to_string())
}
