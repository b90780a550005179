//! The journal: what happened to a run, numbered without gaps.

mod evidence;
mod stored;

#[cfg(test)]
mod tests;

pub use evidence::Evidence;
pub use stored::{
    Recorded, StoredError, StoredRow, Wanted, read_changes, read_measured, write_changes,
};

use crate::domain::decision::{ExecuteDecision, Usage};
use crate::domain::problem::Code;
use crate::domain::receipt::EvidenceReceipt;
use crate::domain::stop::StopReason;
use crate::domain::verdict::Verdict;
use chrono::{DateTime, Utc};
use std::borrow::Cow;
use std::sync::Arc;
use uuid::Uuid;

/// One numbered event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1 without gaps.
    pub sequence: i64,
    /// When it was written.
    pub at: DateTime<Utc>,
    /// The span it was written under, so that the journal and the trace can be laid side by side.
    pub span_id: Option<String>,
    /// What happened.
    pub entry: Entry,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A run or a step moved.
    Transition(Transition),
    /// A plan revision was stored.
    Plan(PlanStored),
    /// A turn was taken.
    Turn(Box<Turn>),
    /// An effect was written down before it was started.
    Intent(Intent),
    /// The runner recorded a fact.
    Receipt(Box<EvidenceReceipt>),
    /// A tool's whole output, or where it is kept.
    Output(Output),
    /// The gate decided.
    Verdict(Box<VerdictRecord>),
    /// Somebody answered a wait.
    Answer(Answer),
}

/// A move of the run or of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    /// What moved.
    pub subject: Subject,
    /// The state that was left, in the contract's spelling.
    pub from: Cow<'static, str>,
    /// The state that was reached.
    pub to: Cow<'static, str>,
    /// What happened, in the machine's words.
    pub event: Cow<'static, str>,
    /// Why, in words; may be empty where the event says it all.
    pub cause: String,
    /// Who moved it.
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

/// Who did something: a service's process, or a person behind a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub Arc<str>);

/// A plan revision was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStored {
    /// From 1.
    pub revision: u32,
    /// The plan's digest.
    pub digest: String,
    /// The digest of the revision it came from; empty for the first.
    pub parent_digest: String,
    /// Why there is a new one.
    pub reason: String,
}

/// One round inside a step: decide, validate, apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The step's id.
    pub step_id: String,
    /// Which attempt at the step.
    pub attempt: u32,
    /// The turn's number in the attempt, from 1.
    pub number: u32,
    /// What the driver wanted; none when its text did not read.
    pub decision: Option<ExecuteDecision>,
    /// Flow, evidence and safety, in this order; fewer when the text or the shape failed first.
    pub validations: Vec<Validation>,
    /// The correction or reminder that the driver got; empty when the decision was applied.
    pub correction: String,
    /// What the driver's reply cost; zero where it reported nothing.
    pub usage: Usage,
}

/// The answer of one of the three validations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// `flow`, `evidence` or `safety`; `shape` for a text that did not read.
    pub name: Cow<'static, str>,
    /// Whether the decision may be applied, as far as this one sees.
    pub passed: bool,
    /// Why not.
    pub code: Option<Code>,
    /// In words; empty when it passed.
    pub reason: String,
}

/// An effect that was written down before it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The step's id; empty for the runner's own verification.
    pub step_id: String,
    /// The call's id, which is its idempotency key too.
    pub call_id: Uuid,
    /// The tool.
    pub tool: String,
    /// The arguments, as compact JSON text.
    pub arguments_json: String,
}

/// A tool's whole output, never cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The call it came from.
    pub call_id: String,
    /// Hex SHA-256 of the whole; the artifact's key where the text is not here.
    pub digest: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The text itself where it is small; none when it is kept as an artifact.
    pub text: Option<String>,
}

/// The gate's answer, as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictRecord {
    /// The plan revision it is about.
    pub plan_revision: u32,
    /// The answer.
    pub verdict: Verdict,
    /// How many receipts it saw.
    pub receipts: u32,
    /// Digest of the last receipt it saw.
    pub last_receipt_digest: String,
}

/// Somebody answered a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The wait.
    pub wait_id: Uuid,
    /// Who answered.
    pub by: Actor,
    /// What was said.
    pub text: String,
}
