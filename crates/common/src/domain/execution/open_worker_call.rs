//! What is stored of a worker's call while it is a step's open call.

use crate::domain::tool_workers::Attempts;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The call of a worker that is a step's open call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCall {
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// How often it may be made.
    pub attempts: Attempts,
    /// Whether it may be made again when its worker is lost.
    pub may_repeat: bool,
    /// When the executor abandons it.
    #[serde(with = "chrono::serde::ts_microseconds")]
    pub deadline_at: DateTime<Utc>,
    /// Since when the present attempt is offered.
    #[serde(with = "chrono::serde::ts_microseconds")]
    pub offered_at: DateTime<Utc>,
    /// Its span, where spans are exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<CallSpan>,
    /// How long the step had worked when it began, in microseconds.
    #[serde(default)]
    pub(super) worked_us: i64,
    /// What it came to, until that is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<WorkerCallEnd>,
}

impl WorkerCall {
    /// The first attempt of a call.
    pub const fn new(
        attempts: Attempts,
        may_repeat: bool,
        offered_at: DateTime<Utc>,
        deadline_at: DateTime<Utc>,
    ) -> Self {
        Self {
            attempt: 1,
            attempts,
            may_repeat,
            deadline_at,
            offered_at,
            span: None,
            worked_us: 0,
            end: None,
        }
    }

    /// Another attempt of the call; none when they are used up.
    pub(super) fn again(&self, offered_at: DateTime<Utc>) -> Option<Self> {
        let attempt = self.attempt.saturating_add(1);
        let is_left = attempt <= self.attempts.most && offered_at < self.deadline_at;
        is_left.then(|| Self { attempt, offered_at, ..self.clone() })
    }
}

/// The span of a call, which ends in the process that records what the call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSpan {
    /// Its id: 16 hexadecimal digits.
    pub id: String,
    /// The `traceparent` of the span in which it lies.
    pub parent: String,
}

/// What a worker's call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerCallEnd {
    /// The worker answered.
    Answered(Box<WorkerResult>),
    /// No worker answered before its deadline.
    TimedOut,
    /// Its worker was lost, and nothing is known of it.
    Lost,
}

/// The answer of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerResult {
    /// The identity of the worker.
    pub by: String,
    /// Whether the call succeeded.
    pub success: bool,
    /// One line for people.
    pub summary: String,
    /// The error; empty for a success.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The output, where it is small; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The digest of the artifact that holds the output; empty for a small one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_digest: String,
    /// The facts, as the text of a receipt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub facts: String,
    /// When it arrived.
    #[serde(with = "chrono::serde::ts_microseconds")]
    pub at: DateTime<Utc>,
}
