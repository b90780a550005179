//! What steps did to the repository of a workspace.

use super::{Round, Start};
use crate::blocking::blocking;
use crate::git_reader::Reader;
use crate::snapshot::{Repository, WorkTree};
use crate::tool::ToolError;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::check_inputs::{GitChange, GitState, Moved};
use surety_common::domain::manifest::Manifest;

impl Round {
    /// What differs from the start, other than a branch of HEAD that moved to a descendant.
    pub(super) async fn git_changes(
        &self,
        start: &Start,
        (root, manifest): (&Path, &Arc<Manifest>),
    ) -> Result<Vec<GitChange>, ToolError> {
        let before = &start.facts.git;
        if before.is_empty() {
            return Ok(Vec::new());
        }
        let (place, manifest) = (root.to_owned(), Arc::clone(manifest));
        let now = blocking(move || Repository::around(&place, &manifest).state).await?;
        let mut changes = Vec::new();
        for (folder, before, now) in before.pairs(&now) {
            // A folder that went away is a change of its files.
            let Some(now) = now else { continue };
            let place = root.join(OsStr::from_bytes(folder));
            let forward = self.forward(before, now, &place).await?;
            changes.extend(before.changes(now, &forward));
        }
        Ok(changes)
    }

    /// Reads a repository in the sandbox, with a folder of this name for what it writes.
    pub(super) fn git_reader(&self, name: &str) -> Result<Reader, ToolError> {
        let folder = self.views()?.join(name);
        crate::scratch::make(&folder).map_err(|error| ToolError::io(folder.display(), &error))?;
        Ok(Reader {
            sandbox: Arc::clone(&self.setup.sandbox),
            environment: Arc::clone(&self.setup.environment),
            folder,
            cancel: self.setup.cancel.clone(),
        })
    }

    /// The branches of HEAD that moved to a descendant of their commit at the start.
    async fn forward(
        &self,
        before: &GitState,
        now: &GitState,
        root: &Path,
    ) -> Result<BTreeSet<Vec<u8>>, ToolError> {
        let mut forward = BTreeSet::new();
        let moved = before.moved(now);
        let Some(tree) = WorkTree::around(root).filter(|_| !moved.is_empty()) else {
            return Ok(forward);
        };
        let reader = self.git_reader("order")?;
        for Moved { branch, from, to } in moved {
            let [from, to] = [from, to].map(|it| String::from_utf8_lossy(&it).into_owned());
            let is_name =
                |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_hexdigit());
            if !is_name(&from) || !is_name(&to) {
                continue;
            }
            match reader.is_ancestor(&tree, &from, &to).await {
                Ok(true) => drop(forward.insert(branch)),
                Ok(false) => {}
                // What cannot be told is shown as a change.
                Err(error) => {
                    tracing::warn!(%error, "verify: git could not compare two commits of a branch");
                }
            }
        }
        Ok(forward)
    }
}
