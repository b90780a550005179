//! What steps did to the repository of a workspace.

use super::{Round, Start};
use crate::blocking::blocking;
use crate::git_reader::{IndexChanges, Reader};
use crate::snapshot::{Repository, WorkTree, WrittenObjects};
use crate::tool::{ErrorCode, ToolError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::check_inputs::{GitChange, GitState, Moved};
use surety_common::domain::manifest::{Aspect, Manifest};

impl Round {
    /// The repository now; nothing where the start has none either.
    pub(super) async fn git_state(
        &self,
        start: &Start,
        (root, manifest): (&Path, &Arc<Manifest>),
    ) -> Result<GitState, ToolError> {
        let is_new = || WorkTree::at(root).is_some();
        if start.facts.git.is_empty() && start.revision.is_none() && !is_new() {
            return Ok(GitState::default());
        }
        let (root, manifest) = (root.to_owned(), Arc::clone(manifest));
        blocking(move || Repository::around(&root, &manifest).state).await
    }

    /// What differs from the start, other than a branch of HEAD that moved to a descendant.
    pub(super) async fn git_changes(
        &self,
        start: &Start,
        (root, manifest): (&Path, &Arc<Manifest>),
        now: &GitState,
    ) -> Result<Vec<GitChange>, ToolError> {
        let before = &start.facts.git;
        if before.is_empty() {
            return Ok(Vec::new());
        }
        let mut changes = Vec::new();
        for (folder, before, now) in before.pairs(now) {
            // A folder that went away is a change of its files.
            let Some(now) = now else { continue };
            if let Some(change) = before.other_place(now, folder) {
                // Without the first repository no line can be answered.
                if change.content.is_none() && !self.setup.rules.may_change_git(&change.path) {
                    return Err(replaced(&root.join(OsStr::from_bytes(&change.path))));
                }
                changes.push(change);
                continue;
            }
            let place = root.join(OsStr::from_bytes(folder));
            let forward = self.forward(before, now, &place).await?;
            changes.extend(before.changes(now, &forward));
            changes.extend(self.forged(before, now, &place).await?);
            changes.extend(self.marked((start, before), manifest, (root, &place)).await?);
        }
        changes.retain(|change| !self.setup.rules.may_change_git(&change.path));
        Ok(changes)
    }

    /// Objects that were written since the start, and whose content is not what their names say: git itself does not compare
    /// them. What it keeps beside the objects, it does without.
    async fn forged(
        &self,
        before: &GitState,
        now: &GitState,
        root: &Path,
    ) -> Result<Vec<GitChange>, ToolError> {
        let Some((tree, moment)) = WorkTree::around(root).zip(before.read_at()) else {
            return Ok(Vec::new());
        };
        let (tree, written) = blocking(move || {
            let written = WrittenObjects::since(&tree, moment);
            (tree, written)
        })
        .await?;
        let mut out = written.caches.clone();
        if !written.loose.is_empty() || !written.packs.is_empty() {
            match self.git_reader("forged")?.forged(&tree, &written).await {
                Ok(forged) => out.extend(forged),
                // What cannot be told is shown as a change.
                Err(error) => {
                    tracing::warn!(%error, "verify: git could not compare its objects with their names");
                    out.extend(written.loose.iter().chain(&written.packs).cloned());
                }
            }
        }
        let change = |name: String| GitChange {
            path: [now.folder.as_slice(), b"/objects/", name.as_bytes()].concat(),
            aspect: Aspect::Added,
            content: None,
        };
        Ok(out.into_iter().map(change).collect())
    }

    /// The index of a repository, where it tells git to overlook files that steps changed, or files that it compared at the
    /// start: a check may rewrite these itself, and ask git for what differs.
    async fn marked(
        &self,
        (start, before): (&Start, &GitState),
        now: &Manifest,
        (root, place): (&Path, &Path),
    ) -> Result<Option<GitChange>, ToolError> {
        let Some(tree) = WorkTree::at(place) else { return Ok(None) };
        let Ok(folder) = tree.git.strip_prefix(root).map(Path::to_owned) else { return Ok(None) };
        let (tree, overlooked) = blocking(move || {
            let overlooked = tree.overlooked();
            (tree, overlooked)
        })
        .await?;
        let above = place.strip_prefix(root).unwrap_or(Path::new(""));
        let is_changed = |path: &Vec<u8>| {
            let path = above.join(OsStr::from_bytes(path)).into_os_string().into_encoded_bytes();
            let known =
                |it: &Manifest| it.get(&path).map(|it| (it.kind, it.mode, it.content.clone()));
            known(&start.manifest) != known(now)
        };
        // Where an earlier version did not keep the marks of the start, any may be one of these.
        let known = before.overlooked();
        let is_new =
            |path: &Vec<u8>| known.as_ref().is_some_and(|known| !known.contains(path.as_slice()));
        let is_out = |path: &Vec<u8>| is_new(path) || is_changed(path);
        let paths: Vec<Vec<u8>> = overlooked?.into_iter().filter(is_out).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let changes = IndexChanges { unmarked: paths, ..IndexChanges::default() };
        let content = match self.git_reader("marked")?.index(&tree, &changes).await {
            Ok(content) => Some(content),
            // The check then runs with the index of the run, and its receipt says so.
            Err(error) => {
                tracing::warn!(%error, "verify: git could not take marks out of its index");
                None
            }
        };
        let path = folder.join("index").into_os_string().into_encoded_bytes();
        Ok(Some(GitChange { path, aspect: Aspect::Content, content }))
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

fn replaced(dot_git: &Path) -> ToolError {
    let message = format!(
        "{} leads to another repository than at the start of the run; put that folder back, or let policy.may_change name it",
        dot_git.display()
    );
    ToolError::new(ErrorCode::WorkspaceMoved, message)
}
