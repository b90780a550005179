//! The call that an approver is shown, and the form of the receipts of what persons say.

use super::receipt::{EvidenceReceipt, EvidenceSource};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The call that an approver is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallToConfirm {
    /// The digest that an answer names.
    pub digest: String,
    /// The tool.
    pub tool: String,
    /// The arguments, as compact JSON text.
    pub arguments_json: String,
    /// When neither an answer nor a call counts any more.
    pub expires_at: DateTime<Utc>,
    /// The identity of the driver that asks, which never approves; empty for a script.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub asked_by: String,
}

/// Where the receipt of an answer stands: the step by index and id, the plan's revision, the wait and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnsweredAt<'a> {
    /// The index of the step.
    pub step_index: usize,
    /// Its id.
    pub step_id: &'a str,
    /// The revision of the plan.
    pub plan_revision: u32,
    /// The wait that was answered.
    pub wait_id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
}

/// A receipt of what a person said, without facts.
pub(super) fn said(
    source: EvidenceSource,
    name: &str,
    summary: String,
    answered: AnsweredAt<'_>,
) -> EvidenceReceipt {
    let AnsweredAt { step_index, step_id, plan_revision, wait_id, at } = answered;
    EvidenceReceipt {
        step_index: u32::try_from(step_index).unwrap_or(u32::MAX),
        step_id: step_id.to_owned(),
        plan_revision,
        seq: 0,
        call_id: wait_id.to_string(),
        probe_of: None,
        source,
        name: name.to_owned(),
        arguments_digest: String::new(),
        success: true,
        summary,
        facts: Vec::new(),
        output_digest: String::new(),
        sandbox: String::new(),
        started_at: Some(at),
        finished_at: Some(at),
        prev_digest: String::new(),
        digest: String::new(),
    }
}
