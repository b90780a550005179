//! The kinds of checks that only the gate knows.

pub mod expression;
pub mod http_probe;
