//! What a verdict is made from.

use crate::check::Answer;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use surety_common::domain::caution::CautionRules;
use surety_common::domain::check::AcceptCheck;
use surety_common::domain::receipt::EvidenceReceipt;
use surety_common::domain::todo::Todo;
use surety_common::domain::verification::ProjectTests;

/// The input of a verdict. It includes no claim of a caller.
#[derive(Debug, Clone, Copy)]
pub struct Evaluation<'a> {
    /// The root that paths are resolved against.
    pub workspace_root: &'a str,
    /// The plan's checks; an empty list means one `output_only`.
    pub checks: &'a [AcceptCheck],
    /// The run's receipts in the order of their chain, already verified.
    pub receipts: &'a [EvidenceReceipt],
    /// The run's final text.
    pub final_text: &'a str,
    /// The part of the final text that the runner did not write itself, where it wrote some: the only one
    /// that an `output_only` of a user or an operator goes by.
    pub authored_text: Option<&'a str>,
    /// The plan's own todos and the run's.
    pub todos: &'a [Todo],
    /// The plan's creation time: older todos belong to an earlier plan. None includes all.
    pub plan_made_at: Option<DateTime<Utc>>,
    /// Results of checks that receipts cannot decide (`http_probe`, `action_report`), by the
    /// check's index in the list. Ignored for other kinds.
    pub answers: &'a BTreeMap<usize, Answer>,
    /// What the project's own tests came to, where they are required; else none.
    pub project_tests: Option<ProjectTests>,
    /// The verification round, where the runner verifies: then a check that the runner probes is decided
    /// by its own probe of this round and by no other receipt. None where the steps' receipts decide.
    pub round: Option<u32>,
    /// Whether a verdict that rests on checks of the plan alone is refused.
    pub require_independent: bool,
    /// What cautions do to results that hold.
    pub cautions: CautionRules<'a>,
}
