//! Patches of plans, as replanning requests them.
//!
//! ```text
//!   text --read--> patch --apply--> title, removals, updates, additions --> the whole validated
//! ```
//!
//! A patch cannot change a done step, and cannot remove a check of a user or an operator.

mod apply;
mod read;

pub(super) use apply::is_protected;
pub use apply::{Patched, apply_patch};
pub use read::{parse_patch, read_patch};

use surety_common::domain::plan::{PlanStep, Refusal};

/// The changes; absent fields stay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanPatch {
    /// A new title; never blank.
    pub title: Option<String>,
    /// Ids of the steps to remove, each once.
    pub remove_steps: Vec<String>,
    /// Steps to change.
    pub update_steps: Vec<StepUpdate>,
    /// Steps to append.
    pub add_steps: Vec<AddedStep>,
    /// The reason.
    pub reason: String,
}

/// New values for some fields of one step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepUpdate {
    /// The step's id.
    pub id: String,
    /// The new task.
    pub description: Option<String>,
    /// The new dependencies.
    pub dependencies: Option<Vec<String>>,
    /// The new list of allowed tools.
    pub tools_expected: Option<Vec<String>>,
    /// The new list of expected outputs.
    pub outputs_expected: Option<Vec<String>>,
}

/// A step to add.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddedStep {
    /// The step.
    pub step: PlanStep,
    /// The first rule that one of its checks breaks; ignored when the step is dropped.
    pub refusal: Option<Refusal>,
}
