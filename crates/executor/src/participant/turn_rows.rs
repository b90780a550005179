//! What the rows of a run say of a turn: whether it is under way, at rest or cut off, and what it recorded.

use super::submission::Submission;
use crate::context::{Kind, StepCalls};
use surety_common::domain::execution::{Execution, StepProgress};
use surety_common::domain::journal::{Entry, Event, Output, Turn};
use surety_common::domain::machine::run::RunState;
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::step::StepState;
use surety_common::domain::stop::WaitingOn;
use uuid::Uuid;

/// Whether another plan was asked for while the step's call was under way: its outcome is no part of a turn any more.
pub(super) fn is_cut_off(run: RunState, step: &StepProgress) -> bool {
    let at_worker = step.wait.as_deref().is_some_and(|wait| wait.waiting_on == WaitingOn::Worker);
    let begins_anew = at_worker || matches!(step.state, StepState::Ready | StepState::Running);
    let is_left = step.open_call.is_some() && step.answered_wait.is_none();
    begins_anew && is_left && !run.is_terminal()
}

/// Whether the answer to a wait is not carried out yet.
pub(super) fn is_under_way(step: Option<&StepProgress>, wait_id: Uuid) -> bool {
    step.is_some_and(|step| {
        step.answered_wait == Some(wait_id)
            || step.wait.as_deref().is_some_and(|wait| wait.id == wait_id)
    })
}

/// Whether a turn has ended in a pause: the step keeps its last answer until the run goes on.
pub(super) fn rests(execution: &Execution, index: usize, turn: u32) -> bool {
    execution.paused.is_some()
        && execution.step(index).is_some_and(|step| {
            let is_over = step.reply.is_none() && step.open_call.is_none();
            step.state == StepState::Ready && step.rounds == turn && is_over
        })
}

pub(super) fn is_turn(event: &Event, submission: &Submission) -> bool {
    let Entry::Turn(turn) = &event.entry else { return false };
    turn.step_id == submission.step_id
        && turn.number == submission.turn
        && turn.reply.as_ref().is_some_and(|mark| mark.lease_epoch == submission.lease_epoch)
}

/// The turn that these events begin with, and what it recorded until the step's next one. What workers reported
/// meanwhile is no part of it: the turn is answered the same way each time.
pub(super) fn parts(
    events: &[Event],
    step_id: &str,
) -> (Option<Turn>, Vec<EvidenceReceipt>, Option<Output>) {
    let (mut turn, mut receipts, mut output) = (None, Vec::new(), None);
    let mut calls = StepCalls::default();
    for event in events {
        calls.see(event, step_id);
        match &event.entry {
            Entry::Turn(found) if found.step_id == step_id => match turn {
                None => turn = Some((**found).clone()),
                Some(_) => break,
            },
            Entry::Receipt(receipt)
                if receipt.step_id == step_id
                    && receipt.source != EvidenceSource::Probe
                    && calls.kind(receipt) != Kind::Report =>
            {
                receipts.push((**receipt).clone());
            }
            Entry::Output(found) => {
                let last = receipts.last();
                if last.is_some_and(|receipt: &EvidenceReceipt| receipt.call_id == found.call_id) {
                    output = Some(found.clone());
                }
            }
            Entry::Turn(_)
            | Entry::Receipt(_)
            | Entry::Transition(_)
            | Entry::Plan(_)
            | Entry::Intent(_)
            | Entry::Verdict(_)
            | Entry::Answer(_)
            | Entry::Forked(_) => {}
        }
    }
    (turn, receipts, output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surety_common::clock;
    use surety_common::domain::execution::{OpenCall, Wait};
    use surety_common::domain::machine::run::Phase;

    #[test]
    fn only_a_call_that_another_plan_left_without_its_lease_is_cut_off() {
        let call = OpenCall {
            call_id: Uuid::from_u128(1),
            tool: "run_command".to_owned(),
            arguments_json: "{}".to_owned(),
            effect: serde_json::Value::Null,
            intended_at: clock::now(),
        };
        let left = StepProgress {
            state: StepState::Ready,
            open_call: Some(Box::new(call)),
            ..StepProgress::default()
        };
        let followed = StepProgress { answered_wait: Some(Uuid::from_u128(2)), ..left.clone() };
        let over = StepProgress { open_call: None, ..left.clone() };
        let asked = StepProgress { state: StepState::Waiting, ..left.clone() };
        let wait = Wait::new(Uuid::nil(), WaitingOn::Worker, clock::now(), "a worker".to_owned());
        let offered = StepProgress { wait: Some(Box::new(wait)), ..asked.clone() };
        let replanned = RunState::Blocked(Phase::Planning);
        for (run, step, expected) in [
            (replanned, &left, true),
            (RunState::Executing, &left, true),
            (RunState::Failed, &left, false),
            (replanned, &followed, false),
            (replanned, &over, false),
            (RunState::Executing, &asked, false),
            (replanned, &offered, true),
        ] {
            assert_eq!(is_cut_off(run, step), expected, "{run:?} {step:?}");
        }
    }
}
