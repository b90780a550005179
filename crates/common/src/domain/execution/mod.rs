//! The execution of a run: its whole mutable state, as one aggregate with one version.
//!
//! ```text
//!   Execution --Draft::new--> Draft --events, entries--> Draft --into_write--> Write
//!   (as read)                 (one change)                          (fence, new row, journal)
//! ```
//!
//! A [`draft::Draft`] is the only way to change an [`Execution`]. Each transition is decided by
//! [`machine`](super::machine) and journalled, so that no state is set without a record.

mod answers;
pub mod budget;
mod confirmation;
mod counters;
pub mod deaths;
mod doubt;
pub mod draft;
mod fork;
mod grants;
mod graph;
mod model;
mod model_budget;
mod open_worker_call;
mod pause;
mod plan_approval;
mod plan_budget;
mod replan;
mod repository;
mod rules;
mod sleep;
mod step_deadline;
mod step_progress;
pub mod turns;
mod wait;
pub mod wait_rows;
mod worker_call;

pub use answers::GivenAnswer;
pub use confirmation::{Approval, CALL_LEFT};
pub use counters::{Counters, Deaths};
pub use fork::inherited_steps;
pub use grants::Revocation;
pub use graph::Graph;
pub use open_worker_call::{CallSpan, WorkerCall, WorkerCallEnd, WorkerResult};
pub use plan_approval::PlanAnswer;
pub use plan_budget::plan_unblocks;
pub use step_progress::{CallAnswer, OpenCall, Sleep, StepProgress, SuppliedReply};
pub use wait::{Paused, Wait, question_digest};
pub use worker_call::NextAttempt;

#[cfg(test)]
mod tests;

use crate::domain::grant::CallGrant;
use crate::domain::machine::run::RunState;
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, Terminal};
use crate::domain::todo::RunTodos;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use uuid::Uuid;

/// The mutable state of a run: one row, one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The run, and the row's key.
    pub run_id: Uuid,
    /// The run's namespace.
    pub namespace: String,
    /// The run's state.
    pub state: RunState,
    /// Raised by every write; a writer names the one it read.
    pub version: i64,
    /// The number of the last journal entry; entries are numbered from 1 without gaps.
    pub sequence: i64,
    /// Runs with a higher number are claimed first.
    pub priority: i16,
    /// Since when an executor could claim the run; none when there is nothing to do.
    pub ready_at: Option<DateTime<Utc>>,
    /// The executor that holds the run's running steps.
    pub lease_owner: Option<Uuid>,
    /// The fencing token, raised by every lease: a late write of an earlier holder names an older
    /// one and is lost.
    pub lease_epoch: i64,
    /// The plan revision being executed, from 1; 0 before there is a plan.
    pub plan_revision: u32,
    /// One for each step, in the plan's order. Every change of a run copies the list, and shares the
    /// steps that it leaves as they are.
    pub steps: Vec<Arc<StepProgress>>,
    /// The used part of the limits, and the last digests.
    pub counters: Counters,
    /// The todos that drivers made, and the statuses of the plan's own.
    pub todos: RunTodos,
    /// What approvers granted for this run, in the order of the answers; ended grants stay.
    pub grants: Vec<CallGrant>,
    /// The wait that is shown for the run: what blocks it, else the wait of its first waiting step.
    /// All waits are in [`Execution::waits`].
    pub wait: Option<Box<Wait>>,
    /// Set from the request of a pause until its end.
    pub paused: Option<Box<Paused>>,
    /// How the run ended; set only when it has ended.
    pub terminal: Option<Box<Terminal>>,
    /// The run's deadline; none once it has ended.
    pub deadline_at: Option<DateTime<Utc>>,
    /// When the row was last written.
    pub updated_at: DateTime<Utc>,
    /// The host whose executors alone work on it, set by its first claim; none for a run without a local folder.
    pub host_label: Option<String>,
}

impl Execution {
    /// A step.
    pub fn step(&self, index: usize) -> Option<&StepProgress> {
        self.steps.get(index).map(Arc::as_ref)
    }

    /// A step, to be changed.
    pub fn step_mut(&mut self, index: usize) -> Option<&mut StepProgress> {
        self.steps.get_mut(index).map(Arc::make_mut)
    }

    /// A new run.
    pub fn new(
        run_id: Uuid,
        namespace: String,
        deadline_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            run_id,
            namespace,
            state: RunState::Intake,
            version: 0,
            sequence: 0,
            priority: 0,
            ready_at: None,
            lease_owner: None,
            lease_epoch: 0,
            plan_revision: 0,
            steps: Vec::new(),
            counters: Counters::default(),
            todos: RunTodos::default(),
            grants: Vec::new(),
            wait: None,
            paused: None,
            terminal: None,
            deadline_at: Some(deadline_at),
            updated_at: now,
            host_label: None,
        }
    }

    /// The indexes of the steps in a state.
    pub fn steps_in(&self, state: StepState) -> impl Iterator<Item = usize> + '_ {
        self.steps
            .iter()
            .enumerate()
            .filter(move |(_, step)| step.state == state)
            .map(|(index, _)| index)
    }

    /// The states of the steps, in the plan's order.
    pub fn step_states(&self) -> impl Iterator<Item = StepState> + '_ {
        self.steps.iter().map(|step| step.state)
    }

    /// All waits: the pause, the wait of the whole run, then each step's in the plan's order.
    pub fn waits(&self) -> impl Iterator<Item = &Wait> {
        let pause = self.paused.iter().map(|paused| &paused.wait);
        let steps = self.steps.iter().filter_map(|step| step.wait.as_deref());
        pause.chain(self.own_wait()).chain(steps)
    }

    /// The wait of the whole run, excluding a pause.
    pub fn own_wait(&self) -> Option<&Wait> {
        match &self.paused {
            Some(paused) => paused.behind.as_deref(),
            None => self.wait.as_deref().filter(|wait| wait.step_index.is_none()),
        }
    }

    /// The same, to change it.
    fn own_wait_mut(&mut self) -> Option<&mut Wait> {
        match &mut self.paused {
            Some(paused) => paused.behind.as_deref_mut(),
            None => self.wait.as_deref_mut().filter(|wait| wait.step_index.is_none()),
        }
    }

    /// The steps that wait for a party that does not block the run: a driver, a worker, a timer.
    pub fn waits_of_participants(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = |step: &StepProgress| {
            let wait = step.wait.as_deref();
            step.state == StepState::Waiting
                && wait.is_some_and(|wait| wait.waiting_on.keeps_executing())
        };
        let waiting = self.steps.iter().enumerate().filter(move |(_, step)| waits(step));
        waiting.map(|(index, _)| index)
    }

    /// Whether a step other than this one is not done yet.
    pub fn is_other_step_open(&self, index: usize) -> bool {
        let mut states = self.step_states().enumerate();
        states.any(|(place, state)| place != index && state != StepState::Done)
    }

    /// Whether every step is over: done, or not needed.
    pub fn is_work_over(&self) -> bool {
        let over = |state| matches!(state, StepState::Done | StepState::Skipped);
        self.step_states().all(over)
    }

    /// Whether a pause is requested while work of the run is still in progress.
    pub fn is_pausing(&self) -> bool {
        self.paused.is_some() && self.state.phase().is_some()
    }

    /// Whether an executor has work to do now.
    pub fn needs_executor(&self) -> bool {
        match self.state {
            RunState::Executing => {
                self.steps_in(StepState::Ready).next().is_some()
                    || self.steps_in(StepState::Running).next().is_some()
            }
            RunState::Verifying | RunState::Recovering => true,
            RunState::Intake
            | RunState::Planning
            | RunState::Blocked(_)
            | RunState::Done
            | RunState::Failed
            | RunState::Cancelled => false,
        }
    }

    /// The reason of the run's end.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.terminal.as_ref().map(|terminal| terminal.stop_reason)
    }
}
