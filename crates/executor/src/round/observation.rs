//! Files that checks name.

use super::Round;
use crate::blocking::blocking;
use crate::tool::{ToolError, ToolOutcome, Workspace, observe};
use std::sync::Arc;
use surety_common::domain::check::FileType;
use surety_common::domain::receipt::Fact;

impl Round {
    pub(super) async fn observe_file(
        &self,
        path: &str,
        file_type: FileType,
    ) -> Result<ToolOutcome, ToolError> {
        let path = path.to_owned();
        self.observe(move |workspace| observe::observe_file(workspace, &path, file_type)).await
    }

    pub(super) async fn observe_content(
        &self,
        path: &str,
        needle: &str,
    ) -> Result<ToolOutcome, ToolError> {
        let (path, needle) = (path.to_owned(), needle.to_owned());
        self.observe(move |workspace| observe::observe_content(workspace, &path, &needle)).await
    }

    async fn observe(
        &self,
        observation: impl FnOnce(&Workspace) -> Result<Fact, ToolError> + Send + 'static,
    ) -> Result<ToolOutcome, ToolError> {
        let folder = Arc::clone(&self.setup.folder);
        let fact = blocking(move || {
            let workspace = folder.workspace()?;
            observation(&workspace)
        })
        .await??;
        Ok(ToolOutcome::done(summary(&fact), Vec::new(), vec![fact]))
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
