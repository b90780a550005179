//! The execution of a run: everything about it that moves, as one aggregate with one version.
//!
//! ```text
//!   Execution --Draft::new--> Draft --events, entries--> Draft --into_write--> Write
//!   (as read)                 (one change in the making)             (fence, new row, journal)
//! ```
//!
//! A [`draft::Draft`] is the only way to change an [`Execution`]: each move goes through
//! [`machine`](super::machine) and leaves its journal entry, so that no state can be set without
//! its record.

pub mod draft;
mod pause;
mod replan;
mod rules;
pub mod turns;

#[cfg(test)]
mod tests;

use crate::domain::decision::Usage;
use crate::domain::machine::run::RunState;
use crate::domain::plan::Plan;
use crate::domain::scope::Writes;
use crate::domain::step::StepState;
use crate::domain::stop::{StopReason, Terminal, WaitingOn};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Everything about a run that moves. One row, one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// The run, and the row's key.
    pub run_id: Uuid,
    /// Whose run it is.
    pub namespace: String,
    /// Where the run stands.
    pub state: RunState,
    /// Raised by every write; a writer names the one it read.
    pub version: i64,
    /// The number of the last journal entry; entries are numbered from 1 without gaps.
    pub sequence: i64,
    /// Higher is taken up first.
    pub priority: i16,
    /// Since when an executor could take the run up; none when there is nothing for one to do.
    pub ready_at: Option<DateTime<Utc>>,
    /// The executor that holds the run's running steps.
    pub lease_owner: Option<Uuid>,
    /// Raised by every lease; a late write of an earlier holder names an earlier one and is lost.
    pub lease_epoch: i64,
    /// The plan revision being executed, from 1; 0 before there is a plan.
    pub plan_revision: u32,
    /// One for each step, in the plan's order.
    pub steps: Vec<StepProgress>,
    /// What has been used up, and where the chains end.
    pub counters: Counters,
    /// What the run is shown to wait for: what blocks it, else what its first waiting step waits
    /// for while others go on. All that is waited for is in [`Execution::waits`].
    pub wait: Option<Wait>,
    /// Set while somebody wants the run paused, from the moment it was asked for.
    pub paused: Option<Paused>,
    /// How the run ended; some exactly when it did.
    pub terminal: Option<Terminal>,
    /// When the run's time is over; none once it has ended.
    pub deadline_at: Option<DateTime<Utc>>,
    /// When the row was last written.
    pub updated_at: DateTime<Utc>,
}

/// What a run has used up of its limits, and the ends of its chains.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Turns taken.
    #[serde(skip_serializing_if = "is_zero")]
    pub rounds: u32,
    /// Times failed steps were tried or planned again.
    #[serde(skip_serializing_if = "is_zero")]
    pub replans: u32,
    /// Times a refused verdict was worked on again.
    #[serde(skip_serializing_if = "is_zero")]
    pub repairs: u32,
    /// Tool calls carried out.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// Receipts stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub receipts: u32,
    /// What the replies of drivers cost.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
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
    /// The artifact that holds the manifest of the workspace before the first call that could write;
    /// empty before there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub base_snapshot: String,
}

/// Where one step stands in its present attempt. Every change of a run copies all of them, so what
/// few steps have is kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StepProgress {
    /// Kept apart in the row, one letter a step.
    #[serde(skip)]
    pub state: StepState,
    /// Which attempt this is, from 1; 0 before the first.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// Turns taken in this attempt.
    #[serde(skip_serializing_if = "is_zero")]
    pub rounds: u32,
    /// Tool calls carried out in this attempt.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u32,
    /// Calls of the step's script that are behind.
    #[serde(skip_serializing_if = "is_zero")]
    pub script_position: u32,
    /// Successful receipts bound to this step and this plan revision.
    #[serde(skip_serializing_if = "is_zero")]
    pub proofs: u32,
    /// Refused decisions in a row.
    #[serde(skip_serializing_if = "is_zero")]
    pub corrections: u32,
    /// Replies with text and no decision since the last tool call.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_completions: u32,
    /// Replies of nothing but thinking since the last tool call.
    #[serde(skip_serializing_if = "is_zero")]
    pub thinking_only: u32,
    /// The correction or reminder that the driver gets with its next turn; empty when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notice: String,
    /// A reply that arrived later than it was asked for and that no turn has taken yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Box<SuppliedReply>>,
    /// When this attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// The call that was written down and has no outcome yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_call: Option<Box<OpenCall>>,
    /// What it waits for; some exactly while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Box<Wait>>,
    /// What was answered about the open call, when it was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<CallAnswer>,
    /// What the turn's fuses remember, as the executor wrote it.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub fuses: serde_json::Value,
}

/// An effect that was written down before it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The call's own id, and its idempotency key in every repetition.
    pub call_id: Uuid,
    /// The tool.
    pub tool: String,
    /// The arguments, as compact JSON text.
    pub arguments_json: String,
    /// What the tool said it would change, so that a later executor can look whether it did.
    pub effect: serde_json::Value,
    /// When it was written down.
    pub intended_at: DateTime<Utc>,
}

/// A driver's reply to a wait, stored until the next turn of its step takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuppliedReply {
    /// The wait that it answers.
    pub wait_id: Uuid,
    /// The reply as it was received: a decision as JSON text, or any other text. At most 1 MiB.
    pub text: String,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub usage: Usage,
}

/// What somebody who looked said about a call whose outcome nobody recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// It did not happen, or may happen twice: call again.
    Repeat,
    /// It cannot be told: fail the step.
    Fail,
}

/// Why a run is blocked and what would unblock it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Names the wait to whoever answers it.
    pub id: Uuid,
    /// Who or what it waits for.
    pub waiting_on: WaitingOn,
    /// Since when.
    pub since: DateTime<Utc>,
    /// What would unblock it, for a person.
    pub unblocks: String,
    /// The question, where it waits for an answer; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question: String,
    /// The answers it takes; empty when any text is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The step it is about; none when it is about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<usize>,
}

/// A pause that somebody asked for and nobody ended yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// What ends it. It is shown before anything else that is waited for.
    pub wait: Wait,
    /// What the run as a whole waited for when it was paused, and waits for still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Wait>,
    /// Since when nothing of the run is under way; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests_since: Option<DateTime<Utc>>,
}

/// The shape of a plan that movement needs: who depends on whom, by place, and for whoever starts
/// steps which of them must not run together.
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

    /// The same graph with what each step may write, in the plan's order. Without it steps are taken
    /// to write nothing, which is good enough for every move but the start of a step.
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

    /// The id of the step at a place; empty where there is none.
    pub fn id(&self, index: usize) -> &str {
        self.ids.get(index).map_or("", String::as_str)
    }

    /// The place of the step with an id.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|other| other == id)
    }

    /// The places a step depends on.
    pub fn dependencies(&self, index: usize) -> &[usize] {
        self.dependencies.get(index).map_or(&[], Vec::as_slice)
    }
}

impl Execution {
    /// A run that was just created and has not moved.
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
            wait: None,
            paused: None,
            terminal: None,
            deadline_at: Some(deadline_at),
            updated_at: now,
        }
    }

    /// The places of the steps in a state.
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

    /// All that is waited for: the end of a pause, what the run as a whole waits for, then each step
    /// in the plan's order.
    pub fn waits(&self) -> impl Iterator<Item = &Wait> {
        let pause = self.paused.iter().map(|paused| &paused.wait);
        let steps = self.steps.iter().filter_map(|step| step.wait.as_deref());
        pause.chain(self.own_wait()).chain(steps)
    }

    /// What the run as a whole waits for, a pause apart.
    pub fn own_wait(&self) -> Option<&Wait> {
        match &self.paused {
            Some(paused) => paused.behind.as_ref(),
            None => self.wait.as_ref().filter(|wait| wait.step_index.is_none()),
        }
    }

    /// The steps that wait for a participant whose absence blocks no run: a driver, a worker, a timer.
    pub fn waits_of_participants(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = |step: &StepProgress| {
            let wait = step.wait.as_deref();
            step.state == StepState::Waiting
                && wait.is_some_and(|wait| wait.waiting_on.keeps_executing())
        };
        let waiting = self.steps.iter().enumerate().filter(move |(_, step)| waits(step));
        waiting.map(|(index, _)| index)
    }

    /// Whether somebody wants it paused and something of it is still under way.
    pub fn is_pausing(&self) -> bool {
        self.paused.is_some() && self.state.phase().is_some()
    }

    /// Whether there is something that an executor could do now.
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

    /// How the run ended, as the reason alone.
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
