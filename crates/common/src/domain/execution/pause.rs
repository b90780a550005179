//! Pausing and resuming a run.
//!
//! ```text
//!   pause --> no work in progress? --yes--> BLOCKED on the operator
//!                  |no                         ^
//!                  +-- no new work starts, running turns end --+
//!
//!   resume --> waits for something else? --no--> the phase it left
//! ```
//!
//! A pause is independent of other waits: either can end first, and work continues after both.

use super::draft::Draft;
use super::{Graph, Paused, StepProgress, Wait};
use crate::domain::journal::Cause;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{Phase, RunEvent, RunState};
use crate::domain::step::StepState;
use chrono::TimeDelta;
use std::sync::Arc;

impl Draft {
    /// Pauses the run. While it is leased it only starts no new work, and is BLOCKED when running
    /// work has ended.
    ///
    /// # Errors
    /// [`Refusal::Terminal`] when it has ended; [`Refusal::Meaningless`] when it is paused already.
    pub fn pause(
        &mut self,
        graph: &Graph,
        wait: Wait,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        if self.execution.paused.is_some() {
            return Err(Refusal::Meaningless);
        }
        self.run_event(RunEvent::PauseRequested, cause)?;
        let behind = self.execution.own_wait().cloned().map(Box::new);
        let blocked = matches!(self.execution.state, RunState::Blocked(_));
        let rests_since = blocked.then_some(self.now);
        self.execution.paused = Some(Box::new(Paused { wait, behind, rests_since }));
        self.show_wait();
        match self.execution.lease_owner {
            None => self.rest_now(graph),
            Some(_) => Ok(()),
        }
    }

    /// Ends a pause. A run that waits for something else stays BLOCKED on that. A verification begins anew.
    ///
    /// # Errors
    /// [`Refusal`] when it is not paused.
    pub fn resume(&mut self, graph: &Graph, cause: impl Into<Cause>) -> Result<(), Refusal> {
        if self.execution.paused.is_none() {
            return Err(Refusal::Meaningless);
        }
        let cause = cause.into();
        self.run_event(RunEvent::ResumeRequested, cause.clone())?;
        let Some(paused) = self.execution.paused.take() else { return Err(Refusal::Meaningless) };
        self.give_time_back(&paused);
        self.forget_deaths();
        self.execution.wait = paused.behind;
        self.show_wait();
        // The workspace can have changed during the pause.
        if matches!(self.execution.state, RunState::Verifying | RunState::Blocked(Phase::Verifying))
        {
            self.begin_round();
        }
        if matches!(self.execution.state, RunState::Blocked(_)) && !self.waits_for_more() {
            return self.unblock(graph, cause);
        }
        Ok(())
    }

    /// Whether a blocked run has a wait other than a pause.
    fn waits_for_more(&self) -> bool {
        let any = |state| self.execution.steps_in(state).next().is_some();
        self.execution.own_wait().is_some()
            || self.execution.state == RunState::Blocked(Phase::Executing)
                && any(StepState::Waiting)
                && self.execution.waits_of_participants().next().is_none()
                && !any(StepState::Ready)
                && !any(StepState::Failed)
    }

    /// The time of a pause does not count for a step's deadline. Of a step that still waits for a person, the end
    /// of the wait gives all of it back.
    fn give_time_back(&mut self, paused: &Paused) {
        let Some(since) = paused.rests_since else { return };
        let rested = self.now - since;
        let is_given = |step: &StepProgress| !step.state.is_settled() && !waits_for_a_person(step);
        let steps = self.execution.steps.iter_mut().filter(|step| is_given(step));
        for step in steps.map(Arc::make_mut) {
            step.started_at = step.started_at.map(|at| at + rested);
        }
    }

    /// The time for which a step waited for a person, or for a budget, does not count for its deadline.
    pub(super) fn give_waited_time_back(&mut self, index: usize) {
        let rests_since = self.execution.paused.as_ref().and_then(|paused| paused.rests_since);
        // The end of the pause gives the time since then back.
        let until = rests_since.unwrap_or(self.now);
        let Some(step) = self.execution.step_mut(index) else { return };
        let persons = step.wait.as_deref().filter(|wait| !wait.waiting_on.keeps_executing());
        let Some(since) = persons.map(|wait| wait.since) else { return };
        let waited = (until - since).max(TimeDelta::zero());
        step.started_at = step.started_at.map(|at| at + waited);
    }

    /// Blocks a run that is to be paused, when it has executor work and none of its steps runs.
    pub(super) fn rest(&mut self, graph: &Graph) -> Result<(), Refusal> {
        match self.execution.state {
            RunState::Executing | RunState::Verifying | RunState::Recovering => {
                let running = self.execution.steps_in(StepState::Running).next().is_some();
                if running { Ok(()) } else { self.rest_now(graph) }
            }
            // A plan that was just submitted is accepted first.
            RunState::Intake
            | RunState::Planning
            | RunState::Blocked(_)
            | RunState::Done
            | RunState::Failed
            | RunState::Cancelled => Ok(()),
        }
    }

    fn rest_now(&mut self, graph: &Graph) -> Result<(), Refusal> {
        match self.execution.paused.clone() {
            Some(paused) if self.execution.state.phase().is_some() => {
                self.stand_still(graph, &paused.wait)
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Whether a step waits for a party whose time is not the step's.
fn waits_for_a_person(step: &StepProgress) -> bool {
    let wait = step.wait.as_deref().filter(|_| step.state == StepState::Waiting);
    wait.is_some_and(|wait| !wait.waiting_on.keeps_executing())
}
