//! The journal of one step.

use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use surety_common::domain::execution::CALL_LEFT;
use surety_common::domain::journal::{Intent, Transition, Turn};
use surety_common::domain::machine::step::{self, StepEvent};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::repository::WORK_LOST;
use surety_common::domain::step::StepState;
use uuid::Uuid;

/// A step's state, and the executor that may write about it.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) state: StepState,
    /// From 1; 0 before the first.
    pub(super) attempt: u32,
    /// Whether the current attempt has started.
    pub(super) begun: bool,
    /// The usage of the current attempt; empty once it is done.
    pub(super) used: Used,
    /// The calls of the current attempt that have an intent and no outcome.
    pub(super) open: HashSet<Uuid>,
    /// Whether the executor of the open call has released the step since.
    interrupted: bool,
    /// How the wait of its open call for a worker ended.
    served: Option<Served>,
    /// The author of that end.
    served_by: String,
    /// The last answer while it waited, until a call has its outcome.
    pub(super) answer: Option<String>,
    /// The executor that leased it.
    holder: String,
    /// The digests of approved calls that have no intent yet.
    approved: Vec<String>,
    finished_in: Option<u32>,
    /// Whether it is done from the start, because it was in the run that this one is a fork of.
    pub(super) inherited: bool,
}

/// The usage of one attempt at a step.
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

/// How the wait of a call for a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Answered,
    Ended,
}

impl Served {
    fn of(cause: &str) -> Option<Self> {
        match cause {
            "the worker answered" => Some(Self::Answered),
            "the worker was lost" | "the deadline of the call passed" => Some(Self::Ended),
            _ => None,
        }
    }
}

/// The outcome of a call in a receipt.
pub(super) struct Outcome {
    pub(super) id: Uuid,
    pub(super) success: bool,
    pub(super) evidence: bool,
    /// Whether a person said that it happened.
    pub(super) testified: bool,
}

impl Step {
    pub(super) fn moved(&mut self, moved: &Transition) -> Result<()> {
        let event = StepEvent::ALL.into_iter().find(|event| event.as_str() == moved.event);
        let event = event.context("no event of a step")?;
        ensure!(self.state.as_str() == moved.from, "the step was {:?}", self.state);
        self.state = step::decide(self.state, event)?;
        ensure!(self.state.as_str() == moved.to, "the machine says {:?}", self.state);
        if [WORK_LOST, CALL_LEFT].contains(&&*moved.cause) {
            // Its files are gone with a clone, or its call has no outcome: its attempt is over.
            self.forget();
        }
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
            StepEvent::WaitEnded => {
                self.served = Served::of(&moved.cause);
                self.served_by = moved.actor.0.to_string();
            }
            StepEvent::WaitStarted => {
                self.interrupted = true;
                self.served = None;
                self.served_by.clear();
                self.answer = None;
            }
            StepEvent::Inherited => self.inherited = true,
            StepEvent::DependenciesDone
            | StepEvent::OfferedAgain
            | StepEvent::Failed
            | StepEvent::DependencyFailed
            | StepEvent::Skipped
            | StepEvent::Replanned
            | StepEvent::Cancelled => {}
        }
        Ok(())
    }

    /// The next revision of the plan begins: open steps start again, except a call without an
    /// outcome.
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

    /// Resets the state for the next attempt.
    fn forget(&mut self) {
        self.inherited = false;
        self.begun = false;
        self.open.clear();
        self.used = Used::default();
        self.answer = None;
        self.approved.clear();
    }

    /// What a person said while it waited.
    pub(super) fn said(&mut self, receipt: &EvidenceReceipt) -> Result<()> {
        ensure!(
            self.state == StepState::Waiting,
            "a person answered while it was {:?}",
            self.state
        );
        if receipt.source == EvidenceSource::Approval && receipt.success {
            self.approved.push(receipt.arguments_digest.clone());
        }
        // The answer to a question of its driver is evidence, and one about a call without an outcome is none.
        let answered = receipt.source == EvidenceSource::UserReply && self.open.is_empty();
        self.used.proofs += u32::from(answered);
        Ok(())
    }

    /// A grant allows the call that begins next.
    pub(super) fn granted(&mut self, receipt: &EvidenceReceipt, writer: &str) -> Result<()> {
        self.works(writer)?;
        self.approved.push(receipt.arguments_digest.clone());
        Ok(())
    }

    /// A call that needs a confirmation begins after one for exactly it, which is used up.
    pub(super) fn use_approval(&mut self, digest: &str, needed: bool) -> Result<()> {
        let found = self.approved.iter().position(|approved| approved == digest);
        ensure!(found.is_some() || !needed, "a call was begun without its confirmation");
        if let Some(place) = found {
            self.approved.remove(place);
        }
        Ok(())
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
        ensure!(turn.number == used.turns, "expected turn {}", used.turns);
        Ok(())
    }

    pub(super) fn intent(&mut self, intent: &Intent, writer: &str) -> Result<()> {
        self.works(writer)?;
        ensure!(self.open.is_empty(), "a call was begun while {:?} had no outcome", self.open);
        self.open.insert(intent.call_id);
        self.interrupted = false;
        Ok(())
    }

    /// `again` says whether the call may be repeated without asking.
    pub(super) fn receipt(&mut self, call: &Outcome, again: bool, writer: &str) -> Result<()> {
        self.works(writer)?;
        if self.open.remove(&call.id) && self.interrupted {
            let said = self.answer.as_deref();
            ensure!(said != Some("fail"), "a call was repeated although the answer was fail");
            let allowed = if call.testified { "happened" } else { "repeat" };
            let served = match self.served.take() {
                Some(Served::Answered) => true,
                // Its outcome is a failure, or a person is asked.
                Some(Served::Ended) => !call.success,
                None => false,
            };
            let allowed = said == Some(allowed) || served || again && !call.testified;
            ensure!(allowed, "an open call was settled without permission");
        }
        self.answer = None;
        self.used.calls += 1;
        self.used.succeeded += u32::from(call.success);
        self.used.proofs += u32::from(call.evidence);
        Ok(())
    }

    /// Whether this worker answered its open call.
    pub(super) fn is_served_by(&self, worker: &str) -> bool {
        self.served == Some(Served::Answered) && self.served_by == format!("worker/{worker}")
    }

    /// A worker reported about it, as evidence or not.
    pub(super) fn reported(&mut self, evidence: bool) -> Result<()> {
        let open = matches!(self.state, StepState::Ready | StepState::Running | StepState::Waiting);
        ensure!(open, "a worker reported about a step that is {:?}", self.state);
        self.used.proofs += u32::from(evidence);
        Ok(())
    }

    /// Only a running step has entries, and only its holder writes them.
    pub(super) fn works(&self, writer: &str) -> Result<()> {
        ensure!(self.state == StepState::Running, "it happened in a step that is {:?}", self.state);
        self.held_by(writer)
    }

    fn held_by(&self, writer: &str) -> Result<()> {
        ensure!(self.holder == writer, "{writer} wrote about a step that {} held", self.holder);
        Ok(())
    }
}
