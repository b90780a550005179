//! The used part of a run's limits.

use super::GivenAnswer;
use crate::domain::decision::{Usage, UsageSource};
use crate::domain::journal::TaskHistory;
use crate::domain::repository::RepositoryState;
use serde::{Deserialize, Serialize};

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
    /// The part of it that drivers outside the services stated.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub reported_usage: Usage,
    /// The part of it that was charged at the reservation, because no usage was stated.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub charged_usage: Usage,
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
    /// The history of the run's task when its report was taken; none before, and without a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Box<TaskHistory>>,
    /// What people answered to the questions of drivers, the latest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<GivenAnswer>,
    /// The identities of participants outside the services that decided a turn or submitted a plan under a lease, in the order of
    /// their first. They never answer for a person about this run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<String>,
    /// The steps that drivers planned, by their ids. Every other step came from a user or an operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned_steps: Vec<String>,
    /// Deaths of executors in the middle of the work that was in progress at the last of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Deaths>,
}

impl Counters {
    /// Keeps the identity of a participant that decided something.
    pub(super) fn decided_by(&mut self, identity: &str) {
        if !identity.is_empty() && !self.drivers.iter().any(|known| known == identity) {
            self.drivers.push(identity.to_owned());
        }
    }

    /// Counts a usage, apart by where it is known from.
    pub(super) fn charge(&mut self, usage: Usage, source: UsageSource) {
        self.usage = self.usage.plus(usage);
        match source {
            UsageSource::Reported => self.reported_usage = self.reported_usage.plus(usage),
            UsageSource::Reserved => self.charged_usage = self.charged_usage.plus(usage),
            UsageSource::Free | UsageSource::Measured => {}
        }
    }
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
pub(super) fn is_zero(value: &u32) -> bool {
    *value == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
pub(super) fn is_zero_i64(value: &i64) -> bool {
    *value == 0
}
