//! What a wait for a plan has come to: why a plan is needed, and which one was refused.

use super::decision::Usage;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// What a wait for a plan has come to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Planning {
    /// Why a plan is needed.
    pub cause: ReplanCause,
    /// How many plans of planning agents were refused.
    #[serde(skip_serializing_if = "is_zero")]
    pub refusals: u32,
    /// The last refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedPlan>,
    /// The checks that came with the goal, as a list of JSON: every first plan gets them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checks: String,
    /// What is reserved of the budgets for the reply of a model of the service.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    pub reserved: Usage,
    /// Why a plan is needed, in words, while the wait asks for a budget.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A plan that waits for the approval of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanApproval {
    /// The plan's digest.
    pub digest: String,
    /// Until when it can be answered.
    pub expires_at: DateTime<Utc>,
    /// The identity that submitted it.
    pub asked_by: String,
}

/// Why a plan was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPlan {
    /// The code.
    pub code: String,
    /// The field's path; empty when it is about no field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The text.
    pub message: String,
}

/// Why a run needs a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplanCause {
    /// It has none yet.
    #[default]
    FirstPlan,
    /// A step failed.
    StepFailed,
    /// A caller asked for another one.
    Requested,
    /// A caller says that the environment is not what the plan assumes.
    EnvironmentChanged,
}

impl ReplanCause {
    /// The word in causes of transitions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstPlan => "first_plan",
            Self::StepFailed => "step_failed",
            Self::Requested => "requested",
            Self::EnvironmentChanged => "environment_changed",
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}
