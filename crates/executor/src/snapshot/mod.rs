//! Snapshots: what a workspace is at one moment, as a [`Manifest`].
//!
//! ```text
//!   begin --> work tree, index, ignore rules --> walk --> the first manifest and its rules
//!   take ---> the rules of the first one ------> walk --> a later manifest
//!                                                 |
//!                                                 +-- a file whose size, times and number are those of the
//!                                                     previous manifest is not read again
//! ```
//!
//! Nothing here needs a database, starts a process, or follows a link. The ignore rules and git's index
//! are read once, at the first snapshot: what a run does to them later changes no judgement.

mod git;
mod git_objects;
mod git_state;
mod kept;
mod net;
mod place;
mod reach;
mod read;
mod rules;
#[cfg(test)]
mod tests;
mod walk;
mod written;

pub(crate) use git::WorkTree;
pub(crate) use git_objects::{WrittenObjects, is_since};
pub(crate) use git_state::Repository;
pub(crate) use kept::ignored_by_exclude;
pub use kept::{Which, altered, ignored_at_start, keep, resumed};
pub use net::{NetChanges, net_changes};
pub use reach::{Check, Reach};
pub(crate) use rules::{named_by, of_revision, texts_in};
pub use written::Written;

use crate::tool::{Ignored, ToolError, Workspace};
use rules::Judge;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::manifest::{IgnoreRules, Manifest, Place};
use walk::{Supply, Walk};

/// Manifests with fewer entries are made by one thread: starting another one takes longer.
const ALONE: usize = 512;
/// Threads that one snapshot uses at most.
const MAX_WORKERS: usize = 16;

/// Takes the snapshots of one workspace, all under the ignore rules of the first.
#[derive(Debug)]
pub struct Snapshots {
    judge: Judge,
}

impl Snapshots {
    /// Takes the first snapshot, of every path. The content of ignored paths counts where a glob of
    /// `counted` matches.
    ///
    /// # Errors
    /// git's index or the folder cannot be read; what `check` answers.
    pub fn begin(
        workspace: &Workspace,
        counted: &[String],
        check: Check<'_>,
    ) -> Result<(Self, Manifest), ToolError> {
        let place = place::of(workspace)?;
        let (judge, start) = rules::read(workspace, counted)?;
        let walk = Walk {
            workspace,
            judge: &judge,
            supply: Supply::Files,
            previous: None,
            reach: Reach::Everything,
            place: &place,
            check,
        };
        let walked = walk.run(workers(None))?;
        let rules = Arc::new(start.rules(walked.sources, &walked.entries, walked.exempt));
        let manifest = Manifest::new(place.place, Arc::clone(&rules), walked.entries);
        Ok((Self::resume(&rules)?, manifest))
    }

    /// Goes on under the rules of an earlier first snapshot.
    ///
    /// # Errors
    /// The rules do not read.
    pub fn resume(rules: &Arc<IgnoreRules>) -> Result<Self, ToolError> {
        Ok(Self { judge: Judge::of(rules)? })
    }

    /// Whether the rules ignore a path, which need not be there.
    pub fn ignores(&self, path: &Path) -> bool {
        self.is_ignored(path.as_os_str().as_bytes(), false)
    }

    /// Whether the rules ignore a file or a folder.
    pub(crate) fn is_ignored(&self, path: &[u8], is_folder: bool) -> bool {
        let mut chain = self.judge.at_root();
        let mut ruled = false;
        for (end, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let folder = path.get(..end).unwrap_or_default();
            ruled |= self.judge.standing(chain.as_ref(), ruled, folder, true).ruled;
            chain = self.judge.within(chain, folder);
        }
        self.judge.standing(chain.as_ref(), ruled, path, is_folder).ignored
    }

    /// Takes a later snapshot. Files that are as in `previous`, by all that the operating system says,
    /// are not read again.
    ///
    /// # Errors
    /// The folder cannot be read; what `check` answers.
    pub fn take(
        &self,
        workspace: &Workspace,
        previous: Option<&Manifest>,
        reach: Reach,
        check: Check<'_>,
    ) -> Result<Manifest, ToolError> {
        let place = place::of(workspace)?;
        let walk = Walk {
            workspace,
            judge: &self.judge,
            supply: Supply::Known,
            previous: previous.filter(|previous| place.holds_times_of(&previous.place)),
            reach,
            place: &place,
            check,
        };
        let walked = walk.run(workers(previous))?;
        Ok(Manifest::new(place.place, Arc::clone(&self.judge.rules), walked.entries))
    }
}

impl Ignored for Snapshots {
    fn ignores(&self, path: &Path) -> bool {
        self.ignores(path)
    }
}

/// Which folder a workspace is, on this machine.
///
/// # Errors
/// What the operating system says.
pub(crate) fn place_of(workspace: &Workspace) -> Result<Place, ToolError> {
    Ok(place::of(workspace)?.place)
}

fn workers(previous: Option<&Manifest>) -> usize {
    if previous.is_some_and(|previous| previous.entries().len() < ALONE) {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_WORKERS)
}
