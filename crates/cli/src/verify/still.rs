//! Whether a workspace is still what a verdict was about.

use std::path::{Path, PathBuf};

use surety_common::domain::json::Value;
use surety_common::domain::manifest::digest;
use surety_executor::snapshot::{Reach, Snapshots};
use surety_executor::tool::{ErrorCode, ToolError, Workspace};
use tokio::task::spawn_blocking;

use super::file::Recorded;
use super::scene::{defect, failed};
use super::signed::Signed;
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
    /// Who signed the verdict; none where it is no file.
    pub signed: Option<Signed>,
}

impl Comparison {
    /// Whether nothing changed since, as far as the reader can trust the verdict.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.is_same()
            && match self.signed {
                Some(Signed::Changed(_) | Signed::Unsigned { refused: true }) => false,
                Some(Signed::By(_) | Signed::Unsigned { refused: false }) | None => true,
            }
    }

    fn is_same(&self) -> bool {
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
            ("signed_by", self.signed_by().map_or(Value::Null, text)),
        ])
    }

    /// The form for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (path, found) = (self.workspace.display(), &self.found);
        let signed = match &self.signed {
            Some(Signed::By(key_id)) => format!("\n  signed by {key_id}"),
            Some(Signed::Unsigned { refused: false }) => "\n  unsigned".to_owned(),
            Some(Signed::Unsigned { refused: true }) => {
                "\n  unsigned, and a key of a user is trusted here: the verdict may have been changed; `surety verify` \
                 makes a new verdict"
                    .to_owned()
            }
            Some(Signed::Changed(why)) => {
                return format!(
                    "the verdict file about {path} was changed since it was signed: {why}\n  `surety verify` makes a new \
                     verdict"
                );
            }
            None => String::new(),
        };
        if self.is_same() {
            return format!("{path} is still what the verdict is about\n  digest {found}{signed}");
        }
        format!(
            "{path} changed since the verdict\n  verdict {}\n  now     {found}{signed}\n  `surety verify` \
             makes a new verdict",
            self.expected
        )
    }

    fn signed_by(&self) -> Option<&String> {
        match &self.signed {
            Some(Signed::By(key_id)) => Some(key_id),
            Some(Signed::Changed(_) | Signed::Unsigned { .. }) | None => None,
        }
    }
}

/// What is said of a verdict file that is not what was signed. Nothing is compared with it, its path of the workspace
/// neither.
#[must_use]
pub fn not_compared(workspace: &Path, recorded: &Recorded, signed: Signed) -> Comparison {
    let (workspace, expected) = (workspace.to_owned(), recorded.digest.clone());
    Comparison { workspace, expected, found: String::new(), signed: Some(signed) }
}

/// Compares a workspace with what a verdict recorded of one, under the ignore rules of that moment.
///
/// # Errors
/// The workspace cannot be read, or the rules of the verdict do not.
pub async fn compare(
    workspace: &Path,
    recorded: &Recorded,
    signed: Option<Signed>,
) -> Result<Comparison, Failure> {
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
    Ok(Comparison { workspace, expected: recorded.digest.clone(), found, signed })
}
