//! What a run that is a task acts on: the assignee's own account on a forge, and the history of the task.

use crate::tool::{ErrorCode, ToolError};
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use surety_common::domain::toolchain::PushBranch;
use surety_forge::{Forge, ForgeError, ForgeErrorCode, RepoName};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// What the forge tools of a run act on.
#[derive(Clone)]
pub struct ForgeOfTask {
    /// The forge, as the assignee's own account sees it.
    pub forge: Arc<dyn Forge>,
    /// The repository that the task is about.
    pub repo: RepoName,
    /// The pull request or the issue that the task is about.
    pub number: Option<u64>,
    /// The branch that the work on the task is pushed to; none for a task that asks for no change of code.
    pub branch: Option<PushBranch>,
    /// When the task began: nothing that it wrote is older.
    pub began_at: DateTime<Utc>,
}

/// Finds the forge of a run, when a tool first asks for it.
pub type FindForge =
    Arc<dyn Fn() -> BoxFuture<'static, Result<ForgeOfTask, ToolError>> + Send + Sync>;

/// A report of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReport {
    /// The call: a repeated one stores no second report.
    pub call_id: Uuid,
    /// The text; not blank.
    pub text: String,
    /// Addresses that show what was done.
    pub links: Vec<String>,
}

/// Stores a report of a task, once for its call.
pub type StoreReport =
    Arc<dyn Fn(NewReport) -> BoxFuture<'static, Result<(), ToolError>> + Send + Sync>;

/// The forge and the history of a run that is a task; nothing of another run. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunForge {
    found: Option<Arc<Found>>,
    report: Option<StoreReport>,
}

struct Found {
    find: FindForge,
    found: OnceCell<ForgeOfTask>,
}

impl RunForge {
    /// The forge that is found by this.
    #[must_use]
    pub fn found_by(find: FindForge) -> Self {
        let found = Some(Arc::new(Found { find, found: OnceCell::new() }));
        Self { found, report: None }
    }

    /// The same, with the history of the task.
    #[must_use]
    pub fn reporting_to(self, report: StoreReport) -> Self {
        Self { report: Some(report), ..self }
    }

    /// Stores the report of the task.
    ///
    /// # Errors
    /// `forge_unavailable` for a run that is no task, `io_failed`.
    pub(super) async fn report(&self, report: NewReport) -> Result<(), ToolError> {
        match &self.report {
            Some(store) => store(report).await,
            None => Err(unavailable("the run is no task, so it takes no report")),
        }
    }

    /// What the tools act on.
    ///
    /// # Errors
    /// `forge_unavailable` for a run that is no task, and for an assignee without a credential.
    pub(crate) async fn open(&self) -> Result<&ForgeOfTask, ToolError> {
        let Some(found) = &self.found else {
            return Err(unavailable("the run is no task of a forge that is configured"));
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
        f.debug_tuple("RunForge").field(&self.found.is_some()).finish()
    }
}

/// The failure of a call of the forge. Its text has no credential.
pub(crate) fn failed(error: &ForgeError) -> ToolError {
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
