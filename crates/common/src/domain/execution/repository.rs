//! What a run's row remembers of its git repository.

use super::draft::Draft;
use super::{Execution, Graph, StepProgress};
use crate::domain::machine::Refusal;
use crate::domain::machine::step::StepEvent;
use crate::domain::repository::{RepositoryState, SavedWork, StepMark, WORK_LOST};
use crate::domain::step::StepState;
use std::sync::Arc;

impl Draft {
    /// Remembers the commit that the run starts from.
    pub fn begin_repository(&mut self, state: RepositoryState) {
        self.execution.counters.repository = Some(Box::new(state));
    }

    /// Remembers a commit with the work so far, and how far the steps are.
    pub fn save_work(&mut self, commit: String) {
        let marks = self.execution.marks();
        if let Some(state) = self.execution.counters.repository.as_deref_mut() {
            state.saved = Some(SavedWork { commit, marks });
        }
    }

    /// Remembers the commit with the work of every accepted step; `ending` is the step that is being accepted.
    pub fn accept_work(&mut self, commit: String, ending: Option<usize>) {
        let mut marks = self.execution.marks();
        marks.retain(|mark| Some(mark.step) != ending);
        if let Some(state) = self.execution.counters.repository.as_deref_mut() {
            state.head = SavedWork { commit, marks };
            state.saved = None;
        }
    }

    /// Remembers a commit before it is pushed to the branch of the task.
    pub fn name_branch_commit(&mut self, commit: String) {
        if let Some(state) = self.execution.counters.repository.as_deref_mut()
            && !state.branch_commits.contains(&commit)
        {
            state.branch_commits.push(commit);
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
            let hint = self.hint_of_next_attempt(index);
            self.begin_attempt(index, hint);
        }
        Ok(())
    }
}

impl Execution {
    /// How far the steps are that have begun and have not ended, in the plan's order.
    pub fn marks(&self) -> Vec<StepMark> {
        let steps = self.steps.iter().enumerate();
        let begun = steps.filter(|(_, step)| step.started_at.is_some() && !step.state.is_settled());
        let mark = |(step, progress): (usize, &Arc<StepProgress>)| StepMark {
            step,
            attempt: progress.attempt,
            calls: progress.tool_calls,
        };
        begun.map(mark).collect()
    }

    /// The saved work of the run's repository, where the steps are exactly as far as it is.
    pub fn exact_work(&self) -> Option<&SavedWork> {
        let saved = self.counters.repository.as_deref()?.saved.as_ref();
        saved.filter(|saved| saved.marks == self.marks())
    }

    /// The steps that are further than the head of the run's repository: they finished calls since.
    pub fn steps_beyond_head(&self) -> Vec<usize> {
        let head = self.counters.repository.as_deref().map(|state| state.head.marks.as_slice());
        let is_at_head =
            |mark: &StepMark| mark.calls == 0 || head.unwrap_or_default().contains(mark);
        let beyond = self.marks().into_iter().filter(|mark| !is_at_head(mark));
        beyond.map(|mark| mark.step).collect()
    }
}
