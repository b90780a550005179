//! Whether a workspace is still what a verdict was about.

use std::path::{Path, PathBuf};

use surety_common::domain::json::Value;
use surety_common::domain::manifest::digest;
use surety_executor::snapshot::{Reach, Snapshots};
use surety_executor::tool::{ErrorCode, ToolError, Workspace};
use tokio::task::spawn_blocking;

use super::file::Recorded;
use super::scene::{defect, failed};
use crate::failure::{Code, Failure};
use crate::wire_json::{object, text};

/// A workspace beside the verdict about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The workspace.
    pub workspace: PathBuf,
    /// The digest of the verdict.
    pub expected: String,
    /// The digest now.
    pub found: String,
}

impl Comparison {
    /// Whether nothing changed since.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.expected == self.found
    }

    /// The form for scripts.
    #[must_use]
    pub fn to_json(&self) -> Value {
        object([
            ("still", Value::Bool(self.holds())),
            ("workspace", text(self.workspace.to_string_lossy())),
            ("expected", text(&self.expected)),
            ("found", text(&self.found)),
        ])
    }

    /// The form for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (path, found) = (self.workspace.display(), &self.found);
        if self.holds() {
            return format!("{path} is still what the verdict is about\n  digest {found}");
        }
        format!(
            "{path} changed since the verdict\n  verdict {}\n  now     {found}\n  `surety verify` \
             makes a new verdict",
            self.expected
        )
    }
}

/// Compares a workspace with what a verdict recorded of one, under the ignore rules of that moment.
///
/// # Errors
/// The workspace cannot be read, or the rules of the verdict do not.
pub async fn compare(workspace: &Path, recorded: &Recorded) -> Result<Comparison, Failure> {
    let rules = recorded.rules()?;
    let named = workspace.to_owned();
    let taking = spawn_blocking(move || -> Result<_, ToolError> {
        let workspace = Workspace::open(&named)?;
        let snapshots = Snapshots::resume(&rules)?;
        let manifest = snapshots.take(&workspace, None, Reach::NotIgnored, &|| Ok(()))?;
        Ok((workspace.root().to_owned(), digest(&manifest)))
    });
    let taken = taking.await.map_err(defect)?;
    let (workspace, found) = taken.map_err(|error| {
        if error.code == ErrorCode::FileNotFound {
            let advice = "Name the workspace with --workspace.";
            return Failure::new(Code::FileUnusable, error.message, advice);
        }
        failed(&error)
    })?;
    Ok(Comparison { workspace, expected: recorded.digest.clone(), found })
}
