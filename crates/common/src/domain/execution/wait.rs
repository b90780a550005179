//! What a run or a step waits for.

use crate::domain::acceptance::Acceptance;
use crate::domain::confirmation::CallToConfirm;
use crate::domain::decision::Usage;
use crate::domain::json::Value;
use crate::domain::model::ModelWait;
use crate::domain::planning::{PlanApproval, Planning};
use crate::domain::stop::WaitingOn;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

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
    /// The time limit of its step in seconds, whose clock runs while a participant has leased the wait; none for a wait that
    /// is no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_deadline_s: Option<u64>,
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
    /// The [`Wait::digest_of_question`] when a step asked; empty for a wait that asks nothing, and where
    /// an earlier version asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question_digest: String,
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
            step_deadline_s: None,
            step_index: None,
            acceptance: None,
            budget: None,
            planning: None,
            answer_schema: String::new(),
            confirmation: None,
            model: None,
            plan_approval: None,
            question_digest: String::new(),
        }
    }
}

/// The digest that an answer to a question is bound to, SHA-256 in hexadecimal: over the words of the question, the
/// accepted answers and the schema of the answer as text.
pub fn question_digest(question: &str, choices: &[String], answer_schema: &str) -> String {
    let choices = choices.iter().cloned().map(Value::String).collect();
    let asked = vec![
        Value::String(question.to_owned()),
        Value::Array(choices),
        Value::String(answer_schema.to_owned()),
    ];
    Value::Array(asked).digest()
}

/// A requested pause that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The wait for the end of the pause, which is shown before all other waits.
    pub wait: Wait,
    /// The wait of the whole run when it was paused, which remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Box<Wait>>,
    /// Since when no work of the run is in progress; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests_since: Option<DateTime<Utc>>,
}
