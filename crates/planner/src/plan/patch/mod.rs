//! Changes to a plan, as replanning asks for them.
//!
//! ```text
//!   text --read--> patch --apply--> title, removals, updates, additions --> the whole validated
//! ```
//!
//! A patch cannot touch what is done, and cannot take away what a user or an operator checks.

mod apply;
mod read;

pub(super) use apply::is_protected;
pub use apply::{Patched, apply_patch};
pub use read::{parse_patch, read_patch};

use surety_common::domain::plan::{PlanStep, Refusal};

/// What is to change. What is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanPatch {
    /// A new title; never blank.
    pub title: Option<String>,
    /// Ids of the steps to take out, each once.
    pub remove_steps: Vec<String>,
    /// Steps to change.
    pub update_steps: Vec<StepUpdate>,
    /// Steps to put behind the others.
    pub add_steps: Vec<AddedStep>,
    /// Why.
    pub reason: String,
}

/// New values for some fields of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepUpdate {
    /// The step's id.
    pub id: String,
    /// What the step is to do instead.
    pub description: Option<String>,
    /// What it depends on instead.
    pub dependencies: Option<Vec<String>>,
    /// The tools it may call instead.
    pub tools_expected: Option<Vec<String>>,
}

/// A step to add.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddedStep {
    /// The step.
    pub step: PlanStep,
    /// The first rule that one of its checks breaks. It counts only when the step stays.
    pub refusal: Option<Refusal>,
}
