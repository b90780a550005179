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

use super::held::{Ended, HeldRun};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use surety_common::domain::execution::Execution;
use surety_common::domain::execution::draft::Draft;
use surety_common::domain::machine::Refusal;
use surety_common::domain::machine::run::RunState;
use surety_common::domain::step::StepState;
use surety_common::store::{self, Commit, Line, Outcome, Pending, StoreError};
use surety_common::telemetry::trace;

/// Changes of one run that may be on their way before the next one waits for them.
const MAX_PENDING: usize = 64;

/// The row as the changes so far leave it, and those of them that are not known to be stored.
pub(super) struct Head {
    execution: Arc<Execution>,
    pending: VecDeque<Pending>,
    /// What was thought out over the row as it was last read.
    line: Line,
    /// A change was lost: nothing thought out over it counts.
    overtaken: bool,
}

impl Head {
    /// The row as it was read.
    pub(super) fn new(execution: Execution) -> Self {
        let (pending, line) = (VecDeque::new(), Line::default());
        Self { execution: Arc::new(execution), pending, line, overtaken: false }
    }

    /// Goes back to the row as it was read again.
    fn go_back(&mut self, execution: Execution) {
        self.execution = Arc::new(execution);
        self.line = Line::default();
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

impl HeldRun {
    /// The row as the changes so far leave it.
    pub async fn execution(&self) -> Arc<Execution> {
        Arc::clone(&self.head.lock().await.execution)
    }

    /// Makes one change and goes on; it will be stored with what comes meanwhile.
    ///
    /// # Errors
    /// [`Ended`]; then nothing was changed.
    pub async fn change<T>(
        &self,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Ended> {
        let mut head = self.head.lock().await;
        head.listen()?;
        if head.pending.len() >= MAX_PENDING {
            head.settle().await?;
        }
        head.check()?;
        let (answer, commit) = self.think(&head, change)?;
        head.execution = Arc::clone(&commit.write.execution);
        head.pending.push_back(self.engine.committer.hand_in(commit).await?);
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
        let mut head = self.head.lock().await;
        head.settle().await?;
        let mut row_is_known = !head.overtaken;
        loop {
            if !row_is_known {
                head.go_back(self.read_again().await?);
            }
            let (answer, commit) = self.think(&head, &change)?;
            let next = Arc::clone(&commit.write.execution);
            row_is_known = self.engine.committer.commit(commit).await? == Outcome::Applied;
            if row_is_known {
                head.execution = next;
                return Ok(answer);
            }
        }
    }

    /// Waits until every change so far is stored.
    ///
    /// # Errors
    /// [`Ended::Overtaken`] when one was lost.
    pub async fn settle(&self) -> Result<(), Ended> {
        let mut head = self.head.lock().await;
        head.settle().await?;
        head.check()
    }

    /// Goes back to the row after it was moved by somebody else, for example by the gate. Answers
    /// the steps that run, by what it says.
    ///
    /// # Errors
    /// [`Ended::NotHeld`] when the lease is gone.
    pub async fn catch_up(&self) -> Result<Vec<usize>, Ended> {
        let mut head = self.head.lock().await;
        head.settle().await?;
        let row = self.read_again().await?;
        // A replica that took its primary's place may know less than was seen.
        self.seen_version.store(row.version, Ordering::Relaxed);
        head.go_back(row);
        head.overtaken = false;
        Ok(head.execution.steps_in(StepState::Running).collect())
    }

    /// Goes back to the row although steps are `under_way` here, and starts what is ready beside them.
    /// Answers which steps run that nobody works on; none, and nothing is changed, when the run is not
    /// to be worked on like that any more, or when what is under way stands otherwise in the row than
    /// here: its next change is lost then, and says so.
    ///
    /// # Errors
    /// [`Ended`]
    pub(super) async fn take_in(&self, under_way: &UnderWay) -> Result<Option<Vec<usize>>, Ended> {
        let mut head = self.head.lock().await;
        head.settle().await?;
        loop {
            let row = self.read_again().await?;
            let steps = under_way.steps();
            if !self.goes_on(&row) || !stand_alike(&steps, &row, &head.execution) {
                return Ok(None);
            }
            head.go_back(row);
            head.overtaken = false;
            let most = self.spec.limits.max_parallel_steps;
            let (_, commit) = self.think(&head, |draft| draft.lease_steps(&self.graph, most))?;
            if !commit.write.entries.is_empty() {
                let next = Arc::clone(&commit.write.execution);
                if self.engine.committer.commit(commit).await? == Outcome::Lost {
                    continue;
                }
                head.execution = next;
            }
            let running = head.execution.steps_in(StepState::Running);
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
        head: &Head,
        change: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<(T, Commit), Refusal> {
        let execution = Execution::clone(&head.execution);
        let mut draft = Draft::new(execution, self.engine.actor(), self.engine.now());
        let answer = change(&mut draft)?;
        let span = self.present_span();
        let span_id = trace::span_id(&span);
        let line = head.line.clone();
        Ok((answer, Commit { line, ..Commit::new(draft.into_write(), span, span_id) }))
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
