//! What a kind of task says about its tasks.

use super::template::{HandedTask, TemplateError, Templates};
use surety_common::domain::check::CheckKind;
use surety_common::domain::toolchain::{FailureClass, TaskFailure};

/// A kind of task.
pub trait TaskType: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The namespace of its runs. It begins with `_`: by that the whole service knows the runs of tasks.
    fn namespace(&self) -> &'static str;

    /// What the assignee is handed.
    ///
    /// # Errors
    /// A template of the operator cannot be rendered with this payload.
    fn instructions(
        &self,
        templates: &Templates,
        task: &HandedTask<'_>,
    ) -> Result<String, TemplateError>;

    /// The kinds of the checks that decide it.
    fn checks(&self) -> &'static [CheckKind];

    /// The class of a failure, which is number `consecutive` in its chain, from 1.
    fn class_of(&self, failure: TaskFailure, consecutive: u32) -> FailureClass;

    /// How many days an ended task is kept where the operator's rules do not say; none for as long as runs.
    fn retention_days(&self) -> Option<u32>;

    /// Whether a failure makes another task or is written on a forge. Otherwise the type itself says who is told.
    fn escalates(&self) -> bool;
}
