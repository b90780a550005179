//! Requests of callers, converted to the input of intake and of runs.

mod answers;
mod fields;
mod limits;
mod plan;
mod plan_texts;
mod run;
mod sender;

pub(super) use answers::{read_answer, read_confirmation, read_extension};
pub(super) use fields::{check_open, named, named_before, read_reason, wanted_namespace};
pub use limits::read_own_limits;
pub(super) use plan::{ReadPlan, check_submission, read_new_plan, read_replan_cause};
pub(super) use run::{checked_labels, read_fork, read_run_request};
pub(super) use sender::Sender;

#[cfg(test)]
mod tests;
