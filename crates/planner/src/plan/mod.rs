//! Plans as pure functions: text to plan, plan and patch to plan.
//!
//! ```text
//!   text --read--> draft --validate--> plan --patch--> validate --> plan of the next revision
//!                    |                   ^
//!                    +------- clip ------+   the last retry of a plan that is too long
//! ```

mod clip;
pub mod patch;
mod paths;
mod read;
mod replace;
mod step_rules;
mod validate;

#[cfg(test)]
mod tests;

pub use clip::{Clipped, clip_plan, parse_plan_clipped};
pub use paths::{standing_at, standing_inside};
pub use read::{is_whole_plan, normalise_owned_plan, normalise_plan, parse_plan, parse_plan_in};
pub use replace::replace_plan;
pub use step_rules::keep_step_rules;
pub use validate::validate_plan;

use surety_common::domain::plan::Plan;
use surety_common::domain::step::StepState;

/// A plan and the states of its steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanState {
    /// The plan.
    pub plan: Plan,
    /// The states of the steps, in their order; a missing one is pending.
    pub statuses: Vec<StepState>,
}

impl PlanState {
    /// The state of the step at this index.
    pub fn status(&self, at: usize) -> StepState {
        self.statuses.get(at).copied().unwrap_or(StepState::Pending)
    }
}
