//! Intake: creates runs from requests, and stores the plans and revisions that are submitted for
//! them.

mod correct;
mod create;
mod fixed;
mod fork;
pub(crate) mod leases;
mod request;
mod revise;

pub use correct::attempts_left;
pub(crate) use correct::refuse;
#[cfg(test)]
pub(crate) use correct::{counted, refuse_in};
#[cfg(test)]
pub(crate) use create::wait_for_plan;
pub use create::{Accepted, create};
pub(crate) use create::{first_execution, first_moves, first_revision};
pub(crate) use fixed::checks_to_add;
pub use fixed::fixed_checks;
pub(crate) use fork::{Fork, fork};
pub use request::{NewPlan, RunRequest};
pub use revise::wanted;
pub(crate) use revise::{request_replan, submit};
