//! Validated requests, before a run exists.

use std::collections::BTreeMap;
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::decision::{Usage, UsageSource};
use surety_common::domain::execution::Counters;
use surety_common::domain::fork::ForkedFrom;
use surety_common::domain::limits::Limits;
use surety_common::domain::model::ModelReply;
use surety_common::domain::plan::Plan;
use surety_common::domain::repository::Repository;
use surety_common::domain::run::{DriverKind, Policy};
use uuid::Uuid;

/// A validated request for a run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The namespace of the run.
    pub namespace: String,
    /// The name of the identity that asks.
    pub submitter: String,
    /// The submitter's id for the request; may be empty.
    pub request_id: String,
    /// Digest of the whole request; empty without an id.
    pub request_digest: String,
    /// The goal; set when there is no plan.
    pub goal: String,
    /// The submitted plan, validated.
    pub plan: Option<Plan>,
    /// The checks that came with a goal without a plan: every first plan gets them.
    pub checks: Vec<AcceptCheck>,
    /// Whether the plan was made from the goal, as its only step.
    pub without_plan: bool,
    /// The run's limits, each in its range.
    pub limits: Limits,
    /// The absolute path of the folder to work in; empty for a new one.
    pub workspace: String,
    /// The git repository to work on in place of a folder.
    pub repository: Option<Repository>,
    /// What is allowed on the run's behalf.
    pub policy: Policy,
    /// The kind of driver.
    pub driver: DriverKind,
    /// The submitter's labels.
    pub labels: BTreeMap<String, String>,
    /// Runs with a higher number are claimed first.
    pub priority: i16,
    /// What its counters begin with.
    pub counters: Counters,
    /// The run that the new one is a fork of; none for any other.
    pub forked_from: Option<Box<ForkedFrom>>,
    /// The caller's W3C trace context, if the call is traced.
    pub caller_trace: Option<String>,
}

/// A validated plan for a run that waits for one.
#[derive(Debug, Clone)]
pub struct NewPlan {
    /// The run.
    pub run_id: Uuid,
    /// The revision that the run must have; 0 before its first plan.
    pub expected_revision: u32,
    /// The fencing token of the caller's lease; 0 for none.
    pub lease_epoch: i64,
    /// The plan.
    pub plan: Plan,
    /// The reason.
    pub reason: String,
    /// The model of the service that made it; none for any other author.
    pub model: Option<ModelReply>,
    /// What making it cost; none where that is not known.
    pub usage: Option<(Usage, UsageSource)>,
    /// Whether a driver planned it.
    pub of_driver: bool,
}
