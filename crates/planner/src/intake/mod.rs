//! Taking runs in: an order becomes a run, with its plan or waiting for one.

mod create;
mod order;

pub use create::{Accepted, create, submit};
pub use order::{NewPlan, RunOrder};
