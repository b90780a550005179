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
    /// What the present attempt has used up; nothing once it is done.
    pub(super) used: Used,
    /// The calls of the present attempt that were written down and have no outcome.
    pub(super) open: HashSet<Uuid>,
    /// Whether whoever began the open call let go of the step since.
    interrupted: bool,
    /// What was last answered while it waited, until a call has its outcome.
    pub(super) answer: Option<String>,
    /// The executor that leased it.
    holder: String,
    finished_in: Option<u32>,
}

/// What one attempt at a step has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Used {
    pub(super) turns: u32,
    pub(super) calls: u32,
    /// Calls that succeeded, each of which is one of the script that is behind.
    pub(super) succeeded: u32,
    /// Those of them that are evidence under the present revision.
    pub(super) proofs: u32,
    /// Refused decisions in a row.
    pub(super) corrections: u32,
}

/// What a receipt says of a call.
pub(super) struct Outcome {
    pub(super) id: Uuid,
    pub(super) success: bool,
    pub(super) evidence: bool,
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
                }
            }
            StepEvent::Finished => self.finished(&moved.actor.0)?,
            StepEvent::Retried | StepEvent::Reopened => self.forget(),
            StepEvent::LeaseEnded => self.interrupted = true,
            StepEvent::WaitStarted => {
                self.interrupted = true;
                self.answer = None;
            }
            StepEvent::DependenciesDone
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
            StepState::Done | StepState::Blocked | StepState::Skipped | StepState::Cancelled => {
                return;
            }
            StepState::Failed => self.forget(),
            StepState::Pending | StepState::Ready | StepState::Running | StepState::Waiting => {}
        }
        self.used.proofs = 0;
        if self.open.is_empty() {
            self.forget();
        }
    }

    /// The next attempt begins afresh.
    fn forget(&mut self) {
        self.begun = false;
        self.open.clear();
        self.used = Used::default();
        self.answer = None;
    }

    fn finished(&mut self, actor: &str) -> Result<()> {
        self.held_by(actor)?;
        let before = self.finished_in.replace(self.attempt);
        ensure!(before != Some(self.attempt), "attempt {} was finished twice", self.attempt);
        ensure!(self.open.is_empty(), "it was finished while {:?} had no outcome", self.open);
        self.used = Used::default();
        Ok(())
    }

    pub(super) fn turn(&mut self, turn: &Turn, writer: &str) -> Result<()> {
        self.works(writer)?;
        ensure!(turn.attempt == self.attempt, "this is attempt {}", self.attempt);
        let used = &mut self.used;
        used.turns += 1;
        // A reminder of the completion signal has no validations, and refuses no decision.
        if turn.correction.is_empty() {
            used.corrections = 0;
        } else if !turn.validations.is_empty() {
            used.corrections += 1;
        }
        ensure!(turn.number == used.turns, "turn {} should stand here", used.turns);
        Ok(())
    }

    pub(super) fn intent(&mut self, intent: &Intent, writer: &str) -> Result<()> {
        self.works(writer)?;
        ensure!(self.open.is_empty(), "a call was begun while {:?} had no outcome", self.open);
        self.open.insert(intent.call_id);
        self.interrupted = false;
        Ok(())
    }

    /// `again` is whether the call may be made again without asking.
    pub(super) fn receipt(&mut self, call: &Outcome, again: bool, writer: &str) -> Result<()> {
        self.works(writer)?;
        if self.open.remove(&call.id) && self.interrupted {
            let said = self.answer.as_deref();
            ensure!(said != Some("fail"), "a call was made again that was to fail");
            ensure!(again || said == Some("repeat"), "a call was made again that nobody allowed");
        }
        self.answer = None;
        self.used.calls += 1;
        self.used.succeeded += u32::from(call.success);
        self.used.proofs += u32::from(call.evidence);
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
