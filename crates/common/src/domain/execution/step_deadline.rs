//! The time limit of a step while a participant has the lease of its decision.
//!
//! ```text
//!   lease --> the clock runs --> a decision: the turn itself looks at the clock
//!                            --> released, lost: the clock stands still
//!                            --> the time is over --expire_steps--> the step fails
//! ```

use super::Graph;
use super::draft::Draft;
use crate::domain::machine::Refusal;
use crate::domain::step::StepState;
use chrono::TimeDelta;
use uuid::Uuid;

impl Draft {
    /// Fails the steps that wait under these ids, where their time is over: each id with the time for which no participant had
    /// leased the wait. A paused run fails none.
    ///
    /// # Errors
    /// [`Refusal`] never in a consistent execution.
    pub fn expire_steps(
        &mut self,
        graph: &Graph,
        leased: &[(Uuid, TimeDelta)],
    ) -> Result<(), Refusal> {
        if self.execution.paused.is_some() {
            return Ok(());
        }
        let now = self.now;
        let over = |index: &usize| {
            let wait = self.execution.step(*index)?.wait.as_deref()?;
            let (_, unleased) = leased.iter().find(|(id, _)| *id == wait.id)?;
            let until = self.execution.step_until(wait)?.checked_add_signed(*unleased)?;
            (until <= now).then_some(wait.step_deadline_s?)
        };
        let waiting = self.execution.steps_in(StepState::Waiting);
        let late: Vec<(usize, u64)> =
            waiting.filter_map(|index| Some((index, over(&index)?))).collect();
        for (index, limit) in late {
            self.fail_step(graph, index, format!("step_deadline_s ({limit}) is reached"))?;
        }
        Ok(())
    }
}
