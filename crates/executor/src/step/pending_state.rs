//! The row of a leased run with the changes that are on their way to the database.

use super::ended::Ended;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use surety_common::domain::execution::Execution;
use surety_common::store::{Outcome, Pending, StoreError, WritePipeline};

/// The row with all changes of this process applied, and the changes whose commit is not confirmed.
pub(super) struct PendingState {
    pub(super) execution: Arc<Execution>,
    pub(super) pending: VecDeque<Pending>,
    /// Orders the changes that were derived from one read of the row.
    pub(super) pipeline: WritePipeline,
    /// A change was lost, so every change derived from it is void.
    pub(super) overtaken: bool,
}

impl PendingState {
    /// The row as it was read, or as the first change of `pipeline` leaves it.
    pub(super) fn new(execution: Arc<Execution>, pipeline: WritePipeline) -> Self {
        Self { execution, pending: VecDeque::new(), pipeline, overtaken: false }
    }

    /// Replaces the state by a fresh read of the row.
    pub(super) fn go_back(&mut self, execution: Execution) {
        self.execution = Arc::new(execution);
        self.pipeline = WritePipeline::default();
    }

    /// Takes the outcomes that are known by now.
    pub(super) fn poll(&mut self) -> Result<(), StoreError> {
        while let Some(first) = self.pending.front_mut() {
            let Some(outcome) = first.try_outcome()? else { break };
            self.overtaken |= outcome == Outcome::Lost;
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Waits until every change is committed or lost.
    pub(super) async fn settle(&mut self) -> Result<(), StoreError> {
        while let Some(first) = self.pending.pop_front() {
            self.overtaken |= first.outcome().await? == Outcome::Lost;
        }
        Ok(())
    }

    /// Fails when a change was lost.
    pub(super) fn check(&self) -> Result<(), Ended> {
        if self.overtaken { Err(Ended::Overtaken) } else { Ok(()) }
    }
}

/// The steps that are worked on here now.
#[derive(Default)]
pub(super) struct UnderWay(std::sync::Mutex<BTreeSet<usize>>);

impl UnderWay {
    fn set(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those steps.
    pub(super) fn steps(&self) -> BTreeSet<usize> {
        self.set().clone()
    }

    /// Work on a step begins; false when it has begun already.
    pub(super) fn begin(&self, index: usize) -> bool {
        self.set().insert(index)
    }

    /// Work on a step is over.
    pub(super) fn end(&self, index: usize) {
        self.set().remove(&index);
    }
}
