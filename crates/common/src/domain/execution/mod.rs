//! The execution of a run: its whole mutable state, as one aggregate with one version.
//!
//! ```text
//!   Execution --Draft::new--> Draft --events, entries--> Draft --into_write--> Write
//!   (as read)                 (one change)                          (fence, new row, journal)
//! ```
//!
//! A [`draft::Draft`] is the only way to change an [`Execution`]. Each transition is decided by
//! [`machine`](super::machine) and journalled, so that no state is set without a record.

pub mod budget;
mod confirmation;
pub mod deaths;
mod doubt;
pub mod draft;
mod fork;
mod grants;
mod model;
mod pause;
mod plan_approval;
mod plan_budget;
mod replan;
mod repository;
mod rules;
mod sleep;
pub mod turns;
pub mod wait_rows;
mod worker_call;

pub use confirmation::Approval;
pub use fork::inherited_steps;
pub use grants::Revocation;
pub use plan_approval::PlanAnswer;
pub use plan_budget::PLAN_OF_MODEL;
pub use sleep::Sleep;
pub use worker_call::{CallSpan, NextAttempt, WorkerCall, WorkerCallEnd, WorkerResult};

#[cfg(test)]
mod tests;

use crate::domain::acceptance::Acceptance;
use crate::domain::confirmation::{ApprovedCall, CallToConfirm};
use crate::domain::decision::Usage;
use crate::domain::grant::CallGrant;
use crate::domain::machine::run::RunState;
use crate::domain::model::{ModelReply, ModelWait};
use crate::domain::plan::Plan;
use crate::domain::planning::{PlanApproval, Planning};
use crate::domain::repository::RepositoryState;
use crate::domain::scope::Writes;
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, Terminal, WaitingOn};
use crate::domain::todo::RunTodos;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The mutable state of a run: one row, one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The run, and the row's key.
    pub run_id: Uuid,
    /// The run's namespace.
    pub namespace: String,
    /// The run's state.
    pub state: RunState,
    /// Raised by every write; a writer names the one it read.
    pub version: i64,
    /// The number of the last journal entry; entries are numbered from 1 without gaps.
    pub sequence: i64,
    /// Runs with a higher number are claimed first.
    pub priority: i16,
    /// Since when an executor could claim the run; none when there is nothing to do.
    pub ready_at: Option<DateTime<Utc>>,
    /// The executor that holds the run's running steps.
    pub lease_owner: Option<Uuid>,
    /// The fencing token, raised by every lease: a late write of an earlier holder names an older
    /// one and is lost.
    pub lease_epoch: i64,
    /// The plan revision being executed, from 1; 0 before there is a plan.
    pub plan_revision: u32,
    /// One for each step, in the plan's order. Every change of a run copies the list, and shares the
    /// steps that it leaves as they are.
    pub steps: Vec<Arc<StepProgress>>,
    /// The used part of the limits, and the last digests.
    pub counters: Counters,
    /// The todos that drivers made, and the statuses of the plan's own.
    pub todos: RunTodos,
    /// What approvers granted for this run, in the order of the answers; ended grants stay.
    pub grants: Vec<CallGrant>,
    /// The wait that is shown for the run: what blocks it, else the wait of its first waiting step.
    /// All waits are in [`Execution::waits`].
    pub wait: Option<Wait>,
    /// Set from the request of a pause until its end.
    pub paused: Option<Paused>,
    /// How the run ended; set only when it has ended.
    pub terminal: Option<Terminal>,
    /// The run's deadline; none once it has ended.
    pub deadline_at: Option<DateTime<Utc>>,
    /// When the row was last written.
    pub updated_at: DateTime<Utc>,
}

/// The used part of a run's limits, and the last entries of its chains.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Turns taken.
    #[serde(skip_serializing_if = "is_zero")]
    pub rounds: u32,
    /// How often failed steps were retried or replanned.
    #[serde(skip_serializing_if = "is_zero")]
    pub replans: u32,
    /// How often a refused verdict was repaired.
    #[serde(skip_serializing_if = "is_zero")]
    pub repairs: u32,
    /// Tool calls that were made.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// Receipts stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub receipts: u32,
    /// The cost of the drivers' replies.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
    /// The text with which a driver outside the executor ended the work; empty before that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub final_answer: String,
    /// The part of it that belongs to no turn: of replies that no turn took, and of replies that never came.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage_without_turn: Usage,
    /// What was added to the budgets.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub added_budget: Usage,
    /// What the refused verdict asks for, until its repair begins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub repair_hint: String,
    /// Whether a receipt says that a file was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub wrote: bool,
    /// Digest of the last receipt; the next one names it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_receipt_digest: String,
    /// The journal entry that holds the latest verdict; 0 before there is one.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub verdict_sequence: i64,
    /// Whether the runner's observations for the verdict are stored, for the version of the work
    /// that is being verified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The number of verifications that were begun; receipts of the runner's probes name it.
    #[serde(skip_serializing_if = "is_zero")]
    pub verification_round: u32,
    /// The artifact that holds the manifest of the workspace before the first call that could write;
    /// empty before there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_snapshot: String,
    /// The commits of a run on a git repository; none before its first claim, and for a folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Box<RepositoryState>>,
    /// Deaths of executors in the middle of the work that was in progress at the last of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Deaths>,
}

/// How often executors died in the middle of one turn or one verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    /// The step by its index in the plan; none for a verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The attempt at the step; 0 for a verification.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The finished turns of that attempt, or the number of the verification.
    pub round: u32,
    /// How many, at least 1.
    pub count: u32,
}

/// The state of one step in its current attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepProgress {
    /// Stored separately in the row, one letter per step.
    #[serde(skip)]
    pub state: StepState,
    /// The number of the attempt, from 1; 0 before the first.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Turns taken in this attempt.
    #[serde(skip_serializing_if = "is_zero")]
    pub rounds: u32,
    /// Tool calls in this attempt.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// Finished calls of the step's script.
    #[serde(skip_serializing_if = "is_zero")]
    pub script_position: u32,
    /// Successful receipts of this step under this plan revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub proofs: u32,
    /// Consecutive refused decisions.
    #[serde(skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// Replies with text and no decision since the last tool call.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_completions: u32,
    /// Replies that contain only thinking since the last tool call.
    #[serde(skip_serializing_if = "is_zero")]
    pub thinking_only: u32,
    /// The correction or reminder for the driver's next turn; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notice: String,
    /// A reply that arrived later, before a turn has taken it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Box<SuppliedReply>>,
    /// What is reserved of the budgets for the reply that the step waits for, or that no turn has taken.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub reserved: Usage,
    /// The wait whose answer is being carried out. Its participant keeps the lease until the step's next
    /// wait takes it over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_wait: Option<Uuid>,
    /// Whether a model of the service answered it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answered_by_model: bool,
    /// The calls of this attempt by tool, where a participant outside the executor decides.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub called: BTreeMap<String, u32>,
    /// When this attempt began.
    #[serde(
        rename = "began",
        with = "chrono::serde::ts_microseconds_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub started_at: Option<DateTime<Utc>>,
    /// When the step was settled.
    #[serde(
        rename = "ended",
        with = "chrono::serde::ts_microseconds_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub finished_at: Option<DateTime<Utc>>,
    /// Why it failed or cannot start, shortened.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The call whose intent is journalled and that has no outcome yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_call: Option<Box<OpenCall>>,
    /// The sleep that its open call is; none for any other call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Sleep>,
    /// The call of a worker that its open call is; none for any other call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_call: Option<Box<WorkerCall>>,
    /// What it waits for; set only while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Box<Wait>>,
    /// The answer about the open call, if there was a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<CallAnswer>,
    /// Who gave that answer.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub answered_by: String,
    /// The approved call that the step makes next. The change that records its intent uses it up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<Box<ApprovedCall>>,
    /// The state of the step's repeat detector, as the executor wrote it.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub fuses: serde_json::Value,
}

impl StepProgress {
    /// Whether a call of it waits for its confirmation, or is confirmed and not begun.
    pub fn is_confirming(&self) -> bool {
        self.approved.is_some()
            || self.wait.as_deref().is_some_and(|wait| wait.confirmation.is_some())
    }
}

/// An effect that was recorded before it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The call's own id, and its idempotency key in every repetition.
    pub call_id: Uuid,
    /// The tool.
    pub tool: String,
    /// The arguments, as compact JSON text.
    pub arguments_json: String,
    /// The change that the tool announced, so that a later executor can check whether it happened.
    pub effect: serde_json::Value,
    /// The time when it was recorded.
    pub intended_at: DateTime<Utc>,
}

/// A driver's reply to a wait, stored until the next turn of its step takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuppliedReply {
    /// The wait that it answers.
    pub wait_id: Uuid,
    /// The fencing token of the lease under which it was sent; 0 where the wait is not leased.
    #[serde(default, skip_serializing_if = "is_zero_i64")]
    pub lease_epoch: i64,
    /// The reply as it was received: a decision as JSON text, or any other text. At most 1 MiB.
    pub text: String,
    /// The cost of the reply; none where the driver did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The W3C `traceparent` of the span in which it was made; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace_parent: String,
    /// The identity that sent it; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Where a model of the service made it. Its usage is then the service's own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelReply>>,
}

/// The answer of a user about a call without a recorded outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// It did not happen, or may happen twice: call again.
    Repeat,
    /// It happened: continue after it.
    Happened,
    /// Its outcome cannot be determined: fail the step.
    Fail,
}

impl CallAnswer {
    /// Every answer, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Repeat, Self::Happened, Self::Fail];

    /// The contract's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Happened => "happened",
            Self::Fail => "fail",
        }
    }

    /// The answer with this word.
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.as_str() == text)
    }
}

/// Why a run is blocked, and what unblocks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The id by which an answer names the wait.
    pub id: Uuid,
    /// The party that must act.
    pub waiting_on: WaitingOn,
    /// The time when the wait began.
    pub since: DateTime<Utc>,
    /// What unblocks it, for the user.
    pub unblocks: String,
    /// The question, if it waits for an answer; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The accepted answers; empty when any text is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The step it is about; none when it is about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<usize>,
    /// What a person is asked to accept, if it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<Box<Acceptance>>,
    /// What other steps had reserved of the budgets when it began, if it waits for a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Usage>,
    /// Why a plan is needed and what was refused, if it waits for a plan after another one, or after a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planning: Option<Box<Planning>>,
    /// The JSON Schema that the answer must fit, as compact JSON text; empty allows any text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer_schema: String,
    /// The call that an approver is shown, if it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Box<CallToConfirm>>,
    /// Where a model of the service supplies the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<ModelWait>>,
    /// The plan that an approver is shown, if it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_approval: Option<Box<PlanApproval>>,
}

impl Wait {
    /// A wait of the whole run that asks nothing.
    pub const fn new(
        id: Uuid,
        waiting_on: WaitingOn,
        since: DateTime<Utc>,
        unblocks: String,
    ) -> Self {
        Self {
            id,
            waiting_on,
            since,
            unblocks,
            question: String::new(),
            choices: Vec::new(),
            step_index: None,
            acceptance: None,
            budget: None,
            planning: None,
            answer_schema: String::new(),
            confirmation: None,
            model: None,
            plan_approval: None,
        }
    }
}

/// A requested pause that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The wait for the end of the pause, which is shown before all other waits.
    pub wait: Wait,
    /// The wait of the whole run when it was paused, which remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Wait>,
    /// Since when no work of the run is in progress; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests_since: Option<DateTime<Utc>>,
}

/// The dependencies of a plan's steps by index, and, for the start of steps, which of them must not
/// run together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    ids: Vec<String>,
    dependencies: Vec<Vec<usize>>,
    writes: Vec<Writes>,
}

impl Graph {
    /// The graph of a validated plan.
    pub fn of(plan: &Plan) -> Self {
        let ids: Vec<String> = plan.steps.iter().map(|step| step.id.clone()).collect();
        let place = |id: &String| ids.iter().position(|other| other == id);
        let dependencies = plan
            .steps
            .iter()
            .map(|step| step.dependencies.iter().filter_map(place).collect())
            .collect();
        Self { ids, dependencies, writes: Vec::new() }
    }

    /// The same graph with each step's write scope, in the plan's order. Without it steps count as
    /// writing nothing, which suffices for all changes except the start of a step.
    #[must_use]
    pub fn with_writes(mut self, writes: Vec<Writes>) -> Self {
        self.writes = writes;
        self
    }

    /// Whether two steps could write the same file, so that they must not run together.
    pub fn collide(&self, one: usize, other: usize) -> bool {
        match (self.writes.get(one), self.writes.get(other)) {
            (Some(one), Some(other)) => one.overlap(other),
            (None, _) | (_, None) => false,
        }
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The id of the step at an index; empty without one.
    pub fn id(&self, index: usize) -> &str {
        self.ids.get(index).map_or("", String::as_str)
    }

    /// The index of the step with an id.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|other| other == id)
    }

    /// The indexes of the steps that a step depends on.
    pub fn dependencies(&self, index: usize) -> &[usize] {
        self.dependencies.get(index).map_or(&[], Vec::as_slice)
    }
}

impl Execution {
    /// A step.
    pub fn step(&self, index: usize) -> Option<&StepProgress> {
        self.steps.get(index).map(Arc::as_ref)
    }

    /// A step, to be changed.
    pub fn step_mut(&mut self, index: usize) -> Option<&mut StepProgress> {
        self.steps.get_mut(index).map(Arc::make_mut)
    }

    /// A new run.
    pub fn new(
        run_id: Uuid,
        namespace: String,
        deadline_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            run_id,
            namespace,
            state: RunState::Intake,
            version: 0,
            sequence: 0,
            priority: 0,
            ready_at: None,
            lease_owner: None,
            lease_epoch: 0,
            plan_revision: 0,
            steps: Vec::new(),
            counters: Counters::default(),
            todos: RunTodos::default(),
            grants: Vec::new(),
            wait: None,
            paused: None,
            terminal: None,
            deadline_at: Some(deadline_at),
            updated_at: now,
        }
    }

    /// The indexes of the steps in a state.
    pub fn steps_in(&self, state: StepState) -> impl Iterator<Item = usize> + '_ {
        self.steps
            .iter()
            .enumerate()
            .filter(move |(_, step)| step.state == state)
            .map(|(index, _)| index)
    }

    /// The states of the steps, in the plan's order.
    pub fn step_states(&self) -> impl Iterator<Item = StepState> + '_ {
        self.steps.iter().map(|step| step.state)
    }

    /// All waits: the pause, the wait of the whole run, then each step's in the plan's order.
    pub fn waits(&self) -> impl Iterator<Item = &Wait> {
        let pause = self.paused.iter().map(|paused| &paused.wait);
        let steps = self.steps.iter().filter_map(|step| step.wait.as_deref());
        pause.chain(self.own_wait()).chain(steps)
    }

    /// The wait of the whole run, excluding a pause.
    pub fn own_wait(&self) -> Option<&Wait> {
        match &self.paused {
            Some(paused) => paused.behind.as_ref(),
            None => self.wait.as_ref().filter(|wait| wait.step_index.is_none()),
        }
    }

    /// The same, to change it.
    fn own_wait_mut(&mut self) -> Option<&mut Wait> {
        match &mut self.paused {
            Some(paused) => paused.behind.as_mut(),
            None => self.wait.as_mut().filter(|wait| wait.step_index.is_none()),
        }
    }

    /// The steps that wait for a party that does not block the run: a driver, a worker, a timer.
    pub fn waits_of_participants(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = |step: &StepProgress| {
            let wait = step.wait.as_deref();
            step.state == StepState::Waiting
                && wait.is_some_and(|wait| wait.waiting_on.keeps_executing())
        };
        let waiting = self.steps.iter().enumerate().filter(move |(_, step)| waits(step));
        waiting.map(|(index, _)| index)
    }

    /// Whether every step is over: done, or not needed.
    pub fn is_work_over(&self) -> bool {
        let over = |state| matches!(state, StepState::Done | StepState::Skipped);
        self.step_states().all(over)
    }

    /// Whether a pause is requested while work of the run is still in progress.
    pub fn is_pausing(&self) -> bool {
        self.paused.is_some() && self.state.phase().is_some()
    }

    /// Whether an executor has work to do now.
    pub fn needs_executor(&self) -> bool {
        match self.state {
            RunState::Executing => {
                self.steps_in(StepState::Ready).next().is_some()
                    || self.steps_in(StepState::Running).next().is_some()
            }
            RunState::Verifying | RunState::Recovering => true,
            RunState::Intake
            | RunState::Planning
            | RunState::Blocked(_)
            | RunState::Done
            | RunState::Failed
            | RunState::Cancelled => false,
        }
    }

    /// The reason of the run's end.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.terminal.as_ref().map(|terminal| terminal.stop_reason)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero_i64(value: &i64) -> bool {
    *value == 0
}
