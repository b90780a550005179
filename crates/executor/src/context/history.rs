//! The turns of one attempt at a step, from the events of its run.

use std::collections::HashSet;
use surety_common::domain::confirmation::{ASKED, is_said};
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::journal::{Entry, Event, Output, Turn};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use uuid::Uuid;

/// The turns with a tool call that a driver is shown; older ones are only counted.
pub const TOOL_TURNS: usize = 8;
/// The turns that are looked through for them: an attempt of many turns without a call costs no more for each.
const TURNS: usize = 8 * TOOL_TURNS;

/// One turn of the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastTurn {
    /// Its number in the attempt, from 1.
    pub number: u32,
    /// The decision; none where the reply held none.
    pub decision: Option<ExecuteDecision>,
    /// The correction or reminder that the driver got; empty when the decision was applied.
    pub correction: String,
    /// What the runner recorded about its call.
    pub receipt: Option<EvidenceReceipt>,
    /// The output of its call.
    pub output: Option<Output>,
    /// The answer to the question that it asked, with its author.
    pub answer: Option<(String, String)>,
    /// The wait that the answer ended.
    pub answered_wait: Option<Uuid>,
    /// What workers reported beside its call until the next turn, in order.
    pub reports: Vec<EvidenceReceipt>,
}

impl PastTurn {
    fn of(turn: &Turn) -> Self {
        Self {
            number: turn.number,
            decision: turn.decision.clone(),
            correction: turn.correction.clone(),
            receipt: None,
            output: None,
            answer: None,
            answered_wait: None,
            reports: Vec::new(),
        }
    }

    /// The tool that it called.
    pub fn tool(&self) -> Option<&str> {
        self.receipt.as_ref().map(|receipt| receipt.name.as_str())
    }

    fn asks(&self) -> bool {
        let asks = |decision: &ExecuteDecision| decision.action == Action::AskUser;
        self.correction.is_empty() && self.decision.as_ref().is_some_and(asks)
    }
}

/// The turns of an attempt, in order.
pub fn turns(events: &[Event], step_id: &str, attempt: u32) -> Vec<PastTurn> {
    let mut turns: Vec<PastTurn> = Vec::new();
    let mut in_attempt = false;
    let mut calls = StepCalls::default();
    // The receipt of an answer and the answer are journalled one after the other.
    let mut is_reply_to_step = false;
    for event in events {
        let follows_reply = std::mem::take(&mut is_reply_to_step);
        calls.see(event, step_id);
        match &event.entry {
            Entry::Turn(turn) if turn.step_id == step_id => {
                in_attempt = turn.attempt == attempt;
                if in_attempt {
                    turns.push(PastTurn::of(turn));
                }
            }
            Entry::Receipt(receipt) if in_attempt && receipt.step_id == step_id => {
                is_reply_to_step = is_said(receipt) && receipt.name == ASKED;
                match (calls.kind(receipt), turns.last_mut()) {
                    (Kind::Call, Some(turn)) => turn.receipt = Some((**receipt).clone()),
                    (Kind::Report, Some(turn)) => turn.reports.push((**receipt).clone()),
                    (Kind::Other, _) | (_, None) => {}
                }
            }
            Entry::Output(output) => {
                let of_call = |turn: &&mut PastTurn| {
                    turn.receipt.as_ref().is_some_and(|receipt| receipt.call_id == output.call_id)
                };
                if let Some(turn) = turns.last_mut().filter(of_call) {
                    turn.output = Some(output.clone());
                }
            }
            Entry::Answer(answer) if follows_reply => {
                if let Some(turn) = turns.last_mut().filter(|turn| turn.asks()) {
                    turn.answered_wait = Some(answer.wait_id);
                    turn.answer = Some((answer.by.0.to_string(), answer.text.clone()));
                }
            }
            Entry::Turn(_)
            | Entry::Receipt(_)
            | Entry::Answer(_)
            | Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Intent(_)
            | Entry::Verdict(_)
            | Entry::Forked(_) => {}
        }
    }
    turns
}

/// What a receipt of a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What a call of the driver came to. That it was denied is its outcome, too.
    Call,
    /// A worker's words that no call of the driver led to.
    Report,
    /// A probe of the runner, an approval, an answer.
    Other,
}

/// The calls of a step that have an intent, as far as the events were read.
#[derive(Debug, Default)]
pub struct StepCalls {
    intended: HashSet<String>,
}

impl StepCalls {
    /// Reads one event, in order.
    pub fn see(&mut self, event: &Event, step_id: &str) {
        if let Entry::Intent(intent) = &event.entry
            && intent.step_id == step_id
        {
            self.intended.insert(intent.call_id.to_string());
        }
    }

    /// What a receipt of the step is about. A worker's answer to a call has the id of an intent, its report has none.
    pub fn kind(&self, receipt: &EvidenceReceipt) -> Kind {
        let said = is_said(receipt) && receipt.success;
        if receipt.source == EvidenceSource::Probe || said {
            Kind::Other
        } else if receipt.reporter().is_some() && !self.intended.contains(&receipt.call_id) {
            Kind::Report
        } else {
            Kind::Call
        }
    }
}

/// Whether these events, the latest first, hold all turns that a driver is shown: the window is full, enough turns
/// were looked through, or the attempt's first turn is among them.
pub fn is_complete(latest_first: &[Event], step_id: &str, attempt: u32) -> bool {
    boundary(latest_first.iter(), step_id, attempt).is_some()
}

/// How many of these events, in order, hold the turns that a driver is shown: the last ones.
pub fn needed(events: &[Event], step_id: &str, attempt: u32) -> usize {
    boundary(events.iter().rev(), step_id, attempt).unwrap_or(events.len())
}

/// The number of events up to the one with which they are complete, the latest first; none when they are not.
fn boundary<'a>(
    latest_first: impl Iterator<Item = &'a Event>,
    step_id: &str,
    attempt: u32,
) -> Option<usize> {
    let (mut calls, mut turns) = (0, 0);
    // Of a worker's words the intent, which is read later here, says whether they answer a call.
    let mut reported: HashSet<&str> = HashSet::new();
    for (count, event) in (1..).zip(latest_first) {
        match &event.entry {
            Entry::Receipt(receipt) if receipt.step_id == step_id => {
                match StepCalls::default().kind(receipt) {
                    Kind::Call => calls += 1,
                    Kind::Report => {
                        reported.insert(&receipt.call_id);
                    }
                    Kind::Other => {}
                }
            }
            Entry::Intent(intent) if intent.step_id == step_id => {
                calls += usize::from(reported.remove(intent.call_id.to_string().as_str()));
            }
            Entry::Turn(turn) if turn.step_id == step_id => {
                turns += 1;
                let enough = calls >= TOOL_TURNS || turns >= TURNS;
                if turn.attempt != attempt || turn.number <= 1 || enough {
                    return Some(count);
                }
            }
            Entry::Turn(_)
            | Entry::Receipt(_)
            | Entry::Output(_)
            | Entry::Answer(_)
            | Entry::Forked(_)
            | Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Intent(_)
            | Entry::Verdict(_) => {}
        }
    }
    None
}
