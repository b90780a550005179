//! The planner: intake, runs, plans, replans, waits.

pub mod plan;
