//! Calls that tool workers make.
//!
//! ```text
//!   running --call_worker--> waiting on a worker --answer_worker_call--> ready --> the call has its outcome
//!                               ^       |  retryable, attempts left
//!                               |       |  lost, and the tool may be called again
//!                               +-------+  (another wait, the same call id)
//! ```
//!
//! Each attempt is a wait of its own, so that an answer to an earlier one finds none.

use super::draft::Draft;
use super::wait_rows::AnsweredWait;
use super::{Graph, OpenCall, StepProgress, Wait, WorkerCall, WorkerCallEnd, WorkerResult};
use crate::domain::journal::Actor;
use crate::domain::machine::Refusal;
use crate::domain::machine::step::StepEvent;
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;
use chrono::TimeDelta;
use uuid::Uuid;

/// Why a call ends of which nothing is known.
const LOST: &str = "the worker was lost";

/// The next attempt of a call that may be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextAttempt {
    /// The id of its wait.
    pub wait_id: Uuid,
    /// How long it is not offered; none for the policy's pause.
    pub after: Option<TimeDelta>,
}

/// A worker as the author of what it supplies.
fn author(worker: &str) -> Actor {
    Actor(format!("worker/{worker}").into())
}

impl StepProgress {
    fn waits_for_worker(&self) -> Option<&Wait> {
        let wait = self.wait.as_deref().filter(|wait| wait.waiting_on == WaitingOn::Worker);
        wait.filter(|_| self.state == StepState::Waiting)
    }
}

impl Draft {
    /// Makes a step wait for a worker, as the open call `call`. A call that is open already, as for its next
    /// attempt, is journalled once. A driver that leased the step keeps its lease.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn call_worker(
        &mut self,
        graph: &Graph,
        index: usize,
        call: OpenCall,
        (task, wait): (WorkerCall, Wait),
    ) -> Result<(), Refusal> {
        let now = self.now;
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        let is_new = step.open_call.is_none();
        let answered_wait = step.answered_wait;
        let worked = now - step.started_at.unwrap_or(now);
        let worked_us = worked.num_microseconds().unwrap_or_default();
        step.worker_call = Some(Box::new(WorkerCall { worked_us, ..task }));
        if is_new {
            self.open_call(graph, index, call)?;
        }
        self.pause_step(graph, index, wait)?;
        // The outcome of the call is part of the turn, whose driver keeps its lease.
        self.open_turns.push(graph.id(index).to_owned());
        if let Some(step) = self.execution.step_mut(index) {
            step.answered_wait = answered_wait;
        }
        Ok(())
    }

    /// Stores a worker's answer under its lease; the step becomes ready. With `retry` the call is offered again,
    /// while attempts are left.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no step waits under this lease.
    pub fn answer_worker_call(
        &mut self,
        graph: &Graph,
        lease: AnsweredWait,
        result: WorkerResult,
        retry: Option<NextAttempt>,
    ) -> Result<(), Refusal> {
        let index = self.worker_step(lease.id).ok_or(Refusal::Meaningless)?;
        self.answered = Some(lease);
        let cause = "the worker asked for another attempt";
        self.acting(author(&result.by), |draft| match retry {
            Some(next) if draft.offer_again(graph, index, next, cause)? => Ok(()),
            Some(_) | None => {
                let end = WorkerCallEnd::Answered(Box::new(result));
                draft.end_worker_call(graph, index, end, "the worker answered")
            }
        })
    }

    /// Ends a call of which its worker `by` says that it knows nothing.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no step waits under this lease.
    pub fn forsake_worker_call(
        &mut self,
        graph: &Graph,
        (lease, by): (AnsweredWait, &str),
        next: Uuid,
    ) -> Result<(), Refusal> {
        let index = self.worker_step(lease.id).ok_or(Refusal::Meaningless)?;
        self.answered = Some(lease);
        self.acting(author(by), |draft| draft.lose_worker_call(graph, index, next))
    }

    /// Ends the calls whose workers are lost, by the waits of their attempts; each comes with the id of the wait of
    /// the next one. A call that may be made again is offered again, while attempts are left.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn lose_worker_calls(
        &mut self,
        graph: &Graph,
        lost: &[(Uuid, Uuid)],
    ) -> Result<(), Refusal> {
        for (wait_id, next) in lost {
            if let Some(index) = self.worker_step(*wait_id) {
                self.lose_worker_call(graph, index, *next)?;
            }
        }
        Ok(())
    }

    /// Ends the calls whose deadline has passed. Of one that must not be made twice and whose wait is among `begun`, it is
    /// unknown what it came to: a worker had it.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn expire_worker_calls(&mut self, graph: &Graph, begun: &[Uuid]) -> Result<(), Refusal> {
        let now = self.now;
        for index in 0..self.execution.steps.len() {
            let Some(step) = self.execution.step(index) else { continue };
            let task = step.worker_call.as_deref().filter(|task| task.deadline_at <= now);
            let (Some(task), Some(wait)) = (task, step.waits_for_worker()) else { continue };
            let end = match !task.may_repeat && begun.contains(&wait.id) {
                true => WorkerCallEnd::Lost,
                false => WorkerCallEnd::TimedOut,
            };
            self.end_worker_call(graph, index, end, "the deadline of the call passed")?;
        }
        Ok(())
    }

    fn lose_worker_call(
        &mut self,
        graph: &Graph,
        index: usize,
        wait_id: Uuid,
    ) -> Result<(), Refusal> {
        let step = self.execution.step(index).ok_or(Refusal::Meaningless)?;
        let may_repeat = step.worker_call.as_deref().is_some_and(|task| task.may_repeat);
        let next = NextAttempt { wait_id, after: None };
        if may_repeat && self.offer_again(graph, index, next, LOST)? {
            return Ok(());
        }
        self.end_worker_call(graph, index, WorkerCallEnd::Lost, LOST)
    }

    /// Offers the next attempt of a call. Returns false when there is none.
    fn offer_again(
        &mut self,
        graph: &Graph,
        index: usize,
        next: NextAttempt,
        cause: &'static str,
    ) -> Result<bool, Refusal> {
        let now = self.now;
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        let (Some(task), Some(wait)) = (&mut step.worker_call, &mut step.wait) else {
            return Err(Refusal::Meaningless);
        };
        let after = next.after.unwrap_or_else(|| task.attempts.pause_after(task.attempt));
        let Some(again) = task.again(now + after) else { return Ok(false) };
        **task = again;
        (wait.id, wait.since) = (next.wait_id, now);
        self.show_wait();
        self.step_event(graph, index, StepEvent::OfferedAgain, cause)?;
        Ok(true)
    }

    fn end_worker_call(
        &mut self,
        graph: &Graph,
        index: usize,
        end: WorkerCallEnd,
        cause: &'static str,
    ) -> Result<(), Refusal> {
        let now = self.now;
        // The time of a pause is given back at its end.
        let rests_since = self.execution.paused.as_ref().and_then(|paused| paused.rests_since);
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        let task = step.worker_call.as_mut().ok_or(Refusal::Meaningless)?;
        task.end = Some(end);
        let worked = TimeDelta::microseconds(task.worked_us);
        step.started_at = step.started_at.map(|_| rests_since.unwrap_or(now) - worked);
        self.resume_step(graph, index, cause)
    }

    fn worker_step(&self, wait_id: Uuid) -> Option<usize> {
        let waits = |step: &StepProgress| {
            step.worker_call.is_some()
                && step.waits_for_worker().is_some_and(|wait| wait.id == wait_id)
        };
        (0..self.execution.steps.len()).find(|index| self.execution.step(*index).is_some_and(waits))
    }
}
