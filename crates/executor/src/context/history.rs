//! The turns of one attempt at a step, from the events of its run.

use surety_common::domain::confirmation::is_said;
use surety_common::domain::decision::{Action, ExecuteDecision};
use surety_common::domain::journal::{Entry, Event, Output, Turn};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};

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
    for event in events {
        match &event.entry {
            Entry::Turn(turn) if turn.step_id == step_id => {
                in_attempt = turn.attempt == attempt;
                if in_attempt {
                    turns.push(PastTurn::of(turn));
                }
            }
            Entry::Receipt(receipt) if in_attempt && is_of_call(receipt, step_id) => {
                if let Some(turn) = turns.last_mut() {
                    turn.receipt = Some((**receipt).clone());
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
            Entry::Answer(answer) => {
                if let Some(turn) = turns.last_mut().filter(|turn| turn.asks()) {
                    turn.answer = Some((answer.by.0.to_string(), answer.text.clone()));
                }
            }
            Entry::Turn(_)
            | Entry::Receipt(_)
            | Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Intent(_)
            | Entry::Verdict(_)
            | Entry::Forked(_) => {}
        }
    }
    turns
}

/// What a call came to. That it was denied is its outcome, too; an approval and an answer are none.
fn is_of_call(receipt: &EvidenceReceipt, step_id: &str) -> bool {
    let said = is_said(receipt) && receipt.success;
    receipt.step_id == step_id && receipt.source != EvidenceSource::Probe && !said
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
    for (count, event) in (1..).zip(latest_first) {
        match &event.entry {
            Entry::Receipt(receipt) if is_of_call(receipt, step_id) => calls += 1,
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
