//! The return to planning, refused plans, and the next revision of a plan.
//!
//! ```text
//!   EXECUTING --replan_requested--> RECOVERING --replan_started--> PLANNING --blocked--> BLOCKED
//!   BLOCKED --plan_refused--> BLOCKED, with the correction, until no correction is left
//!   BLOCKED --unblocked--> PLANNING --plan_accepted--> EXECUTING      steps carried over by id
//! ```

use super::draft::Draft;
use super::{Execution, Graph, StepProgress, Wait};
use crate::domain::journal::Cause;
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{Phase, RunEvent, RunState};
use crate::domain::machine::step::StepEvent;
use crate::domain::plan::{Plan, PlanStep};
use crate::domain::planning::{Planning, RefusedPlan};
use crate::domain::step::StepState;
use uuid::Uuid;

impl Draft {
    /// Refuses the plan of a participant: its lease ends, and the wait goes on under another id with the
    /// correction.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is BLOCKED in PLANNING.
    pub fn refuse_plan(
        &mut self,
        next: Uuid,
        refused: RefusedPlan,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        self.run_event(RunEvent::PlanRefused, cause)?;
        let wait = self.execution.own_wait_mut().ok_or(Refusal::Meaningless)?;
        wait.id = next;
        let planning = wait.planning.get_or_insert_default();
        planning.refusals = planning.refusals.saturating_add(1);
        planning.refused = Some(refused);
        Ok(())
    }

    /// Returns the run to planning, where it is BLOCKED until another plan is submitted; running
    /// steps are released. Counts as one replan, whose limit the caller checks.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is in EXECUTING or RECOVERING, or blocked there on its steps.
    pub fn replan(
        &mut self,
        graph: &Graph,
        wait: Wait,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        let cause = cause.into();
        let on_steps = self.execution.wait.as_ref().is_some_and(|shown| shown.step_index.is_some());
        if matches!(self.execution.state, RunState::Blocked(Phase::Executing)) && on_steps {
            self.run_event(RunEvent::Unblocked, cause.clone())?;
        }
        if self.execution.state == RunState::Executing {
            self.run_event(RunEvent::ReplanRequested, cause.clone())?;
        }
        self.run_event(RunEvent::ReplanStarted, cause)?;
        self.execution.counters.replans += 1;
        self.block(graph, wait)?;
        self.end_decisions(graph)
    }

    /// Ends the waits for decisions, and forgets the replies that no turn has taken: the next plan begins these steps anew, so
    /// no such decision could be carried out, and a participant must not wait for that. A call under way stays, without the
    /// lease of the participant that asked for it.
    fn end_decisions(&mut self, graph: &Graph) -> Result<(), Refusal> {
        for index in 0..self.execution.steps.len() {
            self.end_lease_of_call(index);
            let Some(step) = self.execution.step(index).filter(|step| step.open_call.is_none())
            else {
                continue;
            };
            let decides = step.wait.as_deref().is_some_and(|wait| wait.kind().is_decision());
            if decides {
                self.step_event(graph, index, StepEvent::WaitEnded, "another plan begins it anew")?;
            }
            if decides || self.state_of(index) == StepState::Ready {
                self.forget_waits(index);
            }
        }
        self.show_wait();
        Ok(())
    }

    /// Ends the lease under which the open call of a step was asked for. The call is counted here, as its end finds no
    /// lease.
    fn end_lease_of_call(&mut self, index: usize) {
        let Some(step) = self.execution.step_mut(index) else { return };
        let Some(call) = step.open_call.as_deref() else { return };
        if step.answered_wait.take().is_some() {
            *step.called.entry(call.tool.clone()).or_default() += 1;
        }
    }

    /// Starts the next revision of the plan. Done steps stay done, and others start again as the
    /// new plan allows. A step that the new plan does not have is skipped, or cancelled if it was
    /// started. A step with an open call keeps it, because its outcome decides whether it may be
    /// repeated.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is in PLANNING.
    pub fn revise_plan(&mut self, old: &Graph, new: &Graph, revision: u32) -> Result<(), Refusal> {
        self.run_event(RunEvent::PlanAccepted, format!("plan revision {revision} is valid"))?;
        self.cancel_left_out(old, new, revision)?;
        let before = std::mem::take(&mut self.execution.steps);
        let carried = |index| old.place(new.id(index)).and_then(|place| before.get(place)).cloned();
        self.execution.steps =
            (0..new.len()).map(|index| carried(index).unwrap_or_default()).collect();
        self.execution.plan_revision = revision;
        for index in 0..new.len() {
            self.begin_anew(new, index)?;
        }
        self.show_wait();
        self.ready_steps(new)?;
        // A plan without a startable step must not stay in EXECUTING for ever.
        self.settle(new)
    }

    /// Keeps which steps drivers planned: of the plan of a driver those that are new, and of a person's those that it leaves as
    /// they were.
    pub fn attribute_steps(&mut self, (old, new): (&Plan, &Plan), of_driver: bool) {
        let before = std::mem::take(&mut self.execution.counters.planned_steps);
        let is_of_driver = |step: &&PlanStep| {
            let was = old.steps.iter().find(|was| was.id == step.id);
            match (was, of_driver) {
                (None, of_driver) => of_driver,
                (Some(_), true) => before.contains(&step.id),
                (Some(was), false) => was == *step && before.contains(&step.id),
            }
        };
        let planned = new.steps.iter().filter(is_of_driver).map(|step| step.id.clone());
        self.execution.counters.planned_steps = planned.collect();
    }

    fn cancel_left_out(&mut self, old: &Graph, new: &Graph, revision: u32) -> Result<(), Refusal> {
        for index in 0..old.len() {
            let Some(step) = self.execution.steps.get(index) else { continue };
            if step.state.is_settled() || new.place(old.id(index)).is_some() {
                continue;
            }
            let begun = step.started_at.is_some();
            self.charge_untaken(index);
            let event = if begun { StepEvent::Cancelled } else { StepEvent::Skipped };
            let cause = format!("plan revision {revision} does without it");
            self.step_event(old, index, event, cause)?;
        }
        Ok(())
    }

    /// Resets a step of the previous revision for this one.
    fn begin_anew(&mut self, graph: &Graph, index: usize) -> Result<(), Refusal> {
        let is_done = |place: &usize| {
            self.execution.steps.get(*place).is_some_and(|step| step.state == StepState::Done)
        };
        let may_start = graph.dependencies(index).iter().all(is_done);
        let Some(step) = self.execution.steps.get(index) else { return Ok(()) };
        let has_open_call = step.open_call.is_some();
        let stays = match step.state {
            StepState::Done | StepState::Blocked | StepState::Skipped | StepState::Cancelled => {
                return Ok(());
            }
            StepState::Pending | StepState::Running => true,
            StepState::Ready => may_start,
            StepState::Waiting => may_start && has_open_call,
            StepState::Failed => false,
        };
        let failed = step.state == StepState::Failed;
        let hint = self.hint_of_next_attempt(index);
        if !stays {
            self.step_event(graph, index, StepEvent::Replanned, "the next revision begins")?;
        }
        if failed || !has_open_call {
            self.begin_attempt(index, hint);
        }
        let Some(step) = self.execution.step_mut(index) else { return Ok(()) };
        keep_in_place(step, index);
        Ok(())
    }
}

impl Execution {
    /// What the wait for a plan has come to; the default for a first plan.
    #[must_use]
    pub fn planning(&self) -> Planning {
        let planning = self.own_wait().and_then(|wait| wait.planning.as_deref());
        planning.cloned().unwrap_or_default()
    }
}

/// Proofs of the previous revision do not count for this one.
fn keep_in_place(step: &mut StepProgress, index: usize) {
    step.proofs = 0;
    match (&mut step.wait, step.state == StepState::Waiting) {
        (Some(wait), true) => wait.step_index = Some(index),
        (wait, _) => *wait = None,
    }
}
