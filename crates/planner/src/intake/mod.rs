//! Taking runs in: an order becomes a run, with its plan or waiting for one; a run that waits gets its
//! plan, or the next revision of it.

mod create;
mod order;
mod revise;

pub use create::{Accepted, create};
pub use order::{NewPlan, RunOrder};
pub use revise::{request_replan, submit, wanted};
