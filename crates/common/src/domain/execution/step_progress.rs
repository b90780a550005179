//! The state of one step: its attempt, its open call, the reply that was supplied for it.

use super::counters::{is_zero, is_zero_i64};
use super::{Wait, WorkerCall};
use crate::domain::confirmation::ApprovedCall;
use crate::domain::decision::{Usage, UsageSource};
use crate::domain::model::ModelReply;
use crate::domain::step::StepState;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

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
    /// Why this attempt follows another, for every turn of it: the refused verdict with its failed checks, or how the
    /// attempt before failed; empty in a first attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
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
    /// Whether nothing but the state, the attempt and its times is set. Each change of a run asks this of all its steps,
    /// so it compares with no other value.
    pub fn has_only_times(&self) -> bool {
        let Self {
            state: _,
            attempt: _,
            started_at: _,
            finished_at: _,
            rounds,
            tool_calls,
            script_position,
            proofs,
            corrections,
            missing_completions,
            thinking_only,
            notice,
            hint,
            reply,
            reserved,
            answered_wait,
            answered_by_model,
            called,
            reason,
            open_call,
            sleep,
            worker_call,
            wait,
            answer,
            answered_by,
            approved,
            fuses,
        } = self;
        let counts = [
            rounds,
            tool_calls,
            script_position,
            proofs,
            corrections,
            missing_completions,
            thinking_only,
        ];
        let texts = [notice, hint, reason, answered_by];
        counts.into_iter().all(|count| *count == 0)
            && texts.into_iter().all(String::is_empty)
            && reply.is_none()
            && reserved.is_zero()
            && answered_wait.is_none()
            && !*answered_by_model
            && called.is_empty()
            && open_call.is_none()
            && sleep.is_none()
            && worker_call.is_none()
            && wait.is_none()
            && answer.is_none()
            && approved.is_none()
            && fuses.is_null()
    }

    /// Whether nothing but the state is set.
    pub fn has_only_a_state(&self) -> bool {
        let times = (self.attempt, self.started_at, self.finished_at);
        times == (0, None, None) && self.has_only_times()
    }

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

impl SuppliedReply {
    /// What it cost, and where that is known from; none where the driver stated no usage.
    #[must_use]
    pub fn usage_of(&self) -> Option<(Usage, UsageSource)> {
        let source = match self.model {
            Some(_) => UsageSource::Measured,
            None => UsageSource::Reported,
        };
        self.usage.map(|usage| (usage, source))
    }
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

/// A sleep under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sleep {
    /// When the clock ends it.
    #[serde(with = "chrono::serde::ts_microseconds")]
    pub until: DateTime<Utc>,
    /// How long the step had worked when it began, in microseconds.
    pub(super) worked_us: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::stop::WaitingOn;

    type Change = fn(&mut StepProgress);

    /// A field that is not asked for would be lost by the next row of the run.
    #[test]
    fn a_step_with_more_than_its_times_is_never_taken_for_one_with_times_alone() {
        let at = DateTime::UNIX_EPOCH;
        let done = StepProgress {
            state: StepState::Done,
            attempt: 2,
            started_at: Some(at),
            finished_at: Some(at),
            ..StepProgress::default()
        };
        assert!(done.has_only_times() && !done.has_only_a_state());
        let fresh = StepProgress { state: StepState::Ready, ..StepProgress::default() };
        assert!(fresh.has_only_times() && fresh.has_only_a_state());
        let changes: [(&str, Change); 20] = [
            ("rounds", |step| step.rounds = 1),
            ("tool_calls", |step| step.tool_calls = 1),
            ("script_position", |step| step.script_position = 1),
            ("proofs", |step| step.proofs = 1),
            ("corrections", |step| step.corrections = 1),
            ("missing_completions", |step| step.missing_completions = 1),
            ("thinking_only", |step| step.thinking_only = 1),
            ("notice", |step| step.notice.push('a')),
            ("hint", |step| step.hint.push('a')),
            ("reason", |step| step.reason.push('a')),
            ("answered_by", |step| step.answered_by.push('a')),
            ("reserved", |step| step.reserved.tokens = 1),
            ("answered_wait", |step| step.answered_wait = Some(Uuid::nil())),
            ("answered_by_model", |step| step.answered_by_model = true),
            ("called", |step| step.called = BTreeMap::from([("noop".to_owned(), 1)])),
            ("answer", |step| step.answer = Some(CallAnswer::Repeat)),
            ("fuses", |step| step.fuses = serde_json::Value::Bool(true)),
            ("sleep", |step| {
                step.sleep = Some(Sleep { until: DateTime::UNIX_EPOCH, worked_us: 0 });
            }),
            ("wait", |step| {
                let (id, at) = (Uuid::nil(), DateTime::UNIX_EPOCH);
                step.wait = Some(Box::new(Wait::new(id, WaitingOn::Model, at, String::new())));
            }),
            ("open_call", |step| {
                step.open_call = Some(Box::new(OpenCall {
                    call_id: Uuid::nil(),
                    tool: String::new(),
                    arguments_json: String::new(),
                    effect: serde_json::Value::Null,
                    intended_at: DateTime::UNIX_EPOCH,
                }));
            }),
        ];
        for (field, change) in changes {
            let mut changed = done.clone();
            change(&mut changed);
            assert!(!changed.has_only_times() && !changed.has_only_a_state(), "{field}");
        }
    }
}
