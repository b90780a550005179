//! Changing a held run.
//!
//! ```text
//!   change ----> the head moves at once ----> the committer writes what waits ----> settled
//!                     |                             (one row for many changes)        |
//!                     +-- the next turn goes on      overtaken: back to the row <-----+
//! ```
//!
//! A turn that did nothing to the world need not be on the disk before the next one begins: should
//! this process die, both are gone and the turn is taken again. So changes are handed to the
//! committer and the work goes on over the row as it will be. What must be on the disk first waits
//! for it: the intent of an effect, the question to the gate, the end of the work here.

use super::leased_run::{Ended, LeasedRun};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::step::StepState;
use surety_common::store::{self, Commit, Outcome, Pending, StoreError, WritePipeline};
use surety_common::telemetry::trace;

/// Changes of one run that may be on their way before the next one waits for them.
const MAX_PENDING: usize = 64;

/// The row as the changes so far leave it, and those of them that are not known to be stored.
pub(super) struct PendingState {
    execution: Arc<Execution>,
    pending: VecDeque<Pending>,
    /// What was thought out over the row as it was last read.
    pipeline: WritePipeline,
    /// A change was lost: nothing thought out over it counts.
    overtaken: bool,
}

impl PendingState {
    /// The row as it was read.
    pub(super) fn new(execution: Execution) -> Self {
        let (pending, pipeline) = (VecDeque::new(), WritePipeline::default());
        Self { execution: Arc::new(execution), pending, pipeline, overtaken: false }
    }

    /// Goes back to the row as it was read again.
    fn go_back(&mut self, execution: Execution) {
        self.execution = Arc::new(execution);
        self.pipeline = WritePipeline::default();
    }

    /// Hears what is known by now.
    fn listen(&mut self) -> Result<(), StoreError> {
        while let Some(first) = self.pending.front_mut() {
            let Some(outcome) = first.try_outcome()? else { break };
            self.overtaken |= outcome == Outcome::Lost;
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Waits until every change is stored or lost.
    async fn settle(&mut self) -> Result<(), StoreError> {
        while let Some(first) = self.pending.pop_front() {
            self.overtaken |= first.outcome().await? == Outcome::Lost;
        }
        Ok(())
    }

    /// Whether the work may go on over it.
    fn check(&self) -> Result<(), Ended> {
        if self.overtaken { Err(Ended::Overtaken) } else { Ok(()) }
    }
}

impl LeasedRun {
    /// The row as the changes so far leave it.
    pub async fn execution(&self) -> Arc<Execution> {
        Arc::clone(&self.state.lock().await.execution)
    }

    /// Makes one change and goes on; it will be stored with what comes meanwhile.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn change<T>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        let mut state = self.state.lock().await;
        state.listen()?;
        if state.pending.len() >= MAX_PENDING {
            state.settle().await?;
        }
        state.check()?;
        let (answer, commit) = self.think(&state, change)?;
        state.execution = Arc::clone(&commit.write.execution);
        state.pending.push_back(self.engine.committer.hand_in(commit).await?);
        Ok(answer)
    }

    /// Makes one change and waits until it, and all before it, is stored: for what must be on the
    /// disk before the world is touched.
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

    /// Makes a change that holds whatever somebody else did to the row, as long as the lease
    /// holds: it is thought out again over the row as it is, and it is stored.
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
            let (answer, commit) = self.think(&state, &change)?;
            let next = Arc::clone(&commit.write.execution);
            row_is_known = self.engine.committer.commit(commit).await? == Outcome::Applied;
            if row_is_known {
                state.execution = next;
                return Ok(answer);
            }
        }
    }

    /// Waits until every change so far is stored.
    ///
    /// # Errors
    /// [`Ended::Overtaken`] when one was lost.
    pub async fn settle(&self) -> Result<(), Ended> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        state.check()
    }

    /// Goes back to the row after it was moved by somebody else, for example by the gate. Answers
    /// the steps that run, by what it says.
    ///
    /// # Errors
    /// [`Ended::NotHeld`] when the lease is gone.
    pub async fn catch_up(&self) -> Result<Vec<usize>, Ended> {
        let mut state = self.state.lock().await;
        state.settle().await?;
        let row = self.read_again().await?;
        // A replica that took its primary's place may know less than was seen.
        self.seen_version.store(row.version, Ordering::Relaxed);
        state.go_back(row);
        state.overtaken = false;
        Ok(state.execution.steps_in(StepState::Running).collect())
    }

    /// Goes back to the row although steps are `under_way` here, and starts what is ready beside them.
    /// Answers which steps run that nobody works on; none, and nothing is changed, when the run is not
    /// to be worked on like that any more, or when what is under way stands otherwise in the row than
    /// here: its next change is lost then, and says so.
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
            let (_, commit) = self.think(&state, |draft| draft.lease_steps(&self.graph, most))?;
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

    fn think<T>(
        &self,
        state: &PendingState,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<(T, Commit), Refusal> {
        let execution = Execution::clone(&state.execution);
        let mut draft = Draft::new(execution, self.engine.actor(), self.engine.now());
        let answer = change(&mut draft)?;
        let span = self.present_span();
        let span_id = trace::span_id(&span);
        let pipeline = state.pipeline.clone();
        Ok((answer, Commit { pipeline, ..Commit::new(draft.into_write(), span, span_id) }))
    }

    async fn read_again(&self) -> Result<Execution, Ended> {
        let read = || store::find_run(&self.engine.pool, self.spec.id);
        let row = store::patiently(read).await?.map(|record| record.execution);
        if row.as_ref().is_none_or(|row| row.state.is_terminal()) {
            self.end();
        }
        match row {
            Some(row) if self.holds(&row) => Ok(row),
            Some(_) | None => {
                self.lose();
                Err(Ended::NotHeld)
            }
        }
    }
}

/// Whether these steps stand in the row as they were left here.
fn stand_alike(steps: &BTreeSet<usize>, row: &Execution, here: &Execution) -> bool {
    steps.iter().all(|index| row.steps.get(*index) == here.steps.get(*index))
}

/// The steps that are worked on here now.
#[derive(Default)]
pub(super) struct UnderWay(std::sync::Mutex<BTreeSet<usize>>);

impl UnderWay {
    fn set(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self) -> BTreeSet<usize> {
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
