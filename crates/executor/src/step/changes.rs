//! Changes of a leased run.
//!
//! ```text
//!   change ----> the state moves at once ----> group commit ----> settled
//!                     |                        (one row for many changes)
//!                     +-- the next turn          lost: read the row again
//! ```
//!
//! A turn without effects need not be committed before the next one begins, because after a crash
//! both are repeated. An intent, a call of the gate and the end of the work wait for the commit.

use super::ended::Ended;
use super::leased_run::LeasedRun;
use super::pending_state::{PendingState, UnderWay};
use super::repository;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::step::StepState;
use surety_common::store::{self, Commit, Outcome};
use surety_common::telemetry::trace;

/// The most uncommitted changes of one run before the next one waits.
const MAX_PENDING: usize = 64;

impl LeasedRun {
    /// Applies one change without waiting for its commit.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn change<T>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        let mut state = self.state.lock().await;
        state.poll()?;
        if state.pending.len() >= MAX_PENDING {
            state.settle().await?;
        }
        state.check()?;
        let (answer, commit) = self.derive(&state, change).await?;
        state.execution = Arc::clone(&commit.write.execution);
        state.pending.push_back(self.engine.committer.hand_in(commit).await?);
        Ok(answer)
    }

    /// Applies one change and waits until it, and all before it, is committed: for changes that
    /// must be durable before an effect.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn change_now<T>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        let answer = self.change(change).await?;
        self.settle().await?;
        Ok(answer)
    }

    /// Applies a change that is valid for any row under this lease: after a concurrent change it is
    /// derived again from the current row, and committed.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn insist<T>(
        &self,
        change: impl Fn(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        let mut row_is_known = !state.overtaken;
        loop {
            if !row_is_known {
                state.go_back(self.read_again().await?);
            }
            let (answer, commit) = self.derive(&state, &change).await?;
            let next = Arc::clone(&commit.write.execution);
            row_is_known = self.engine.committer.commit(commit).await? == Outcome::Applied;
            if row_is_known {
                state.execution = next;
                return Ok(answer);
            }
        }
    }

    /// Waits until every change so far is committed.
    ///
    /// # Errors
    /// [`Ended::Overtaken`] when one was lost.
    pub async fn settle(&self) -> Result<(), Ended> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        state.check()
    }

    /// Reads the row after another process changed it, for example the gate. Returns the running
    /// steps in it.
    ///
    /// # Errors
    /// [`Ended::NotHeld`] when the lease was taken over.
    pub async fn catch_up(&self) -> Result<Vec<usize>, Ended> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        let row = self.read_again().await?;
        // A replica that replaced its primary may be older than the last read.
        self.lease.seen_version.store(row.version, Ordering::Relaxed);
        state.go_back(row);
        state.overtaken = false;
        Ok(state.execution.steps_in(StepState::Running).collect())
    }

    /// Reads the row while steps are `under_way` here, and starts ready ones beside them. Returns
    /// the running steps that have no work here. Returns none, without a change, when the run must
    /// not continue this way, or when the row differs about a step under way: its next change is
    /// then lost and reports it.
    ///
    /// # Errors
    /// [`Ended`]
    pub(super) async fn take_in(&self, under_way: &UnderWay) -> Result<Option<Vec<usize>>, Ended> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        loop {
            let row = self.read_again().await?;
            let steps = under_way.steps();
            if !self.goes_on(&row) || !stand_alike(&steps, &row, &state.execution) {
                return Ok(None);
            }
            state.go_back(row);
            state.overtaken = false;
            let most = self.spec.limits.max_parallel_steps;
            let leasing = |draft: &mut Draft| draft.lease_steps(&self.graph, most);
            let (_, commit) = self.derive(&state, leasing).await?;
            if !commit.write.entries.is_empty() {
                let next = Arc::clone(&commit.write.execution);
                if self.engine.committer.commit(commit).await? == Outcome::Lost {
                    continue;
                }
                state.execution = next;
            }
            let running = state.execution.steps_in(StepState::Running);
            return Ok(Some(running.filter(|index| !steps.contains(index)).collect()));
        }
    }

    fn goes_on(&self, row: &Execution) -> bool {
        row.state == RunState::Executing
            && !row.is_pausing()
            && row.plan_revision == self.plan_revision
    }

    async fn derive<T>(
        &self,
        state: &PendingState,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<(T, Commit), Ended> {
        let execution = Arc::clone(&state.execution);
        let mut draft = Draft::new(execution, self.engine.actor(), self.engine.now());
        let answer = change(&mut draft)?;
        if let Some(commit) = repository::before_release(self, &draft).await {
            draft.save_work(commit);
        }
        let span = self.present_span();
        let span_id = trace::span_id(&span);
        let pipeline = state.pipeline.clone();
        Ok((answer, Commit { pipeline, ..Commit::new(draft.into_write(), span, span_id) }))
    }

    async fn read_again(&self) -> Result<Execution, Ended> {
        let read = || store::find_run(&self.engine.pool, self.spec.id);
        let row = store::patiently(read).await?.map(|record| record.execution);
        if row.as_ref().is_none_or(|row| row.state.is_terminal()) {
            self.lease.end();
        }
        match row {
            Some(row) if self.lease.holds(&row) => Ok(row),
            Some(_) | None => {
                self.lease.lose();
                Err(Ended::NotHeld)
            }
        }
    }
}

/// Whether the row has these steps as they were left here.
fn stand_alike(steps: &BTreeSet<usize>, row: &Execution, here: &Execution) -> bool {
    steps.iter().all(|index| row.steps.get(*index) == here.steps.get(*index))
}
