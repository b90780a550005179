//! Intake: creates runs from requests, and stores the plans and revisions that are submitted for
//! them.

mod correct;
mod create;
mod fixed;
pub(crate) mod leases;
mod request;
mod revise;

pub use correct::attempts_left;
pub(crate) use correct::refuse;
pub use create::{Accepted, create};
pub use fixed::fixed_checks;
pub use request::{NewPlan, RunRequest};
pub use revise::wanted;
pub(crate) use revise::{request_replan, submit};
