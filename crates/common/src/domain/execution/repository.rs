//! What a run's row remembers of its git repository.

use super::draft::Draft;
use super::{Execution, Graph};
use crate::domain::machine::Refusal;
use crate::domain::machine::step::StepEvent;
use crate::domain::repository::{RepositoryState, SavedWork, StepMark, WORK_LOST, marks};
use crate::domain::step::StepState;

impl Draft {
    /// Remembers the commit that the run starts from.
    pub fn begin_repository(&mut self, state: RepositoryState) {
        self.execution.counters.repository = Some(Box::new(state));
    }

    /// Remembers a commit with the work so far, and how far the steps are.
    pub fn save_work(&mut self, commit: String) {
        let marks = marks(&self.execution);
        if let Some(state) = self.execution.counters.repository.as_deref_mut() {
            state.saved = Some(SavedWork { commit, marks });
        }
    }

    /// Remembers the commit with the work of every accepted step; `ending` is the step that is being accepted.
    pub fn accept_work(&mut self, commit: String, ending: Option<usize>) {
        let mut marks = marks(&self.execution);
        marks.retain(|mark| Some(mark.step) != ending);
        if let Some(state) = self.execution.counters.repository.as_deref_mut() {
            state.head = SavedWork { commit, marks };
            state.saved = None;
        }
    }

    /// Begins steps anew whose work is lost with the folder of another executor: their attempts are forgotten,
    /// and they are ready.
    ///
    /// # Errors
    /// [`Refusal`] for a step that is neither ready, running nor waiting.
    pub fn restart_steps(&mut self, graph: &Graph, steps: &[usize]) -> Result<(), Refusal> {
        for index in steps.iter().copied() {
            match self.execution.step(index).map(|step| step.state) {
                Some(StepState::Running) => {
                    self.step_event(graph, index, StepEvent::LeaseEnded, WORK_LOST)?;
                }
                Some(StepState::Waiting) => {
                    self.forget_waits(index);
                    self.resume_step(graph, index, WORK_LOST)?;
                }
                Some(StepState::Ready) => {
                    // The journal has to say that the attempt ended.
                    self.step_event(graph, index, StepEvent::Leased, "")?;
                    self.step_event(graph, index, StepEvent::LeaseEnded, WORK_LOST)?;
                }
                Some(
                    StepState::Pending
                    | StepState::Done
                    | StepState::Failed
                    | StepState::Blocked
                    | StepState::Skipped
                    | StepState::Cancelled,
                )
                | None => return Err(Refusal::Meaningless),
            }
            self.forget_attempt(index);
        }
        Ok(())
    }
}

impl Execution {
    /// The steps that are further than the head of the run's repository: they finished calls since.
    pub fn steps_beyond_head(&self) -> Vec<usize> {
        let head = self.counters.repository.as_deref().map(|state| state.head.marks.as_slice());
        let is_at_head =
            |mark: &StepMark| mark.calls == 0 || head.unwrap_or_default().contains(mark);
        let beyond = marks(self).into_iter().filter(|mark| !is_at_head(mark));
        beyond.map(|mark| mark.step).collect()
    }
}
