//! What a fork has from the run that it begins in.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a fork has from an earlier run. It names evidence of that run, and is none of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The earlier run.
    pub run_id: Uuid,
    /// The step at which the fork begins.
    pub step_id: String,
    /// The revision of the earlier run's plan.
    pub plan_revision: u32,
    /// The digest of that plan.
    pub plan_digest: String,
    /// How many receipts the earlier run had.
    pub receipts: u32,
    /// The digest of the last of them; empty when there was none.
    pub last_receipt_digest: String,
    /// The steps that count as done, in the plan's order.
    pub steps: Vec<String>,
    /// Whether a file was written in the earlier run, or before it. The project's own tests are asked for then,
    /// whatever the fork writes.
    pub wrote: bool,
}
