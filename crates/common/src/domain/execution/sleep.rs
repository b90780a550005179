//! Steps that wait for a time.
//!
//! ```text
//!   running --sleep_step--> waiting on the timer --wake_steps, at its time--> ready --> the call has its outcome
//! ```
//!
//! A sleep is a call with an intent: what is known of it is in the row, so any process ends it.

use super::draft::Draft;
use super::{Graph, OpenCall, Sleep, StepProgress, Wait};
use crate::domain::machine::Refusal;
use crate::domain::step::StepState;
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, TimeDelta, Utc};

impl StepProgress {
    /// Whether it waits for the end of a sleep that is over `now`.
    fn is_to_wake(&self, now: DateTime<Utc>) -> bool {
        let sleeps = |wait: &Wait| wait.waiting_on == WaitingOn::Timer;
        self.state == StepState::Waiting
            && self.wait.as_deref().is_some_and(sleeps)
            && self.sleep.is_some_and(|sleep| sleep.until <= now)
    }
}

impl Draft {
    /// Makes a step wait for `until`, as the open call `call`. A call that is open already, as after an early
    /// end of its wait, is journalled once.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn sleep_step(
        &mut self,
        graph: &Graph,
        index: usize,
        call: OpenCall,
        (until, wait): (DateTime<Utc>, Wait),
    ) -> Result<(), Refusal> {
        let now = self.now;
        let step = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        let is_new = step.open_call.is_none();
        // The participant that asked for it loses its lease here, so its call is counted here.
        if step.answered_wait.is_some() {
            *step.called.entry(call.tool.clone()).or_default() += 1;
        }
        let worked = now - step.started_at.unwrap_or(now);
        let worked_us = worked.num_microseconds().unwrap_or_default();
        step.sleep = Some(Sleep { until, worked_us });
        if is_new {
            self.open_call(graph, index, call)?;
        }
        self.pause_step(graph, index, wait)
    }

    /// Ends the waits of steps whose time has come. The sleep does not count for the deadline of the step.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn wake_steps(&mut self, graph: &Graph) -> Result<(), Refusal> {
        let now = self.now;
        // The time of a pause is given back at its end.
        let rests_since = self.execution.paused.as_ref().and_then(|paused| paused.rests_since);
        for index in 0..self.execution.steps.len() {
            let Some(step) = self.execution.step_mut(index) else { continue };
            if !step.is_to_wake(now) {
                continue;
            }
            let worked = TimeDelta::microseconds(step.sleep.map_or(0, |sleep| sleep.worked_us));
            step.started_at = step.started_at.map(|_| rests_since.unwrap_or(now) - worked);
            self.resume_step(graph, index, "its time has come")?;
        }
        Ok(())
    }
}
