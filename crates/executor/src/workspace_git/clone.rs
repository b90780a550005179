//! The folder of a clone, and what this process knows of it.

use crate::scratch::{self, ScratchFolder};
use crate::tool::ToolError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use surety_common::domain::manifest::Manifest;
use tokio::runtime::Handle;

/// What the names of these folders begin with.
const PREFIX: &str = "clone-";

/// The clone of one run, which goes away with this value.
#[derive(Debug)]
pub(crate) struct CloneFolder {
    path: PathBuf,
    state: Arc<Mutex<State>>,
    is_open: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    folder: Option<ScratchFolder>,
    committed: Option<Committed>,
    /// What the run's refs name in the repository, as it was last seen.
    remote: Remote,
}

/// A commit, and the workspace with exactly its files.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub(crate) commit: String,
    pub(crate) manifest: Arc<Manifest>,
}

/// The run's refs in the repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    /// The commit of accepted steps; empty where there is none.
    pub(crate) run: String,
    /// The commit of unfinished work; empty where there is none.
    pub(crate) work: String,
}

impl CloneFolder {
    /// A clone in a folder of its own, which is made when it is opened.
    pub(crate) fn below(parent: &Path) -> Self {
        let path = parent.join(format!("{PREFIX}{}", uuid::Uuid::now_v7().simple()));
        Self { path, state: Arc::default(), is_open: AtomicBool::new(false) }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The workspace.
    pub(crate) fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }

    /// Makes the folder, beside the threads of the runtime.
    pub(crate) fn maker(&self) -> Maker {
        Maker { path: self.path.clone(), state: Arc::clone(&self.state) }
    }

    /// Whether its files are those of the run's row.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Its files are those of the run's row from now on.
    pub(crate) fn opened(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// The last commit that was made or read here.
    pub(crate) fn committed(&self) -> Option<Committed> {
        self.state().committed.clone()
    }

    /// The workspace has exactly the files of this commit.
    pub(crate) fn commits(&self, commit: String, manifest: Arc<Manifest>) {
        self.state().committed = Some(Committed { commit, manifest });
    }

    /// What the run's refs name.
    pub(crate) fn remote(&self) -> Remote {
        self.state().remote.clone()
    }

    /// The refs were seen so.
    pub(crate) fn sees(&self, remote: Remote) {
        self.state().remote = remote;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the folder of a clone.
#[derive(Debug)]
pub(crate) struct Maker {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Maker {
    /// Makes the folder anew, with what git is told. It blocks.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn make(self, configuration: &str) -> Result<(), ToolError> {
        let failed = |error| ToolError::io(self.path.display(), &error);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The earlier folder goes away first.
        *state = State::default();
        state.folder = Some(ScratchFolder::at(self.path.clone()).map_err(failed)?);
        std::fs::write(self.path.join("config"), configuration).map_err(failed)
    }
}

impl Drop for CloneFolder {
    fn drop(&mut self) {
        let Some(folder) = self.state().folder.take() else { return };
        // A clone may have many files, and this may be a thread of the runtime.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(folder))),
            Err(_) => drop(folder),
        }
    }
}

/// Removes the clones of processes that were killed. Answers how many. It blocks.
pub(crate) fn sweep_clones(parent: &Path) -> usize {
    scratch::sweep(parent, PREFIX)
}
