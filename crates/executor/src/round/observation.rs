//! Files that checks name.

use super::Round;
use crate::blocking::blocking;
use crate::tool::observe::Counts;
use crate::tool::{RelPath, ToolError, ToolOutcome, Workspace, observe};
use std::sync::Arc;
use surety_common::domain::check::{FileType, Owner};
use surety_common::domain::receipt::Fact;

/// The name of the output that says that a check's command wrote the file.
const MADE_BY_CHECK: &str = "made_by_check";

impl Round {
    pub(super) async fn observe_file(
        &self,
        path: &str,
        file_type: FileType,
        owner: Owner,
    ) -> Result<ToolOutcome, ToolError> {
        let look = move |workspace: &Workspace, path: &str, counts: Counts<'_>| {
            observe::observe_file(workspace, path, file_type, counts)
        };
        self.observe(path, owner, look).await
    }

    pub(super) async fn observe_content(
        &self,
        path: &str,
        needle: &str,
        owner: Owner,
    ) -> Result<ToolOutcome, ToolError> {
        let needle = needle.to_owned();
        let look = move |workspace: &Workspace, path: &str, counts: Counts<'_>| {
            observe::observe_content(workspace, path, &needle, counts)
        };
        self.observe(path, owner, look).await
    }

    /// Looks in the workspace, and where that has nothing at what commands of this owner class, and of those
    /// with more trust, wrote in their views. The originals that a view put there itself are written by none.
    async fn observe(
        &self,
        path: &str,
        owner: Owner,
        look: impl Fn(&Workspace, &str, Counts<'_>) -> Result<Fact, ToolError> + Send + 'static,
    ) -> Result<ToolOutcome, ToolError> {
        let (folder, made) = (Arc::clone(&self.setup.folder), self.made_for(owner)?);
        let path = path.to_owned();
        let facts = blocking(move || {
            let workspace = folder.workspace()?;
            // A view lies at another path: it is looked at by the path below its root.
            let located = workspace.locate_by_any_name(&path).map(|located| located.text());
            let path = located.unwrap_or(path);
            let fact = look(workspace.as_ref(), &path, &observe::every)?;
            if let Some(absent_path) = absent(&fact) {
                for made in &made {
                    let counts = |path: &RelPath| made.is_written(path.as_path());
                    let in_view = look(&Workspace::open(&made.folder)?, &path, &counts)?;
                    if absent(&in_view).is_none() {
                        let key = MADE_BY_CHECK.to_owned();
                        return Ok(vec![
                            in_view,
                            Fact::Output { key, value: absent_path.to_owned() },
                        ]);
                    }
                }
            }
            Ok(vec![fact])
        })
        .await??;
        let summary = facts.first().map_or_else(String::new, summary);
        Ok(ToolOutcome::done(summary, Vec::new(), facts))
    }
}

/// The path where a fact says that something is not there.
fn absent(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::FileObserved { path, exists: false } | Fact::Content { path, found: false, .. } => {
            Some(path)
        }
        Fact::FileObserved { .. }
        | Fact::Content { .. }
        | Fact::FileWritten { .. }
        | Fact::Command { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. }
        | Fact::Tests { .. } => None,
    }
}

fn summary(fact: &Fact) -> String {
    match fact {
        Fact::FileObserved { path, exists: true } => format!("{path} exists"),
        Fact::FileObserved { path, exists: false } => format!("{path} does not exist"),
        Fact::Content { path, found: true, .. } => format!("{path} contains the text"),
        Fact::Content { path, found: false, .. } => format!("{path} does not contain the text"),
        Fact::FileWritten { .. }
        | Fact::Command { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. }
        | Fact::Tests { .. } => "observed".to_owned(),
    }
}
