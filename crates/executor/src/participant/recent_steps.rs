//! What this process answered last to the participants that hold steps: most of them send their next decision
//! here, too, and then nothing of it is read again.
//!
//! What is kept may be older than the row. The change that is decided from it is then lost, like any other one, and
//! the rows are read.

use crate::context::needed;
use crate::shelf::Shelf;
use surety_common::domain::decision::ExecuteDecision;
use surety_common::domain::journal::{Entry, Event};
use surety_common::domain::run::RunRecord;
use uuid::Uuid;

/// The steps that are kept at most, so that waiting runs need no memory.
const MAX_STEPS: usize = 1024;
/// The bytes of their turns that are kept at most, about.
const MAX_BYTES: usize = 32 << 20;
/// What an event needs beside its texts, about.
const EVENT_BYTES: usize = 512;

/// A step as a participant knows it that holds its lease.
pub(super) struct KnownStep {
    /// The participant's identity.
    pub(super) identity: String,
    /// The wait that it has leased.
    pub(super) wait_id: Uuid,
    /// The run.
    pub(super) record: RunRecord,
    /// The step, by its index in the plan.
    pub(super) index: usize,
    /// The events of the turns that it is shown, in order.
    pub(super) events: Vec<Event>,
}

/// The steps that were answered last, by the fencing token of their lease, which no other lease has.
pub(super) struct RecentSteps(Shelf<i64, KnownStep>);

impl Default for RecentSteps {
    fn default() -> Self {
        Self(Shelf::of(MAX_STEPS, MAX_BYTES))
    }
}

impl RecentSteps {
    /// Keeps a step under the token of its lease.
    pub(super) fn keep(&self, lease_epoch: i64, mut step: KnownStep) {
        let Some(progress) = step.record.execution.step(step.index) else { return };
        let plan = step.record.plan.as_deref();
        let Some(planned) = plan.and_then(|plan| plan.steps.get(step.index)) else { return };
        let needed = needed(&step.events, &planned.id, progress.attempt);
        step.events.drain(..step.events.len().saturating_sub(needed));
        let bytes = step.events.iter().map(weight).sum();
        self.0.put(lease_epoch, step, bytes);
    }

    /// Takes the step that is kept under a token, where it is the one that `fits`.
    pub(super) fn take(
        &self,
        lease_epoch: i64,
        fits: impl FnOnce(&KnownStep) -> bool,
    ) -> Option<KnownStep> {
        self.0.take(lease_epoch, fits)
    }
}

/// The memory that an event needs, about.
fn weight(event: &Event) -> usize {
    let texts = match &event.entry {
        Entry::Turn(turn) => {
            turn.correction.len() + turn.decision.as_ref().map_or(0, decision_bytes)
        }
        Entry::Receipt(receipt) => receipt.summary.len() + EVENT_BYTES * receipt.facts.len(),
        Entry::Output(output) => output.text.as_ref().map_or(0, String::len),
        Entry::Intent(intent) => intent.arguments_json.len(),
        Entry::Answer(answer) => answer.text.len(),
        Entry::Transition(_) | Entry::Plan(_) | Entry::Verdict(_) | Entry::Forked(_) => 0,
    };
    EVENT_BYTES + texts
}

fn decision_bytes(decision: &ExecuteDecision) -> usize {
    let ExecuteDecision { speak, reason, goal_check, tool_call, .. } = decision;
    let arguments = tool_call.as_ref().map_or(0, |call| call.arguments.to_compact().len());
    speak.len() + reason.len() + goal_check.len() + arguments
}
