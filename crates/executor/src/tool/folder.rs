//! The folder that a run works in. It is opened by the first call that uses a file, because most
//! calls use none, and creating and removing a folder is expensive.

use crate::tool::{ToolError, Workspace};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use surety_sandbox::folders_of_git;

/// The folder of a run.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Whether it is created on first use; otherwise it must exist.
    own: bool,
    opened: Mutex<Option<Arc<Workspace>>>,
    used: AtomicBool,
    git: OnceLock<Vec<PathBuf>>,
}

impl Folder {
    /// An existing folder that the run does not own.
    pub const fn given(path: PathBuf) -> Self {
        Self::new(path, false)
    }

    /// A folder that the run owns, created on first use.
    pub const fn own(path: PathBuf) -> Self {
        Self::new(path, true)
    }

    const fn new(path: PathBuf, own: bool) -> Self {
        Self {
            path,
            own,
            opened: Mutex::new(None),
            used: AtomicBool::new(false),
            git: OnceLock::new(),
        }
    }

    /// The same with what git reads outside of it, as [`Self::keep_git`].
    #[must_use]
    pub fn with_git(self, folders: Vec<PathBuf>) -> Self {
        self.keep_git(folders);
        self
    }

    /// Keeps what git reads outside of it. The first call decides: commands may write what it follows from.
    pub fn keep_git(&self, folders: Vec<PathBuf>) {
        drop(self.git.set(folders));
    }

    /// The folders outside that git reads, as kept, or as they are at the first call.
    ///
    /// # Errors
    /// As [`Self::workspace`].
    pub fn git(&self) -> Result<&[PathBuf], ToolError> {
        let workspace = self.workspace()?;
        Ok(self.git.get_or_init(|| folders_of_git(workspace.root())))
    }

    /// The workspace in the folder.
    ///
    /// # Errors
    /// The folder cannot be created or opened.
    pub fn workspace(&self) -> Result<Arc<Workspace>, ToolError> {
        let mut opened = self.lock();
        if let Some(workspace) = &*opened {
            return Ok(Arc::clone(workspace));
        }
        if self.own {
            std::fs::create_dir_all(&self.path)
                .map_err(|error| ToolError::io(self.path.display(), &error))?;
        }
        let workspace = Arc::new(Workspace::open(&self.path)?);
        self.used.store(true, Ordering::Relaxed);
        *opened = Some(Arc::clone(&workspace));
        Ok(workspace)
    }

    /// Closes the folder until the workspace is used again.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Whether anything has opened it yet.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Workspace>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a folder that the run owns if it is empty. One with files is kept: it is the run's
    /// result.
    pub fn remove_when_empty(&self) {
        if self.own && self.used.load(Ordering::Relaxed) {
            drop(std::fs::remove_dir(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_ones_own_is_made_when_it_is_needed_and_goes_when_nothing_is_left_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let folder = Folder::own(path.clone());
        folder.remove_when_empty();
        assert!(!path.exists());
        folder.workspace().unwrap();
        assert!(path.is_dir());
        std::fs::write(path.join("left"), "here").unwrap();
        folder.remove_when_empty();
        assert!(path.is_dir(), "it is what the run made");
        std::fs::remove_file(path.join("left")).unwrap();
        folder.remove_when_empty();
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_was_named_must_be_there_and_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::given(parent.path().join("missing"));
        assert_eq!(folder.workspace().unwrap_err().code.as_str(), "file_not_found");
        assert!(!parent.path().join("missing").exists());
        let folder = Folder::given(parent.path().to_owned());
        folder.workspace().unwrap();
        folder.remove_when_empty();
        assert!(parent.path().is_dir());
    }
}
