//! Taking runs in: an order becomes a run, with its plan or waiting for one; a run that waits gets its
//! plan, or the next revision of it.

mod create;
mod request;
mod revise;

pub use create::{Accepted, create};
pub use request::{NewPlan, RunRequest};
pub use revise::{request_replan, submit, wanted};
