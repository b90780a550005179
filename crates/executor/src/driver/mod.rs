//! Drivers: whoever decides what a step does next.
//!
//! A driver moves nothing. What it decides passes the same three validations whoever it is.

pub mod script;

use surety_common::domain::decision::ExecuteDecision;

/// What a driver wants next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// A decision, to be validated.
    Decide(Box<ExecuteDecision>),
    /// The step cannot be finished as planned: fail it with this reason.
    Replan(String),
}
