//! What the journal says of one step.

use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use surety_common::domain::journal::{Intent, Transition, Turn};
use surety_common::domain::machine::step::{self, StepEvent};
use surety_common::domain::step::StepState;
use uuid::Uuid;

/// Where a step stands, and who may write about it.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) state: StepState,
    /// From 1; 0 before the first.
    pub(super) attempt: u32,
    /// Whether the present attempt has begun.
    pub(super) begun: bool,
    /// Turns taken in the present attempt.
    pub(super) turns: u32,
    /// The calls of the present attempt that were written down and have no outcome.
    pub(super) open: HashSet<Uuid>,
    /// The executor that leased it.
    holder: String,
    finished_in: Option<u32>,
}

impl Step {
    pub(super) fn moved(&mut self, moved: &Transition) -> Result<()> {
        let event = StepEvent::ALL.into_iter().find(|event| event.as_str() == moved.event);
        let event = event.context("no event of a step")?;
        ensure!(self.state.as_str() == moved.from, "the step was {:?}", self.state);
        self.state = step::decide(self.state, event)?;
        ensure!(self.state.as_str() == moved.to, "the machine says {:?}", self.state);
        match event {
            StepEvent::Leased => {
                self.holder = moved.actor.0.to_string();
                if !self.begun {
                    self.begun = true;
                    self.attempt += 1;
                    self.turns = 0;
                }
            }
            StepEvent::Finished => self.finished(&moved.actor.0)?,
            StepEvent::Retried | StepEvent::Reopened => {
                self.begun = false;
                self.open.clear();
            }
            StepEvent::DependenciesDone
            | StepEvent::LeaseEnded
            | StepEvent::WaitStarted
            | StepEvent::WaitEnded
            | StepEvent::Failed
            | StepEvent::DependencyFailed
            | StepEvent::Skipped
            | StepEvent::Replanned
            | StepEvent::Cancelled => {}
        }
        Ok(())
    }

    /// The next revision of the plan begins: what is not over is begun anew, but for a call whose
    /// outcome is still to be heard.
    pub(super) fn renew(&mut self) {
        match self.state {
            StepState::Done | StepState::Skipped | StepState::Cancelled => return,
            StepState::Failed => self.open.clear(),
            StepState::Pending
            | StepState::Ready
            | StepState::Running
            | StepState::Waiting
            | StepState::Blocked => {}
        }
        self.begun &= !self.open.is_empty();
    }

    fn finished(&mut self, actor: &str) -> Result<()> {
        self.held_by(actor)?;
        let before = self.finished_in.replace(self.attempt);
        ensure!(before != Some(self.attempt), "attempt {} was finished twice", self.attempt);
        ensure!(self.open.is_empty(), "it was finished while {:?} had no outcome", self.open);
        Ok(())
    }

    pub(super) fn turn(&mut self, turn: &Turn, writer: &str) -> Result<()> {
        self.works(writer)?;
        ensure!(turn.attempt == self.attempt, "this is attempt {}", self.attempt);
        self.turns += 1;
        ensure!(turn.number == self.turns, "turn {} should stand here", self.turns);
        Ok(())
    }

    pub(super) fn intent(&mut self, intent: &Intent, writer: &str) -> Result<()> {
        self.works(writer)?;
        ensure!(self.open.is_empty(), "a call was begun while {:?} had no outcome", self.open);
        self.open.insert(intent.call_id);
        Ok(())
    }

    pub(super) fn receipt(&mut self, call_id: Uuid, writer: &str) -> Result<()> {
        self.works(writer)?;
        self.open.remove(&call_id);
        Ok(())
    }

    /// Only a step that runs has anything to tell, and only its holder tells it.
    fn works(&self, writer: &str) -> Result<()> {
        ensure!(self.state == StepState::Running, "it happened in a step that is {:?}", self.state);
        self.held_by(writer)
    }

    fn held_by(&self, writer: &str) -> Result<()> {
        ensure!(self.holder == writer, "{writer} wrote about a step that {} held", self.holder);
        Ok(())
    }
}
