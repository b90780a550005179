//! What somebody asks for, before there is a run.

use std::collections::BTreeMap;
use surety_common::domain::limits::Limits;
use surety_common::domain::plan::Plan;
use surety_common::domain::run::{DriverKind, Policy};
use uuid::Uuid;

/// A wanted run, validated.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Whose it will be.
    pub namespace: String,
    /// The submitter's own id for the order; may be empty.
    pub request_id: String,
    /// Digest of the whole request.
    pub request_digest: String,
    /// The goal; filled when there is no plan.
    pub goal: String,
    /// The plan that came with it, valid.
    pub plan: Option<Plan>,
    /// Its fuses, each in its range.
    pub limits: Limits,
    /// The folder to work in, absolute; empty for a new one.
    pub workspace: String,
    /// What may be done on its behalf.
    pub policy: Policy,
    /// Who decides.
    pub driver: DriverKind,
    /// The submitter's own marks.
    pub labels: BTreeMap<String, String>,
    /// Higher is taken up first.
    pub priority: i16,
    /// The caller's W3C trace context, where he traces.
    pub caller_trace: Option<String>,
}

/// A plan for a run that waits for one, validated.
#[derive(Debug, Clone)]
pub struct NewPlan {
    /// The run.
    pub run_id: Uuid,
    /// The revision the run must stand at; 0 before its first plan.
    pub expected_revision: u32,
    /// The plan.
    pub plan: Plan,
    /// Why.
    pub reason: String,
}
