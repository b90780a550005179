//! What a turn changes: its count, its call, and the reply that it was taken from.
//!
//! ```text
//!   await_reply --> (the step waits, the run holds no lease) --> supply_reply
//!        ^                                                            |
//!        |                                     record_turn <----------+
//!        +---- corrected, reminded <----------- | applied
//!                                   open_call --> close_call
//! ```
//!
//! Every operation names its step and journals what it did, so that the row and the journal cannot
//! disagree.

use super::draft::{Draft, Ending};
use super::wait_rows::AnsweredWait;
use super::{CallAnswer, Execution, Graph, OpenCall, StepProgress, SuppliedReply, Wait};
use crate::domain::decision::{Abort, ExecuteDecision, Usage, UsageSource};
use crate::domain::fault::FaultCode;
use crate::domain::journal::{
    Actor, Entry, Intent, Output, ReplyMark, TaskHistory, Turn, Validation, VerdictRecord,
};
use crate::domain::json::sha256_hex;
use crate::domain::machine::Refusal;
use crate::domain::problem::{Problem, Warning};
use crate::domain::receipt::EvidenceReceipt;
use crate::domain::step::StepState;
use crate::domain::stop::StopReason;
use crate::domain::todo::{Todo, TodoChange};
use chrono::TimeDelta;
use uuid::Uuid;

/// One turn as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRecord {
    /// The decision; none where the reply held none.
    pub decision: Option<ExecuteDecision>,
    /// The validations; `shape` alone where the reply could not be read, none where it held no decision.
    pub validations: Vec<Validation>,
    /// What was corrected in the decision before it was validated.
    pub warnings: Vec<Warning>,
    /// The outcome.
    pub outcome: TurnOutcome,
    /// The cost of a reply that the driver gave at once. Of a supplied reply the cost is known from itself.
    pub usage: Usage,
}

/// The outcome of a turn, with its consecutive count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The decision is applied.
    Applied,
    /// The decision is refused, and the driver gets this correction.
    Corrected {
        /// The correction for the driver.
        notice: String,
        /// Consecutive refusals, including this one.
        in_a_row: u32,
    },
    /// The reply held no decision, and the driver gets this reminder.
    Reminded {
        /// The reminder for the driver; empty when the run stops.
        notice: String,
        /// Replies with text and no decision since the last tool call.
        missing_completions: u32,
        /// Replies that contain only thinking since the last tool call.
        thinking_only: u32,
    },
}

impl TurnOutcome {
    fn notice(&self) -> &str {
        match self {
            Self::Applied => "",
            Self::Corrected { notice, .. } | Self::Reminded { notice, .. } => notice,
        }
    }
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedCall {
    /// What the runner recorded.
    pub receipt: EvidenceReceipt,
    /// The output; none when the call printed nothing.
    pub output: Option<Output>,
    /// Whether the receipt counts as evidence for its step.
    pub proves: bool,
}

impl Draft {
    fn step_mut(&mut self, index: usize) -> Result<&mut StepProgress, Refusal> {
        self.execution.step_mut(index).ok_or(Refusal::Meaningless)
    }

    /// Counts a turn of a step and journals it. The reply that it was taken from is used up, and what was reserved for it
    /// and not used is offered to the steps that wait for a budget.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn record_turn(
        &mut self,
        graph: &Graph,
        index: usize,
        record: TurnRecord,
    ) -> Result<(), Refusal> {
        let TurnRecord { decision, validations, warnings, outcome, usage } = record;
        let progress = self.step_mut(index)?;
        progress.rounds += 1;
        let reserved = std::mem::take(&mut progress.reserved);
        let supplied = progress.reply.take();
        let (usage, usage_source) = match supplied.as_deref() {
            None => (usage, UsageSource::Free),
            Some(reply) => reply.usage_of().unwrap_or((reserved, UsageSource::Reserved)),
        };
        let reply = supplied.map(|reply| ReplyMark {
            lease_epoch: reply.lease_epoch,
            digest: sha256_hex(reply.text.as_bytes()),
            model: reply.model,
        });
        progress.notice.clear();
        progress.notice.push_str(outcome.notice());
        match &outcome {
            TurnOutcome::Applied => {
                progress.corrections = 0;
                if decision.as_ref().is_some_and(|decision| decision.tool_call.is_some()) {
                    progress.missing_completions = 0;
                    progress.thinking_only = 0;
                }
            }
            TurnOutcome::Corrected { in_a_row, .. } => progress.corrections = *in_a_row,
            TurnOutcome::Reminded { missing_completions, thinking_only, .. } => {
                progress.missing_completions = *missing_completions;
                progress.thinking_only = *thinking_only;
            }
        }
        let turn = Turn {
            step_id: graph.id(index).to_owned(),
            attempt: progress.attempt,
            number: progress.rounds,
            decision,
            validations,
            warnings,
            correction: outcome.notice().to_owned(),
            usage,
            usage_source,
            reply,
            end: None,
        };
        let counters = &mut self.execution.counters;
        counters.rounds += 1;
        counters.charge(usage, usage_source);
        self.journal(Entry::Turn(Box::new(turn)));
        // The call of this turn may take long, and another step may wait for what the turn did not use.
        if reserved.is_zero() { Ok(()) } else { self.offer_released_budget(graph) }
    }

    /// Adds a reminder that the driver gets with its next turn.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn remind(&mut self, index: usize, notice: &str) -> Result<(), Refusal> {
        notice.clone_into(&mut self.step_mut(index)?.notice);
        Ok(())
    }

    /// Journals the intent of a call before it starts; until [`Draft::close_call`] it has no outcome.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn open_call(
        &mut self,
        graph: &Graph,
        index: usize,
        call: OpenCall,
    ) -> Result<(), Refusal> {
        self.journal(Entry::Intent(Intent {
            step_id: graph.id(index).to_owned(),
            call_id: call.call_id,
            tool: call.tool.clone(),
            arguments_json: call.arguments_json.clone(),
        }));
        self.step_mut(index)?.open_call = Some(Box::new(call));
        Ok(())
    }

    /// Records the outcome of a call and counts it.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn close_call(&mut self, index: usize, closed: ClosedCall) -> Result<(), Refusal> {
        let ClosedCall { receipt, output, proves } = closed;
        let (success, tool) = (receipt.success, receipt.name.clone());
        self.receipt(receipt);
        if let Some(output) = output {
            self.journal(Entry::Output(output));
        }
        self.execution.counters.tool_calls += 1;
        let progress = self.step_mut(index)?;
        progress.open_call = None;
        progress.sleep = None;
        progress.worker_call = None;
        progress.answer = None;
        progress.answered_by.clear();
        progress.tool_calls += 1;
        if progress.answered_wait.is_some() {
            *progress.called.entry(tool).or_default() += 1;
        }
        progress.script_position += u32::from(success);
        progress.proofs += u32::from(proves);
        Ok(())
    }

    /// Makes and changes todos of the run, all or none, and returns all of them. `own` are the todos of the
    /// plan. The turn that the caller records says what was asked.
    ///
    /// # Errors
    /// Those of [`RunTodos::apply`](crate::domain::todo::RunTodos::apply); then nothing is changed.
    pub fn change_todos(
        &mut self,
        own: &[Todo],
        change: &TodoChange,
    ) -> Result<Vec<Todo>, Problem> {
        let (now, revision) = (self.now, self.execution.plan_revision);
        self.execution.todos.apply((own, revision), now, change)?;
        Ok(self.execution.todos.current(own))
    }

    /// Stores a user's answer about the open call of a step, or removes it when it is used. A step
    /// without an open call stores none: the same words must not decide about a later call.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when there is no such step.
    pub fn answer_call(
        &mut self,
        index: usize,
        answer: Option<(CallAnswer, &Actor)>,
    ) -> Result<(), Refusal> {
        let progress = self.step_mut(index)?;
        let kept = answer.filter(|_| progress.open_call.is_some());
        progress.answer = kept.map(|(answer, _)| answer);
        progress.answered_by = kept.map(|(_, by)| by.0.to_string()).unwrap_or_default();
        Ok(())
    }

    /// Stores the state of a step's repeat detector; a done step has none.
    pub fn remember_fuses(&mut self, index: usize, fuses: serde_json::Value) {
        let step = self.execution.step_mut(index);
        if let Some(step) = step.filter(|step| step.state != StepState::Done) {
            step.fuses = fuses;
        }
    }

    /// Makes a step wait for its driver. Once no other step of the run is running, the run holds no
    /// lease and stays in EXECUTING.
    ///
    /// # Errors
    /// [`Refusal`] unless the step is running.
    pub fn await_reply(&mut self, graph: &Graph, index: usize, wait: Wait) -> Result<(), Refusal> {
        self.pause_step(graph, index, wait)
    }

    /// Stores a driver's reply to a wait; its step becomes ready. This is the only function for a
    /// late reply. The time for which no participant had leased the wait does not count for the step's deadline.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when no step waits for its driver under this id.
    pub fn supply_reply(
        &mut self,
        graph: &Graph,
        reply: SuppliedReply,
        unleased: TimeDelta,
    ) -> Result<(), Refusal> {
        let index = awaited(&self.execution, reply.wait_id).ok_or(Refusal::Meaningless)?;
        let SuppliedReply { wait_id, lease_epoch, .. } = reply;
        self.answered = Some(AnsweredWait { id: wait_id, lease_epoch });
        let progress = self.step_mut(index)?;
        // The wait for an endpoint that does not answer is given back whole.
        if progress.wait.as_deref().is_some_and(|wait| wait.waiting_on.keeps_executing()) {
            progress.started_at = progress.started_at.map(|at| at + unleased);
        }
        let identity = reply.by.clone();
        progress.reply = Some(Box::new(reply));
        progress.answered_wait = Some(wait_id);
        progress.answered_by_model =
            progress.wait.as_deref().is_some_and(|wait| wait.model.is_some());
        self.execution.counters.decided_by(&identity);
        let by = Actor(format!("driver/{identity}").into());
        self.acting(by, |draft| draft.resume_step(graph, index, "the driver replied"))
    }

    /// Lets the change apply only while the run's own wait is leased under this token, by a participant with this identity.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] when the run itself waits for nothing.
    pub fn answer_under(&mut self, lease_epoch: i64, identity: &str) -> Result<(), Refusal> {
        let id = self.execution.own_wait().ok_or(Refusal::Meaningless)?.id;
        self.execution.counters.decided_by(identity);
        self.answered = Some(AnsweredWait { id, lease_epoch });
        Ok(())
    }

    /// Records a receipt that a worker reported about a step that is under way.
    ///
    /// # Errors
    /// [`Refusal::Meaningless`] unless the step is ready, running or waiting.
    pub fn record_report(
        &mut self,
        index: usize,
        receipt: EvidenceReceipt,
        proves: bool,
    ) -> Result<(), Refusal> {
        let progress = self.step_mut(index)?;
        if !matches!(progress.state, StepState::Ready | StepState::Running | StepState::Waiting) {
            return Err(Refusal::Meaningless);
        }
        progress.proofs += u32::from(proves);
        self.receipt(receipt);
        Ok(())
    }

    /// Ends the run because its driver aborts. The driver's own code stays beside the reason.
    ///
    /// # Errors
    /// [`Refusal::Terminal`] when it has ended already.
    pub fn abort(&mut self, graph: &Graph, abort: Abort) -> Result<(), Refusal> {
        let Abort { code, user_message, internal_reason } = abort;
        // A run that the service ends has the code of a fault here. A driver must not pass for the service.
        let internal_reason = match FaultCode::from_text(&internal_reason) {
            Some(_) => format!("said by the driver: {internal_reason}"),
            None => internal_reason,
        };
        let stop_reason = StopReason::Aborted;
        self.stop(graph, Ending { stop_reason, user_message, internal_reason })?;
        if let Some(terminal) = &mut self.execution.terminal {
            terminal.abort_code = code;
        }
        Ok(())
    }

    /// Keeps the text with which the driver ended the work.
    pub fn set_final_answer(&mut self, text: &str) {
        text.clone_into(&mut self.execution.counters.final_answer);
    }

    /// Names the artifact that holds the manifest of the workspace before the first call that can
    /// write.
    pub fn set_base_snapshot(&mut self, artifact: &str) {
        artifact.clone_into(&mut self.execution.counters.base_snapshot);
    }

    /// Records whether the runner's observations of the present work are complete.
    pub fn set_observed(&mut self, complete: bool) {
        self.execution.counters.observed = complete;
    }

    /// Binds the history of the run's task, whose report the change takes, to the run. The change journals a transition.
    pub fn take_history(&mut self, history: TaskHistory) {
        self.execution.counters.history = Some(Box::new(history));
    }

    /// Journals a verdict as the run's latest.
    pub fn record_verdict(&mut self, verdict: VerdictRecord) {
        self.journal(Entry::Verdict(Box::new(verdict)));
        self.execution.counters.verdict_sequence = self.execution.sequence;
    }
}

/// The step that waits for its driver under this id.
fn awaited(execution: &Execution, wait_id: Uuid) -> Option<usize> {
    execution.steps_in(StepState::Waiting).find(|index| {
        let step = execution.steps.get(*index);
        let wait = step.and_then(|step| step.wait.as_deref());
        wait.is_some_and(|wait| wait.id == wait_id && wait.kind().is_decision())
    })
}
