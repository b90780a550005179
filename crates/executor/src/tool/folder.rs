//! The folder that a run works in. It is opened by the first call that uses a file, because most
//! calls use none, and creating and removing a folder is expensive.

use crate::tool::{ToolError, Workspace};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The folder of a run.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Whether it is created on first use; otherwise it must exist.
    own: bool,
    opened: Mutex<Option<Arc<Workspace>>>,
    used: AtomicBool,
}

impl Folder {
    /// An existing folder that the run does not own.
    pub const fn given(path: PathBuf) -> Self {
        Self { path, own: false, opened: Mutex::new(None), used: AtomicBool::new(false) }
    }

    /// A folder that the run owns, created on first use.
    pub const fn own(path: PathBuf) -> Self {
        Self { path, own: true, opened: Mutex::new(None), used: AtomicBool::new(false) }
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
