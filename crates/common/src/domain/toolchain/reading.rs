//! What a delivery is read as.

use super::event::{Ignored, ToolchainEvent};
use super::withdrawal::Withdrawal;

/// What a delivery is read as.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// One event for each account or role that must act; never empty.
    Tasks(Vec<ToolchainEvent>),
    /// Nothing to do.
    Ignored(Ignored),
    /// Nothing to do, and what was asked for before is not wanted any more.
    Withdrawn(Withdrawal),
}
