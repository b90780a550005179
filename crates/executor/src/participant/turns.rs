//! One submitted decision: stored, followed to the end of its turn, and answered.
//!
//! ```text
//!   which turn is it? --the next--> store the reply --> follow the turn --> its outcome
//!                     --under way---------------------------^
//!                     --past, the same text----------> the stored outcome
//!                     --else--> turn_conflict, lease_lost
//! ```

use super::scene::{StepScene, text_of};
use super::{Participants, index_of, lease_lost, run_terminal};
use crate::context::{is_complete, observation};
use crate::step::SupplyError;
use std::time::Duration;
use surety_common::domain::decision::Usage;
use surety_common::domain::execution::{StepProgress, SuppliedReply};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::journal::{Actor, Entry, Event, Output, Turn};
use surety_common::domain::json::sha256_hex;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource};
use surety_common::domain::run::RunRecord;
use surety_common::domain::step::StepState;
use surety_common::store::{self, HeldLease, StoredLease};
use surety_common::wire::caller::Caller;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// How long a turn is followed before the caller is told that it is still under way.
const FOLLOWED: Duration = Duration::from_secs(30);

/// A decision as it was submitted.
#[derive(Debug, Clone)]
pub(crate) struct Submission {
    /// The run.
    pub(crate) run_id: Uuid,
    /// The step.
    pub(crate) step_id: String,
    /// The fencing token of the lease.
    pub(crate) lease_epoch: i64,
    /// The number of the turn.
    pub(crate) turn: u32,
    /// The reply as text.
    pub(crate) text: String,
    /// What it cost; none where the agent does not say.
    pub(crate) usage: Option<Usage>,
    /// The caller's `traceparent`; empty without one.
    pub(crate) trace_parent: String,
}

/// What a submitted decision came to.
pub(crate) struct TurnResult {
    /// The turn; none when it has not ended, or a limit ended the step instead.
    pub(crate) turn: Option<Turn>,
    /// Whether the turn has not ended yet.
    pub(crate) is_pending: bool,
    /// What the runner recorded.
    pub(crate) receipts: Vec<EvidenceReceipt>,
    /// What the call came to, for the driver.
    pub(crate) observation: String,
    /// The run, as it is now.
    pub(crate) record: RunRecord,
    /// The step's state now.
    pub(crate) step: StepProgress,
    /// What the next turn is decided from; none when the lease has ended.
    pub(crate) next: Option<StepScene>,
}

/// Where a submitted turn stands.
enum Standing {
    /// It is the next one: the wait takes its reply.
    Next(StoredLease),
    /// It is stored, and carried out now.
    UnderWay(Uuid),
    /// It has ended.
    Past,
}

impl Participants {
    /// Stores a decision, follows its turn and answers the outcome. The same turn submitted again is answered
    /// with the stored outcome.
    ///
    /// # Errors
    /// `run_not_found`, `step_not_found`, `lease_lost`, `turn_conflict`, `run_terminal`, `too_large`,
    /// `database_unavailable`.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        submission: Submission,
    ) -> Result<TurnResult, Fault> {
        // From before the first read, so that no change is missed.
        let follower = self.news.follow(submission.run_id);
        let deadline = Instant::now() + FOLLOWED;
        let record = self.find(caller, submission.run_id).await?;
        let index = index_of(&record, &submission.step_id)?;
        let wait_id = match self.standing(caller, record, index, &submission).await? {
            Standing::Past => return self.past(caller, index, &submission).await,
            Standing::UnderWay(wait_id) => wait_id,
            Standing::Next(held) => {
                let wait_id = held.wait_id;
                self.supply(caller, held, &submission).await?;
                // The turn is under way: its end is told.
                drop(timeout_at(deadline, follower.changed()).await);
                wait_id
            }
        };
        loop {
            let record = self.find(caller, submission.run_id).await?;
            if !is_under_way(record.execution.step(index), wait_id) {
                return self.ended(caller, record, index, &submission).await;
            }
            if timeout_at(deadline, follower.changed()).await.is_err() {
                return Ok(pending(record, index));
            }
        }
    }

    async fn supply(
        &self,
        caller: &Caller,
        held: StoredLease,
        submission: &Submission,
    ) -> Result<(), Fault> {
        let Submission { run_id, step_id, lease_epoch, text, usage, trace_parent, .. } = submission;
        let reply = SuppliedReply {
            wait_id: held.wait_id,
            lease_epoch: *lease_epoch,
            text: text.clone(),
            usage: *usage,
            trace_parent: trace_parent.clone(),
            by: caller.name().to_owned(),
        };
        let by = Actor(format!("driver/{}", caller.name()).into());
        match self.replies.supply(*run_id, reply, held.unleased, &by).await {
            Ok(()) => Ok(()),
            Err(SupplyError::RunNotFound(_) | SupplyError::LeaseLost { .. }) => {
                Err(lease_lost(step_id))
            }
            // The same decision was submitted twice at a time, or the step ended.
            Err(error @ SupplyError::WaitClosed { .. }) => {
                Err(Fault::new(FaultCode::TurnConflict, error.to_string()).with_field("turn"))
            }
            Err(error @ SupplyError::TooLarge { .. }) => {
                Err(Problem::at(Code::TooLarge, "raw", error.to_string()).into())
            }
            Err(SupplyError::Store(error)) => Err(error.into()),
        }
    }

    /// Where the submitted turn stands. The lease decides who may submit, the row which turn is next.
    async fn standing(
        &self,
        caller: &Caller,
        record: RunRecord,
        index: usize,
        submission: &Submission,
    ) -> Result<Standing, Fault> {
        let Submission { run_id, lease_epoch, turn, text, .. } = submission;
        let (run_id, lease_epoch) = (*run_id, *lease_epoch);
        let lease = HeldLease { run_id, lease_epoch, identity: caller.name().to_owned() };
        let mut record = record;
        loop {
            let Some(held) = store::find_lease(&self.pool, &lease).await? else {
                return Ok(Standing::Past);
            };
            let step = record.execution.step(index).cloned().unwrap_or_default();
            let next = step.rounds.saturating_add(1);
            let conflict = || turn_conflict(*turn, next);
            let open = step.wait.as_deref().is_some_and(|wait| wait.id == held.wait_id);
            if open {
                return match turn.cmp(&next) {
                    std::cmp::Ordering::Less => Ok(Standing::Past),
                    std::cmp::Ordering::Equal => Ok(Standing::Next(held)),
                    std::cmp::Ordering::Greater => Err(conflict()),
                };
            }
            if step.answered_wait == Some(held.wait_id) {
                let under_way = Ok(Standing::UnderWay(held.wait_id));
                return match &step.reply {
                    Some(reply) if *turn == next && reply.text == *text => under_way,
                    Some(_) if *turn >= next => Err(conflict()),
                    None if *turn == step.rounds => under_way,
                    None if *turn > step.rounds => Err(conflict()),
                    Some(_) | None => Ok(Standing::Past),
                };
            }
            // The row was read before the wait changed.
            record = self.find(caller, run_id).await?;
        }
    }

    /// The outcome of a turn that has ended before.
    async fn past(
        &self,
        caller: &Caller,
        index: usize,
        submission: &Submission,
    ) -> Result<TurnResult, Fault> {
        let record = self.find(caller, submission.run_id).await?;
        self.ended(caller, record, index, submission).await
    }

    async fn ended(
        &self,
        caller: &Caller,
        record: RunRecord,
        index: usize,
        submission: &Submission,
    ) -> Result<TurnResult, Fault> {
        let Submission { run_id, step_id, lease_epoch, .. } = submission;
        let step = record.execution.step(index).cloned().unwrap_or_default();
        let is_it = |event: &Event| is_turn(event, submission);
        let enough = |events: &[Event]| {
            events.iter().any(is_it) && is_complete(events, step_id, step.attempt)
        };
        let events = store::latest_events(&self.pool, *run_id, enough).await?;
        let lease = HeldLease {
            run_id: *run_id,
            lease_epoch: *lease_epoch,
            identity: caller.name().to_owned(),
        };
        let held = store::find_lease(&self.pool, &lease).await?;
        let Some(place) = events.iter().position(is_it) else {
            return self.without_turn(record, (index, step), held.is_some(), submission);
        };
        let (turn, receipts, output) = parts(events.get(place..).unwrap_or_default(), step_id);
        let digest = sha256_hex(submission.text.as_bytes());
        let same = turn.as_ref().and_then(|turn| turn.reply.as_ref());
        if same.is_some_and(|mark| mark.digest != digest) {
            let message = format!(
                "turn {} was submitted before with another decision; read the next turn's number",
                submission.turn
            );
            return Err(Fault::new(FaultCode::TurnConflict, message).with_field("turn"));
        }
        let observation = match receipts.last() {
            None => String::new(),
            Some(receipt) => {
                let text = text_of(&self.pool, output.as_ref()).await?;
                observation(receipt, output.as_ref(), text.as_deref()).text
            }
        };
        let waits = step.wait.as_deref().map(|wait| wait.id);
        let goes_on = held.is_some_and(|held| waits == Some(held.wait_id) && !held.answered);
        let next = match goes_on {
            true => Some(StepScene::of(&self.pool, record.clone(), index, &events).await?),
            false => None,
        };
        Ok(TurnResult { turn, is_pending: false, receipts, observation, record, step, next })
    }

    /// A submission without a turn in the journal: a limit ended the step before it, or it was never accepted.
    fn without_turn(
        &self,
        record: RunRecord,
        (index, step): (usize, StepProgress),
        held: bool,
        submission: &Submission,
    ) -> Result<TurnResult, Fault> {
        let Submission { step_id, turn, .. } = submission;
        if held {
            return Err(turn_conflict(*turn, step.rounds.saturating_add(1)));
        }
        if record.execution.state.is_terminal() && step.state == StepState::Cancelled {
            return Err(run_terminal(&record));
        }
        if step.state == StepState::Failed && *turn == step.rounds.saturating_add(1) {
            return Ok(TurnResult { is_pending: false, ..pending(record, index) });
        }
        Err(lease_lost(step_id))
    }
}

fn pending(record: RunRecord, index: usize) -> TurnResult {
    TurnResult {
        turn: None,
        is_pending: true,
        receipts: Vec::new(),
        observation: String::new(),
        step: record.execution.step(index).cloned().unwrap_or_default(),
        record,
        next: None,
    }
}

fn turn_conflict(turn: u32, next: u32) -> Fault {
    let message =
        format!("turn {turn} is not the next one, which is {next}, or it was submitted before");
    Fault::new(FaultCode::TurnConflict, message).with_field("turn")
}

/// Whether the answer to a wait is not carried out yet.
fn is_under_way(step: Option<&StepProgress>, wait_id: Uuid) -> bool {
    step.is_some_and(|step| {
        step.answered_wait == Some(wait_id)
            || step.wait.as_deref().is_some_and(|wait| wait.id == wait_id)
    })
}

fn is_turn(event: &Event, submission: &Submission) -> bool {
    let Entry::Turn(turn) = &event.entry else { return false };
    turn.step_id == submission.step_id
        && turn.number == submission.turn
        && turn.reply.as_ref().is_some_and(|mark| mark.lease_epoch == submission.lease_epoch)
}

/// The turn that these events begin with, and what it recorded until the step's next one.
fn parts(events: &[Event], step_id: &str) -> (Option<Turn>, Vec<EvidenceReceipt>, Option<Output>) {
    let (mut turn, mut receipts, mut output) = (None, Vec::new(), None);
    for event in events {
        match &event.entry {
            Entry::Turn(found) if found.step_id == step_id => match turn {
                None => turn = Some((**found).clone()),
                Some(_) => break,
            },
            Entry::Receipt(receipt)
                if receipt.step_id == step_id && receipt.source != EvidenceSource::Probe =>
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
            | Entry::Answer(_) => {}
        }
    }
    (turn, receipts, output)
}
