//! The content of a plan file.

use std::path::PathBuf;

use surety_common::wire::v1;

use crate::failure::{Code, Failure};

/// The content of a plan file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanFile {
    /// The goal in the submitter's words; may be empty when there is a plan.
    pub goal: String,
    /// The plan as the text of one JSON object; none leaves it to a model.
    pub plan_text: Option<String>,
    /// Limits; absent ones have their defaults.
    pub limits: Option<v1::Limits>,
    /// The policy of the run.
    pub policy: Option<v1::Policy>,
    /// The folder to work in, as it was written.
    pub workspace: Option<PathBuf>,
    /// The git repository to work on in place of a folder.
    pub repository: Option<v1::Repository>,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// The kind of driver.
    pub driver: v1::Driver,
    /// Whether a person follows the run and can be asked.
    pub interactive: bool,
    /// Whether the goal is the only step, without planning.
    pub without_plan: bool,
    /// The checks of a run without planning, or whose plan comes later.
    pub verify: Vec<v1::AcceptCheck>,
}

/// The error for a file that cannot be parsed.
pub(super) fn unreadable(message: impl Into<String>, advice: &str) -> Failure {
    Failure::new(Code::OrderUnreadable, message, advice)
}
