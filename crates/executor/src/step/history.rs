//! The snapshots of a run's workspace that this process remembers.

use crate::round::StartFacts;
use crate::snapshot::Snapshots;
use std::sync::{Arc, Mutex, PoisonError};
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::manifest::Manifest;
use tokio::sync::OnceCell;

/// The snapshots of a run.
#[derive(Default)]
pub(super) struct History {
    pub(super) base: OnceCell<Base>,
    /// The last one: what did not change since need not be read again.
    latest: Mutex<Option<Arc<Manifest>>>,
}

/// The workspace before the first turn.
pub(super) struct Base {
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) manifest: Arc<Manifest>,
    pub(super) facts: Arc<StartFacts>,
    /// Names the artifact; empty for a folder of the run's own, which begins empty.
    pub(super) artifact: String,
}

impl Base {
    /// Names the artifact in the row, in the change that writes down the first effect.
    pub(super) fn refer(&self, draft: &mut Draft) {
        draft.set_base_snapshot(&self.artifact);
    }
}

impl History {
    /// The last snapshot; none before the first.
    pub(super) fn latest(&self) -> Option<Arc<Manifest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The entries of the manifests that are remembered.
    pub(super) fn entries(&self) -> usize {
        let base = self.base.get().map(|base| Arc::clone(&base.manifest));
        base.iter().chain(&self.latest()).map(|manifest| manifest.entries().len()).sum()
    }

    /// Keeps a snapshot as the last one.
    pub(super) fn remember(&self, manifest: &Arc<Manifest>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(manifest));
    }
}
