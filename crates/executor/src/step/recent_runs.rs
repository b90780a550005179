//! What this process knows of runs that it released lately: the answer of a participant brings most of them
//! back here.
//!
//! ```text
//!   lease 7 ends --keep--> what is known under lease 7 --take--> lease 8: nothing ran in between
//!                                                      `-------> lease 9: another executor may have
//! ```
//!
//! Every lease raises the run's epoch by one, so the epoch says whether another executor worked on the run in
//! between. What another one may have changed is forgotten.

use super::history::History;
use crate::fuse::timeout::Timeouts;
use crate::shelf::Shelf;
use crate::tool::RunServers;
use crate::workspace_git::CloneFolder;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use surety_common::store::RunLease;
use uuid::Uuid;

/// The runs that are kept at most, so that waiting runs need no memory.
const MAX_RUNS: usize = 256;
/// The runs at most whose MCP servers stay while they wait.
const MAX_WITH_SERVERS: usize = 16;
/// The entries of manifests that are kept at most, about 200 bytes each; one run may have more.
const MAX_ENTRIES: usize = 200_000;

/// What a process learns of a run while it holds its lease.
#[derive(Default)]
pub(super) struct Known {
    /// The snapshots of its workspace.
    pub(super) history: History,
    /// The MCP servers that its calls started, without those that may write.
    pub(super) servers: RunServers,
    /// The time limits of calls after the timeouts so far.
    timeouts: Mutex<Timeouts>,
    /// The real path of the workspace that is locked for the run.
    locked: Mutex<Option<PathBuf>>,
    /// The clone of a run on a git repository, with the files of its row.
    pub(super) clone: OnceLock<CloneFolder>,
    /// Set once the programs of its checks were looked for.
    pub(super) programs_found: OnceLock<()>,
}

impl Known {
    pub(super) fn timeouts(&self) -> MutexGuard<'_, Timeouts> {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run holds the lock of this folder.
    pub(super) fn has_locked(&self, path: &Path) -> bool {
        self.locked().as_deref() == Some(path)
    }

    /// The run holds the lock of this folder from now on, until it ends.
    pub(super) fn locks(&self, path: PathBuf) {
        *self.locked() = Some(path);
    }

    fn locked(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The runs that this process released lately and that have not ended, with the epoch of their lease.
pub struct RecentRuns {
    known: Shelf<Uuid, (i64, Arc<Known>)>,
    /// Those whose servers are kept, the one that was released first in front.
    served: Mutex<VecDeque<(Uuid, RunServers)>>,
}

impl Default for RecentRuns {
    fn default() -> Self {
        Self { known: Shelf::of(MAX_RUNS, MAX_ENTRIES), served: Mutex::default() }
    }
}

impl RecentRuns {
    /// Keeps what is known of a run whose lease ends.
    pub(super) fn keep(&self, lease: RunLease, known: Arc<Known>) {
        let entries = known.history.entries();
        if known.servers.are_there() {
            let mut served = self.served();
            // Those that ended by themselves take no place.
            served.retain(|(_, servers)| servers.are_there());
            served.push_back((lease.run_id, known.servers.clone()));
            if served.len() > MAX_WITH_SERVERS
                && let Some((_, servers)) = served.pop_front()
            {
                tokio::spawn(async move { servers.end(false).await });
            }
        }
        self.known.put(lease.run_id, (lease.lease_epoch, known), entries);
    }

    fn served(&self) -> MutexGuard<'_, VecDeque<(Uuid, RunServers)>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a run under a new lease.
    pub(super) fn take(&self, lease: RunLease) -> Arc<Known> {
        self.served().retain(|(run_id, _)| *run_id != lease.run_id);
        let kept = self.known.take(lease.run_id, |_| true);
        let still = kept.filter(|(epoch, _)| epoch + 1 == lease.lease_epoch);
        still.map_or_else(Arc::default, |(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(run: u128, lease_epoch: i64) -> RunLease {
        RunLease { run_id: Uuid::from_u128(run), lease_epoch }
    }

    fn known_of(path: &str) -> Arc<Known> {
        let known = Known::default();
        known.locks(path.into());
        Arc::new(known)
    }

    #[test]
    fn only_the_very_next_lease_of_a_run_knows_what_the_one_before_knew() {
        let recent = RecentRuns::default();
        for (next, expected) in [(8, true), (9, false), (7, false)] {
            recent.keep(lease(1, 7), known_of("/a"));
            assert_eq!(recent.take(lease(1, next)).has_locked(Path::new("/a")), expected, "{next}");
            let again = recent.take(lease(1, 8));
            assert!(!again.has_locked(Path::new("/a")), "it was taken already");
        }
        recent.keep(lease(1, 7), known_of("/a"));
        assert!(!recent.take(lease(2, 8)).has_locked(Path::new("/a")), "another run");
    }

    #[test]
    fn the_oldest_runs_are_forgotten_so_that_memory_does_not_grow_with_waiting_runs() {
        let recent = RecentRuns::default();
        let count = u128::try_from(MAX_RUNS).unwrap();
        for run in 0..=count {
            recent.keep(lease(run, 1), known_of("/a"));
        }
        assert!(!recent.take(lease(0, 2)).has_locked(Path::new("/a")), "the oldest");
        assert!(recent.take(lease(1, 2)).has_locked(Path::new("/a")), "the one after it");
        assert!(recent.take(lease(count, 2)).has_locked(Path::new("/a")), "the latest");
    }
}
