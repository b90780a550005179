//! The journal: the events of a run, numbered without gaps.

mod evidence;
mod steps;
mod stored;

#[cfg(test)]
mod tests;

pub use evidence::{Evidence, Extent};
pub use steps::JournaledSteps;
pub use stored::{
    Recorded, StoredError, StoredRow, Wanted, read_changes, read_measured, read_verdict_text,
    verdict_text, write_changes,
};

use crate::domain::decision::{ExecuteDecision, Usage, UsageSource};
use crate::domain::fork::ForkedFrom;
use crate::domain::model::ModelReply;
use crate::domain::problem::{Code, Warning};
use crate::domain::receipt::EvidenceReceipt;
use crate::domain::stop::StopReason;
use crate::domain::verdict::Verdict;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;

/// One numbered event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1 without gaps.
    pub sequence: i64,
    /// The time when it was written.
    pub at: DateTime<Utc>,
    /// The span in which it was written, which links the journal to the trace.
    pub span_id: Option<String>,
    /// What happened.
    pub entry: Entry,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The run or a step changed its state.
    Transition(Transition),
    /// A plan revision was stored.
    Plan(PlanStored),
    /// A turn was taken.
    Turn(Box<Turn>),
    /// An effect was recorded before it started.
    Intent(Intent),
    /// The runner recorded a receipt.
    Receipt(Box<EvidenceReceipt>),
    /// A tool's whole output, or where it is stored.
    Output(Output),
    /// The gate decided.
    Verdict(Box<VerdictRecord>),
    /// A wait was answered.
    Answer(Answer),
    /// The run began as a fork of another one.
    Forked(Box<ForkedFrom>),
}

/// Why a state changed. A phrase of the code is borrowed; what participants and users say is owned, and telemetry leaves it
/// out.
pub type Cause = Cow<'static, str>;

/// A state change of the run or of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// The run or the step that changed.
    pub subject: Subject,
    /// The previous state, as the contract spells it.
    pub from: Cow<'static, str>,
    /// The new state.
    pub to: Cow<'static, str>,
    /// The event of the state machine.
    pub event: Cow<'static, str>,
    /// The reason; may be empty when the event says enough.
    pub cause: Cause,
    /// The actor that caused it.
    pub actor: Actor,
    /// The reason, when the run reached a terminal.
    pub stop_reason: Option<StopReason>,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The run itself.
    Run,
    /// The step with this id.
    Step(String),
}

/// The author of an event: a service's process, or the user behind a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub Arc<str>);

/// A plan revision was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStored {
    /// The revision, from 1.
    pub revision: u32,
    /// The plan's digest.
    pub digest: String,
    /// The digest of the revision it is derived from; empty for the first.
    pub parent_digest: String,
    /// The reason for the new revision.
    pub reason: String,
    /// Which model of the service made it; none for any other author.
    pub model: Option<Box<ModelReply>>,
}

/// One round inside a step: decide, validate, apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The step's id.
    pub step_id: String,
    /// The number of the attempt at the step.
    pub attempt: u32,
    /// The turn's number in the attempt, from 1.
    pub number: u32,
    /// The driver's decision; none when its text could not be parsed.
    pub decision: Option<ExecuteDecision>,
    /// Flow, evidence and safety, in this order; fewer when the text or the shape failed first.
    pub validations: Vec<Validation>,
    /// What was corrected in the decision before it was validated.
    pub warnings: Vec<Warning>,
    /// The correction or reminder that the driver got; empty when the decision was applied.
    pub correction: String,
    /// What the driver's reply cost.
    pub usage: Usage,
    /// Where that is known from.
    pub usage_source: UsageSource,
    /// The supplied reply that the turn was taken from; none where the driver replied at once.
    pub reply: Option<ReplyMark>,
    /// What the turn led to, beyond being applied or refused; set when its change is closed.
    pub end: Option<TurnEnd>,
}

/// Names a reply that a participant supplied, so that a repetition of it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyMark {
    /// The fencing token of the lease under which it was sent.
    pub lease_epoch: i64,
    /// The SHA-256 of its text in hexadecimal.
    pub digest: String,
    /// Which model of the service made it; none for a participant outside.
    pub model: Option<Box<ModelReply>>,
}

/// What a turn led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// The step waits.
    Waiting,
    /// The step is done.
    StepDone,
    /// The step failed.
    StepFailed,
    /// The run has ended.
    RunEnded,
}

impl TurnEnd {
    const ALL: [Self; 4] = [Self::Waiting, Self::StepDone, Self::StepFailed, Self::RunEnded];

    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::StepDone => "done",
            Self::StepFailed => "failed",
            Self::RunEnded => "run_ended",
        }
    }

    /// The end with this stored word; the words of steps are those of the states they reached.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == word)
    }
}

/// The result of one of the three validations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// `flow`, `evidence` or `safety`; `shape` for a text that could not be parsed.
    pub name: Cow<'static, str>,
    /// Whether this validation allows the decision.
    pub passed: bool,
    /// The code of the refusal.
    pub code: Option<Code>,
    /// The refusal in words; empty when it passed.
    pub reason: String,
}

/// An effect that was recorded before it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The step's id; empty for the runner's own verification.
    pub step_id: String,
    /// The call's id, which is also its idempotency key.
    pub call_id: Uuid,
    /// The tool.
    pub tool: String,
    /// The arguments, as compact JSON text.
    pub arguments_json: String,
}

/// A tool's whole output, never truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The call that produced it.
    pub call_id: String,
    /// The SHA-256 of the whole in hexadecimal; the artifact's key when the text is not stored
    /// here.
    pub digest: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The text when it is small; none when it is stored as an artifact.
    pub text: Option<String>,
}

/// The gate's answer as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictRecord {
    /// The plan revision it is about.
    pub plan_revision: u32,
    /// The answer.
    pub verdict: Verdict,
    /// The number of receipts that it is based on.
    pub receipts: u32,
    /// Digest of the last receipt that it is based on.
    pub last_receipt_digest: String,
    /// The digest of the plan that it judged.
    pub plan_digest: String,
    /// The history of the run's task that it is based on; none without a task, or without an entry.
    pub history: Option<TaskHistory>,
}

/// The entries in the history of a task that a verdict is based on, or that were there when its report was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHistory {
    /// How many, from 1.
    pub entries: u32,
    /// The digest of the last of them, which names the one before it.
    pub last_digest: String,
}

/// The answer to a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The wait.
    pub wait_id: Uuid,
    /// The actor that answered.
    pub by: Actor,
    /// The text of the answer.
    pub text: String,
}

impl Answer {
    /// What an answer is by whose time has passed.
    pub const CLOCK: &str = "clock";

    /// Whether a person gave it.
    pub fn is_of_a_person(&self) -> bool {
        *self.by.0 != *Self::CLOCK
    }
}
