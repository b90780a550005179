//! One submitted decision: stored, followed to the end of its turn, and answered.
//!
//! ```text
//!   which turn is it? --the next--> store the reply --> follow the turn --> its outcome
//!                     --under way---------------------------^
//!                     --past, the same text----------> the stored outcome
//!                     --else--> turn_conflict, lease_lost
//! ```

use super::news::Follower;
use super::recent_steps::KnownStep;
use super::scene::{StepScene, text_of};
use super::submission::Submission;
use super::turn_rows::{is_cut_off, is_turn, is_under_way, parts, rests};
use super::{Participants, index_of, lease_lost, lease_of_another, not_found, run_terminal};
use crate::context::{is_complete, observation};
use crate::step::SupplyError;
use chrono::TimeDelta;
use surety_common::clock;
use surety_common::domain::execution::{Execution, StepProgress, SuppliedReply};
use surety_common::domain::fault::{Fault, FaultCode};
use surety_common::domain::identity::Object;
use surety_common::domain::journal::{Actor, Entry, Event, Turn};
use surety_common::domain::json::sha256_hex;
use surety_common::domain::problem::{Code, Problem};
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::run::RunRecord;
use surety_common::domain::step::StepState;
use surety_common::store::{self, HeldLease, StoredLease};
use surety_common::wire::caller::Caller;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

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
    Next(RunRecord, StoredLease),
    /// It is stored, and carried out now.
    UnderWay(Uuid),
    /// It has ended.
    Past(RunRecord),
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
        let deadline = Instant::now() + self.turn_wait;
        if let Some(known) = self.known_step(caller, &submission) {
            let reply = reply(caller, known.wait_id, &submission);
            let taken = self.claimer.take_at_once(&known.record, &reply, TimeDelta::zero()).await;
            // What is wrong with it is said by what the rows say.
            if let Ok(Some(over)) = taken
                && let Some(ended) = known.followed(&follower, over, deadline).await
                // A limit may have ended the step without the turn.
                && ended.known.events.iter().any(|event| is_turn(event, &submission))
            {
                return self.concluded(ended, &submission).await;
            }
        }
        loop {
            let record = self.find(caller, submission.run_id).await?;
            let index = index_of(&record, &submission.step_id)?;
            match self.standing(caller, record, index, &submission).await? {
                Standing::Past(record) => {
                    return self.ended(caller, record, index, &submission).await;
                }
                Standing::UnderWay(wait_id) => {
                    let (until, wanted) = ((&follower, deadline), (index, wait_id));
                    return self.await_end(caller, until, wanted, &submission).await;
                }
                Standing::Next(record, _) if Instant::now() >= deadline => {
                    return Ok(pending(record, index));
                }
                Standing::Next(record, held) => {
                    let reply = reply(caller, held.wait_id, &submission);
                    let unleased = held.unleased;
                    let taken = self.claimer.take_at_once(&record, &reply, unleased).await;
                    match taken.map_err(|error| fault(error, &submission))? {
                        Some(over) => {
                            let (identity, wait_id) = (reply.by, held.wait_id);
                            let events = Vec::new();
                            let known = KnownStep { identity, wait_id, record, index, events };
                            // The rows say whether it was taken, and what it came to.
                            drop(known.followed(&follower, over, deadline).await);
                        }
                        None => {
                            let by = Actor(format!("driver/{}", caller.name()).into());
                            let supplied =
                                self.replies.supply(record.spec.id, reply, unleased, &by);
                            match supplied.await {
                                Ok(()) => drop(timeout_at(deadline, follower.changed()).await),
                                // It was submitted twice at a time, or the step ended: the rows say which.
                                Err(SupplyError::WaitClosed { .. }) => {}
                                Err(error) => return Err(fault(error, &submission)),
                            }
                        }
                    }
                }
            }
        }
    }

    /// What is known of the step of the next turn, without a read.
    fn known_step(&self, caller: &Caller, submission: &Submission) -> Option<KnownStep> {
        self.recent.take(submission.lease_epoch, |known| {
            let KnownStep { identity, record, .. } = known;
            let RunRecord { spec, execution, .. } = record;
            let rounds = execution.step(known.index).map(|step| step.rounds.saturating_add(1));
            let planned = record.plan.as_deref().and_then(|plan| plan.steps.get(known.index));
            identity == caller.name()
                && spec.id == submission.run_id
                && planned.is_some_and(|step| step.id == submission.step_id)
                && rounds == Some(submission.turn)
                && caller.may(&Object::namespace(&spec.namespace), || not_found(spec.id)).is_ok()
        })
    }

    /// Follows a turn that is under way by the rows.
    async fn await_end(
        &self,
        caller: &Caller,
        (follower, deadline): (&Follower, Instant),
        (index, wait_id): (usize, Uuid),
        submission: &Submission,
    ) -> Result<TurnResult, Fault> {
        let mut is_compared = false;
        loop {
            let record = self.find(caller, submission.run_id).await?;
            let step = record.execution.step(index);
            if !is_under_way(step, wait_id) || rests(&record.execution, index, submission.turn) {
                return self.ended(caller, record, index, submission).await;
            }
            // The turn has taken its reply, so the journal says which one it was.
            if !is_compared && step.is_some_and(|step| step.reply.is_none()) {
                self.refuse_another(submission).await?;
                is_compared = true;
            }
            if timeout_at(deadline, follower.changed()).await.is_err() {
                return Ok(pending(record, index));
            }
        }
    }

    /// Refuses another decision than that of a turn that is journalled, and whose call is under way.
    async fn refuse_another(&self, submission: &Submission) -> Result<(), Fault> {
        let is_it = |event: &Event| is_turn(event, submission);
        let enough = |events: &[Event]| events.iter().any(is_it);
        let events = store::latest_events(&self.pool, submission.run_id, enough).await?;
        match events.iter().find(|event| is_it(event)).map(|event| &event.entry) {
            Some(Entry::Turn(turn)) => refuse_other_reply(turn, submission),
            Some(_) | None => Ok(()),
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
        let Submission { run_id, turn, text, .. } = submission;
        let lease = held_lease(caller, submission);
        let mut record = record;
        let mut before = None;
        loop {
            let Some(held) = store::find_lease(&self.pool, &lease, clock::now()).await? else {
                return Ok(Standing::Past(record));
            };
            let step = record.execution.step(index).cloned().unwrap_or_default();
            let next = step.rounds.saturating_add(1);
            let conflict = || turn_conflict(*turn, next);
            let open = step.wait.as_deref().is_some_and(|wait| wait.id == held.wait_id);
            if open {
                return match turn.cmp(&next) {
                    std::cmp::Ordering::Less => Ok(Standing::Past(record)),
                    std::cmp::Ordering::Equal => Ok(Standing::Next(record, held)),
                    std::cmp::Ordering::Greater => Err(conflict()),
                };
            }
            if step.answered_wait == Some(held.wait_id) {
                let under_way = Ok(Standing::UnderWay(held.wait_id));
                return match &step.reply {
                    Some(reply) if *turn == next && reply.text == *text => under_way,
                    Some(_) if *turn >= next => Err(conflict()),
                    None if *turn == step.rounds => under_way,
                    None if *turn == next => Err(not_asked_yet(next)),
                    None if *turn > next => Err(conflict()),
                    Some(_) | None => Ok(Standing::Past(record)),
                };
            }
            // A wait and its step change together, so a row that was read between two reads of one wait shows it.
            if before == Some(held.wait_id) {
                return Err(lease_of_another(&submission.step_id));
            }
            before = Some(held.wait_id);
            // The row was read before the wait changed.
            record = self.find(caller, *run_id).await?;
        }
    }

    /// The outcome of a turn that has ended, from the rows.
    async fn ended(
        &self,
        caller: &Caller,
        record: RunRecord,
        index: usize,
        submission: &Submission,
    ) -> Result<TurnResult, Fault> {
        let Submission { run_id, step_id, .. } = submission;
        let step = record.execution.step(index).cloned().unwrap_or_default();
        let is_it = |event: &Event| is_turn(event, submission);
        let enough = |events: &[Event]| {
            events.iter().any(is_it) && is_complete(events, step_id, step.attempt)
        };
        let events = store::latest_events(&self.pool, *run_id, enough).await?;
        let lease = held_lease(caller, submission);
        let held = store::find_lease(&self.pool, &lease, clock::now()).await?;
        if !events.iter().any(is_it) {
            return without_turn(record, (index, step), held.is_some(), submission);
        }
        let waits = step.wait.as_deref().map(|wait| wait.id);
        let goes_on = |held: &StoredLease| waits == Some(held.wait_id) && !held.answered;
        let next_wait = held.filter(goes_on).map(|held| held.wait_id);
        let (identity, wait_id) = (caller.name().to_owned(), next_wait.unwrap_or_default());
        // This executor may not know the tools of workers that are connected to others.
        self.workshop.tools.refresh().await;
        let known = KnownStep { identity, wait_id, record, index, events };
        self.concluded(Ended { known, goes_on: next_wait.is_some() }, submission).await
    }

    /// The outcome of a turn that is among the events of its step.
    async fn concluded(&self, ended: Ended, submission: &Submission) -> Result<TurnResult, Fault> {
        let Ended { known, goes_on } = ended;
        let KnownStep { record, index, events, .. } = &known;
        let step = record.execution.step(*index).cloned().unwrap_or_default();
        let place = events.iter().position(|event| is_turn(event, submission)).unwrap_or_default();
        let shown = events.get(place..).unwrap_or_default();
        let (turn, receipts, output) = parts(shown, &submission.step_id);
        if let Some(turn) = &turn {
            refuse_other_reply(turn, submission)?;
        }
        if !goes_on && is_cut_off(record.execution.state, &step) {
            return Err(lease_lost(&submission.step_id));
        }
        let observation = match receipts.last() {
            None => String::new(),
            Some(receipt) => {
                let text = text_of(&self.pool, output.as_ref()).await?;
                observation(receipt, output.as_ref(), text.as_deref()).text
            }
        };
        let next = match goes_on {
            true => Some(StepScene::of(&self.pool, record.clone(), *index, events).await?),
            false => None,
        };
        let record = record.clone();
        if goes_on {
            self.recent.keep(submission.lease_epoch, known);
        }
        Ok(TurnResult { turn, is_pending: false, receipts, observation, record, step, next })
    }
}

/// A turn that has ended, and whether its participant holds the lease of the next one.
struct Ended {
    known: KnownStep,
    goes_on: bool,
}

impl KnownStep {
    /// Follows a turn that this process works on, until it is stored that the step waits no longer for it. None
    /// when the rows have to be read: something else changed the run, or the work is `over` before.
    async fn followed(
        mut self,
        follower: &Follower,
        mut over: JoinHandle<()>,
        deadline: Instant,
    ) -> Option<Ended> {
        let plan_revision = self.record.execution.plan_revision;
        let mut version = self.record.execution.version;
        let mut is_over = false;
        loop {
            let change = tokio::select! {
                biased;
                change = follower.stored() => change,
                _ = &mut over, if !is_over => {
                    is_over = true;
                    continue;
                }
                // The changes of the work were passed on before it was over.
                () = std::future::ready(()), if is_over => return None,
                () = sleep_until(deadline) => return None,
            };
            // It was stored before the row was read.
            if change.execution.version <= version {
                continue;
            }
            if change.read_version != version || change.execution.plan_revision != plan_revision {
                return None;
            }
            version = change.execution.version;
            self.events.extend(change.events());
            if !is_under_way(change.execution.step(self.index), self.wait_id) {
                let opened = change.opened.iter().find(|wait| wait.follows == Some(self.wait_id));
                let goes_on = opened.is_some();
                self.wait_id = opened.map(|wait| wait.id).unwrap_or_default();
                self.record.execution = Execution::clone(&change.execution);
                return Some(Ended { known: self, goes_on });
            }
        }
    }
}

fn held_lease(caller: &Caller, submission: &Submission) -> HeldLease {
    let Submission { run_id, lease_epoch, .. } = submission;
    HeldLease { run_id: *run_id, lease_epoch: *lease_epoch, identity: caller.name().to_owned() }
}

fn reply(caller: &Caller, wait_id: Uuid, submission: &Submission) -> SuppliedReply {
    let Submission { lease_epoch, text, usage, trace_parent, model, .. } = submission;
    SuppliedReply {
        wait_id,
        lease_epoch: *lease_epoch,
        text: text.clone(),
        usage: *usage,
        trace_parent: trace_parent.clone(),
        by: caller.name().to_owned(),
        model: model.clone(),
    }
}

fn fault(error: SupplyError, submission: &Submission) -> Fault {
    match error {
        SupplyError::RunNotFound(_) | SupplyError::LeaseLost { .. } => {
            lease_lost(&submission.step_id)
        }
        // The same decision was submitted twice at a time, or the step ended.
        error @ SupplyError::WaitClosed { .. } => {
            Fault::new(FaultCode::TurnConflict, error.to_string()).with_field("turn")
        }
        error @ SupplyError::TooLarge { .. } => {
            Problem::at(Code::TooLarge, "raw", error.to_string()).into()
        }
        SupplyError::Store(error) => error.into(),
    }
}

/// A submission without a turn in the journal: a limit ended the step before it, or it was never accepted.
fn without_turn(
    record: RunRecord,
    (index, step): (usize, StepProgress),
    held: bool,
    submission: &Submission,
) -> Result<TurnResult, Fault> {
    let Submission { step_id, turn, .. } = submission;
    let next = step.rounds.saturating_add(1);
    if held {
        return Err(if *turn == next { not_asked_yet(next) } else { turn_conflict(*turn, next) });
    }
    if record.execution.state.is_terminal() && step.state == StepState::Cancelled {
        return Err(run_terminal(&record));
    }
    if step.state == StepState::Failed && *turn == next {
        return Ok(TurnResult { is_pending: false, ..pending(record, index) });
    }
    Err(lease_lost(step_id))
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

/// The step still has its last answer, as in a pause: the next turn is asked for when the run goes on.
fn not_asked_yet(turn: u32) -> Fault {
    let message = format!(
        "turn {turn} is the next one, and the step does not ask for it yet, as while the run is paused; submit it \
         again when the run goes on"
    );
    Fault::new(FaultCode::TurnConflict, message).with_field("turn")
}

/// Refuses a decision for a turn that was taken from another one.
fn refuse_other_reply(turn: &Turn, submission: &Submission) -> Result<(), Fault> {
    let digest = sha256_hex(submission.text.as_bytes());
    if turn.reply.as_ref().is_none_or(|mark| mark.digest == digest) {
        return Ok(());
    }
    let message = format!(
        "turn {} was submitted before with another decision; read the next turn's number",
        submission.turn
    );
    Err(Fault::new(FaultCode::TurnConflict, message).with_field("turn"))
}
