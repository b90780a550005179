//! One change of an execution before it is committed.

use super::wait_rows::{AnsweredWait, Before, WaitChanges};
use super::{Execution, Graph, Wait};
use crate::domain::journal::{Actor, Cause, Entry, Subject, Transition, Turn, TurnEnd};
use crate::domain::machine::Refusal;
use crate::domain::machine::run::{self, Phase, RunEvent, RunState};
use crate::domain::machine::step::{self, StepEvent};
use crate::domain::receipt::{EvidenceReceipt, Fact};
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, Terminal};
use chrono::{DateTime, Utc};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A change before it is committed: the row as it was read, the new row, and the journal entries.
#[derive(Debug, Clone)]
pub struct Draft {
    fence: Fence,
    read: Arc<Execution>,
    /// The time since when the run had been waiting for an executor; none when it was not.
    queued_at: Option<DateTime<Utc>>,
    /// Whether no ready step may start before a participant answers.
    is_held_up: bool,
    before: Before,
    pub(super) answered: Option<AnsweredWait>,
    /// Steps whose last turn goes on while their calls wait for workers.
    pub(super) open_turns: Vec<String>,
    pub(super) execution: Execution,
    entries: Vec<Entry>,
    ended_attempts: Vec<EndedAttempt>,
    pub(super) actor: Actor,
    pub(super) now: DateTime<Utc>,
}

/// How many entries the change has that ends one step and begins the next: a list that grows is copied.
const ENTRIES: usize = 8;

/// The values that a write must still find in the row; otherwise it is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The version that was read; 0 for a new row.
    pub version: i64,
    /// The lease epoch that was read.
    pub lease_epoch: i64,
}

/// An attempt of a step that began and has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedAttempt {
    /// How it ended.
    pub state: StepState,
    /// Its time that counts for the step's deadline.
    pub time: Duration,
}

/// One finished change, stored as a whole or not at all.
#[derive(Debug, Clone)]
pub struct Write {
    /// The condition of the write.
    pub fence: Fence,
    /// The row as it was read, or as the change before left it.
    pub read: Arc<Execution>,
    /// The new row. Shared, so that the next change can be derived from it before this one is
    /// committed.
    pub execution: Arc<Execution>,
    /// The events in order; the last one has the number `execution.sequence`.
    pub entries: Vec<Entry>,
    /// The attempts that the change ends.
    pub ended_attempts: Vec<EndedAttempt>,
    /// What the change means for the rows of waits.
    pub waits: WaitChanges,
    /// The actor of the change.
    pub actor: Actor,
}

impl Write {
    /// The number of the first entry.
    pub fn first_sequence(&self) -> i64 {
        self.execution.sequence - i64::try_from(self.entries.len()).unwrap_or(i64::MAX) + 1
    }
}

impl Draft {
    /// Begins a change of `execution` by `actor` at `now`.
    pub fn new(read: impl Into<Arc<Execution>>, actor: Actor, now: DateTime<Utc>) -> Self {
        let read = read.into();
        let execution = Execution::clone(&read);
        let fence = Fence { version: execution.version, lease_epoch: execution.lease_epoch };
        let queued_at = execution.ready_at.filter(|_| execution.lease_owner.is_none());
        let (before, answered) = (Before::of(&execution), None);
        let (entries, open_turns) = (Vec::with_capacity(ENTRIES), Vec::new());
        let is_held_up = false;
        Self {
            fence,
            read,
            queued_at,
            is_held_up,
            before,
            answered,
            open_turns,
            execution,
            entries,
            ended_attempts: Vec::new(),
            actor,
            now,
        }
    }

    /// The new execution.
    pub fn execution(&self) -> &Execution {
        &self.execution
    }

    /// The time of the change.
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// Changes the run's state and journals the transition.
    ///
    /// # Errors
    /// [`Refusal`] when the event changes nothing; the draft is unchanged.
    pub fn run_event(&mut self, event: RunEvent, cause: impl Into<Cause>) -> Result<(), Refusal> {
        let from = self.execution.state;
        let to = run::decide(from, event)?;
        self.execution.state = to;
        self.journal(Entry::Transition(Transition {
            subject: Subject::Run,
            from: from.as_str().into(),
            to: to.as_str().into(),
            event: event.as_str().into(),
            cause: cause.into(),
            actor: self.actor.clone(),
            stop_reason: self.execution.terminal.as_ref().map(|terminal| terminal.stop_reason),
        }));
        Ok(())
    }

    /// Does a part of the change in the name of the participant that supplied it, also where an executor goes on with
    /// what it supplied.
    pub(super) fn acting<T>(&mut self, by: Actor, part: impl FnOnce(&mut Self) -> T) -> T {
        let writer = std::mem::replace(&mut self.actor, by);
        let done = part(self);
        self.actor = writer;
        done
    }

    /// Changes a step's state and journals the transition.
    ///
    /// # Errors
    /// [`Refusal`] when the event changes nothing; the draft is unchanged.
    pub fn step_event(
        &mut self,
        graph: &Graph,
        index: usize,
        event: StepEvent,
        cause: impl Into<Cause>,
    ) -> Result<(), Refusal> {
        let progress = self.execution.step_mut(index).ok_or(Refusal::Meaningless)?;
        let from = progress.state;
        let to = step::decide(from, event)?;
        let cause: Cause = cause.into();
        progress.state = to;
        progress.finished_at = to.is_settled().then_some(self.now);
        if let Some(began) = progress.started_at.filter(|_| to.is_settled()) {
            let time = (self.now - began).to_std().unwrap_or_default();
            self.ended_attempts.push(EndedAttempt { state: to, time });
        }
        progress.reason = match to {
            StepState::Failed | StepState::Blocked => shortened(&cause),
            StepState::Pending
            | StepState::Ready
            | StepState::Running
            | StepState::Waiting
            | StepState::Done
            | StepState::Skipped
            | StepState::Cancelled => String::new(),
        };
        self.journal(Entry::Transition(Transition {
            subject: Subject::Step(graph.id(index).to_owned()),
            from: from.as_str().into(),
            to: to.as_str().into(),
            event: event.as_str().into(),
            cause,
            actor: self.actor.clone(),
            stop_reason: None,
        }));
        Ok(())
    }

    /// Journals an entry that changes no state.
    pub fn journal(&mut self, entry: Entry) {
        self.execution.sequence += 1;
        self.entries.push(entry);
    }

    /// Journals a receipt as the next link of the run's chain.
    pub fn receipt(&mut self, mut receipt: EvidenceReceipt) {
        let counters = &mut self.execution.counters;
        counters.receipts += 1;
        counters.wrote |= receipt.facts.iter().any(|fact| matches!(fact, Fact::FileWritten { .. }));
        receipt.seq = u64::from(counters.receipts);
        receipt.seal(std::mem::take(&mut counters.last_receipt_digest));
        counters.last_receipt_digest.clone_from(&receipt.digest);
        self.journal(Entry::Receipt(Box::new(receipt)));
    }

    /// Blocks the run on an external event and releases its lease, including running steps.
    ///
    /// # Errors
    /// [`Refusal`] when the run is terminal or blocked already.
    pub fn block(&mut self, graph: &Graph, wait: Wait) -> Result<(), Refusal> {
        self.stand_still(graph, &wait)?;
        match &mut self.execution.paused {
            Some(paused) if wait.step_index.is_none() => paused.behind = Some(Box::new(wait)),
            Some(_) => {}
            None => self.execution.wait = Some(Box::new(wait)),
        }
        self.show_wait();
        Ok(())
    }

    /// Blocks the run without running steps. The caller sets the wait.
    pub(super) fn stand_still(&mut self, graph: &Graph, wait: &Wait) -> Result<(), Refusal> {
        run::decide(self.execution.state, RunEvent::Blocked)?;
        let cause = format!("waits on {}: {}", wait.waiting_on.as_str(), wait.unblocks);
        self.give_steps_back(graph, cause.clone())?;
        self.run_event(RunEvent::Blocked, cause)?;
        if let Some(paused) = &mut self.execution.paused {
            paused.rests_since.get_or_insert(self.now);
        }
        self.release();
        Ok(())
    }

    /// Unblocks the run: it returns to the phase it left, and to RECOVERING when a step failed in
    /// between. A run that is to be paused is blocked again.
    ///
    /// # Errors
    /// [`Refusal`] when the run is not blocked.
    pub fn unblock(&mut self, graph: &Graph, cause: impl Into<Cause>) -> Result<(), Refusal> {
        self.run_event(RunEvent::Unblocked, cause)?;
        self.execution.wait = None;
        if let Some(paused) = &mut self.execution.paused {
            paused.behind = None;
        }
        self.show_wait();
        self.settle(graph)
    }

    /// Shows the run's first wait.
    pub(super) fn show_wait(&mut self) {
        let first = self.execution.waits().next().cloned();
        self.execution.wait = first.map(Box::new);
    }

    /// Ends the run as FAILED.
    ///
    /// # Errors
    /// [`Refusal::Terminal`] when it has ended already: the first terminal state stays.
    pub fn stop(&mut self, graph: &Graph, end: Ending) -> Result<(), Refusal> {
        self.end(graph, RunEvent::Stopped, end)
    }

    /// Ends the run as CANCELLED.
    ///
    /// # Errors
    /// [`Refusal::Terminal`] when it has ended already: the first terminal state stays.
    pub fn cancel(&mut self, graph: &Graph, user_message: String) -> Result<(), Refusal> {
        let end = Ending {
            stop_reason: StopReason::Cancelled,
            internal_reason: user_message.clone(),
            user_message,
        };
        self.end(graph, RunEvent::CancelRequested, end)
    }

    /// Ends the run as DONE, which requires an accepting verdict.
    ///
    /// # Errors
    /// [`Refusal`] unless the run is being verified.
    pub fn accept(&mut self, graph: &Graph) -> Result<(), Refusal> {
        let end = Ending {
            stop_reason: StopReason::Accepted,
            user_message: "Every required check holds.".to_owned(),
            internal_reason: String::new(),
        };
        self.end(graph, RunEvent::VerdictAccepted, end)
    }

    fn end(&mut self, graph: &Graph, event: RunEvent, end: Ending) -> Result<(), Refusal> {
        run::decide(self.execution.state, event)?;
        let stage = stage(self.execution.state).to_owned();
        let cause = end.user_message.clone();
        self.settle_plan(None, false);
        self.cancel_open_steps(graph)?;
        self.execution.wait = None;
        self.execution.paused = None;
        self.execution.terminal = Some(Box::new(Terminal {
            stop_reason: end.stop_reason,
            stage,
            user_message: end.user_message,
            internal_reason: end.internal_reason,
            abort_code: String::new(),
        }));
        self.run_event(event, cause)?;
        self.execution.deadline_at = None;
        self.release();
        Ok(())
    }

    fn cancel_open_steps(&mut self, graph: &Graph) -> Result<(), Refusal> {
        for index in 0..self.execution.steps.len() {
            self.forget_waits(index);
            if self.execution.step(index).is_some_and(|step| !step.state.is_settled()) {
                self.step_event(graph, index, StepEvent::Cancelled, "the run ended")?;
            }
        }
        Ok(())
    }

    /// Leases the run to an executor under a new fencing token.
    pub fn lease(&mut self, owner: Uuid) {
        self.execution.lease_owner = Some(owner);
        self.execution.lease_epoch += 1;
    }

    /// Releases the run's lease.
    pub fn release(&mut self) {
        self.execution.lease_owner = None;
    }

    /// Releases a run of which no step can start before a participant answers: that answer makes it ready again. An
    /// executor that kept it, or claimed it, would find no work in it until then.
    pub(super) fn release_until_answered(&mut self) {
        self.is_held_up = true;
        self.release();
    }

    /// Whether anything was journalled.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Closes the change.
    pub fn into_write(mut self) -> Write {
        end_turns(&mut self.entries, &self.open_turns);
        self.execution.version = self.fence.version + 1;
        self.execution.updated_at = self.now;
        // A leased row keeps its ready_at, so that its index needs no update.
        if self.execution.lease_owner.is_none() {
            // A run that was already waiting keeps its position in the queue.
            let since = self.queued_at.unwrap_or(self.now);
            let has_work = self.execution.needs_executor() && !self.is_held_up;
            self.execution.ready_at = has_work.then_some(since);
        }
        let changed = WaitChanges::between(&self.before, &self.execution);
        Write {
            waits: WaitChanges { answered: self.answered, ..changed },
            fence: self.fence,
            read: self.read,
            execution: Arc::new(self.execution),
            entries: self.entries,
            ended_attempts: self.ended_attempts,
            actor: self.actor,
        }
    }
}

/// Why a run ends, with the messages about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The reason.
    pub stop_reason: StopReason,
    /// The message for the user.
    pub user_message: String,
    /// The message for the operator; may be empty.
    pub internal_reason: String,
}

impl Ending {
    /// The end of a run whose deadline of `run_deadline_s` seconds has passed.
    pub fn late(run_deadline_s: u64) -> Self {
        Self {
            stop_reason: StopReason::DeadlineExceeded,
            user_message: "The run's deadline passed.".to_owned(),
            internal_reason: format!("run_deadline_s is {run_deadline_s}"),
        }
    }
}

/// Says of each turn what it led to: what moved behind it, up to the step's next turn.
fn end_turns(entries: &mut [Entry], open: &[String]) {
    for place in 0..entries.len() {
        let Some((entry, later)) = entries.get_mut(place..).and_then(<[Entry]>::split_first_mut)
        else {
            return;
        };
        if let Entry::Turn(turn) = entry {
            let end = turn_end(turn, later);
            turn.end = end.filter(|end| *end != TurnEnd::Waiting || !open.contains(&turn.step_id));
        }
    }
}

fn turn_end(turn: &Turn, later: &[Entry]) -> Option<TurnEnd> {
    let mut end = None;
    for entry in later {
        match entry {
            Entry::Transition(moved) => match &moved.subject {
                Subject::Run if moved.stop_reason.is_some() => return Some(TurnEnd::RunEnded),
                Subject::Step(id) if *id == turn.step_id => {
                    end = TurnEnd::of(&moved.to).or(end);
                }
                Subject::Run | Subject::Step(_) => {}
            },
            Entry::Turn(next) if next.step_id == turn.step_id => return end,
            Entry::Turn(_)
            | Entry::Plan(_)
            | Entry::Intent(_)
            | Entry::Receipt(_)
            | Entry::Output(_)
            | Entry::Verdict(_)
            | Entry::Answer(_)
            | Entry::Forked(_) => {}
        }
    }
    end
}

/// Bytes of a reason that the row keeps; the journal has all of it.
const REASON_BYTES: usize = 500;

fn shortened(reason: &str) -> String {
    if reason.len() <= REASON_BYTES {
        return reason.to_owned();
    }
    let end = reason.floor_char_boundary(REASON_BYTES - '…'.len_utf8());
    format!("{}…", reason.get(..end).unwrap_or_default())
}

/// The state that a run left, as the stage of its end: lower case, for a blocked run its phase.
fn stage(state: RunState) -> &'static str {
    match state.blocked_in().map_or(state, Phase::state) {
        RunState::Intake => "intake",
        RunState::Planning => "planning",
        RunState::Executing => "executing",
        RunState::Verifying => "verifying",
        RunState::Recovering => "recovering",
        RunState::Blocked(_) | RunState::Done | RunState::Failed | RunState::Cancelled => "",
    }
}
