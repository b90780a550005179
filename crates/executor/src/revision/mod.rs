//! A revision of a git repository as the start of a verification.
//!
//! ```text
//!   revision -- git, in the sandbox --> its files in a folder of their own, and a list of them
//!            -- manifest of these ----> compared with the workspace by git's end-of-line rules only
//! ```
//!
//! git runs with a private repository that borrows the objects: no hook, filter, replaced object or
//! configuration of the workspace has an effect.

mod checkout;
mod compare;
mod list;

pub use crate::git_reader::Reader;
pub use checkout::RevisionError;

use crate::blocking::blocking;
use crate::round::Start;
use crate::snapshot::{
    Reach, Snapshots, WorkTree, ignored_at_start, ignored_by_exclude, of_revision,
};
use crate::tool::{ToolError, Workspace};
use checkout::Checkout;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::manifest::{IgnoreRules, Manifest, Place};
use tokio_util::sync::CancellationToken;

/// A revision whose files were read.
#[derive(Debug)]
pub struct Revision {
    checkout: Checkout,
    /// Its files, as they would lie in the workspace.
    files: PathBuf,
}

/// Where git keeps what belongs to the work tree around a folder; none outside of any.
pub fn git_folder(workspace: &Path) -> Option<PathBuf> {
    WorkTree::around(workspace).map(|tree| tree.git)
}

/// The top of the git work tree around a folder; none outside of any.
pub fn work_tree_top(workspace: &Path) -> Option<PathBuf> {
    WorkTree::around(workspace).map(|tree| tree.top)
}

impl Reader {
    /// Reads the files of a revision.
    ///
    /// # Errors
    /// [`RevisionError`]
    pub async fn read(
        &self,
        workspace: &Workspace,
        revision: &str,
    ) -> Result<Revision, RevisionError> {
        let root = workspace.root();
        let tree =
            WorkTree::around(root).ok_or_else(|| RevisionError::NoRepository(root.to_owned()))?;
        let prefix = root.strip_prefix(&tree.top).unwrap_or(Path::new("")).to_owned();
        let checkout = self.check_out(tree, revision).await?;
        let files = checkout.folder.join(&prefix);
        std::fs::create_dir_all(&files).map_err(|error| ToolError::io(files.display(), &error))?;
        Ok(Revision { checkout, files })
    }
}

impl Revision {
    /// The commit that it names, in hexadecimal.
    pub fn commit(&self) -> &str {
        &self.checkout.commit
    }

    /// The top of the work tree that it is a revision of.
    pub fn top(&self) -> &Path {
        &self.checkout.tree.top
    }

    /// The folder with its files, as they would lie in the workspace.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// The folder with its files, as they would lie at the top of the work tree.
    pub fn folder(&self) -> &Path {
        &self.checkout.folder
    }

    /// The workspace as it would be at this revision. Ignored paths are as in `opened`, the answer of an earlier
    /// call about the same folder, and else as they are now. `counted` are the globs of ignored paths that checks
    /// ask about.
    ///
    /// # Errors
    /// Files cannot be read; the reading was cancelled.
    pub async fn start(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        counted: Vec<String>,
        opened: Option<Arc<Manifest>>,
        cancel: &CancellationToken,
    ) -> Result<Start, ToolError> {
        let (own, workspace, cancel) = (Arc::clone(self), Arc::clone(workspace), cancel.clone());
        blocking(move || own.start_of(&workspace, &counted, opened.as_deref(), &cancel)).await?
    }

    /// The workspace at the revision: its files and their ignore rules, with the ignored paths of the opening.
    fn start_of(
        &self,
        workspace: &Workspace,
        counted: &[String],
        opened: Option<&Manifest>,
        cancel: &CancellationToken,
    ) -> Result<Start, ToolError> {
        let check = || if cancel.is_cancelled() { Err(ToolError::called_off()) } else { Ok(()) };
        let (checkout, files) = (&self.checkout, self.files.as_path());
        let mut rules = rules(workspace, checkout, counted);
        let mut snapshots = Snapshots::resume(&rules)?;
        let mut now = snapshots.take(workspace, None, Reach::Everything, &check)?;
        let excluded = match opened {
            None => ignored_by_exclude(&checkout.tree, &rules, &now)?,
            Some(_) => Vec::new(),
        };
        if !excluded.is_empty() {
            // What is as if tracked is never ignored, and the revision does not have it.
            let own = Arc::make_mut(&mut rules);
            own.tracked.extend(excluded);
            own.tracked.sort_unstable();
            snapshots = Snapshots::resume(&rules)?;
            now = snapshots.take(workspace, None, Reach::Everything, &check)?;
        }
        // The rules ignore nothing that the revision holds.
        let revision = Snapshots::resume(&Arc::new(IgnoreRules::default()))?;
        let revision = revision.take(&Workspace::open(files)?, None, Reach::Everything, &check)?;
        let place = Place::clone(&now.place);
        let entries =
            compare::adopt(revision.entries(), &now, &checkout.listed, (files, workspace))?;
        let ignored = ignored_at_start(opened.unwrap_or(&now), &now);
        let manifest = Arc::new(compare::manifest(place, rules, entries, ignored));
        let (facts, originals) = (Arc::default(), Arc::default());
        let revision = Some(checkout.commit.clone());
        Ok(Start { snapshots: Arc::new(snapshots), manifest, facts, originals, revision })
    }
}

fn rules(workspace: &Workspace, checkout: &Checkout, counted: &[String]) -> Arc<IgnoreRules> {
    let root = workspace.root();
    let prefix = root.strip_prefix(&checkout.tree.top).unwrap_or(Path::new(""));
    let prefix = prefix.as_os_str().as_bytes();
    let inside = checkout.listed.paths().filter_map(|path| match prefix {
        [] => Some(path.to_vec()),
        prefix => path.strip_prefix(prefix)?.strip_prefix(b"/").map(<[u8]>::to_vec),
    });
    let mut paths: Vec<_> = inside.collect();
    paths.sort_unstable();
    Arc::new(of_revision(&checkout.tree, root, &checkout.folder, paths, counted))
}
