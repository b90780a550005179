//! What the end-to-end tests share.

pub mod arbitrary;
pub mod audit;
pub mod authority;
pub mod conformance;
pub mod harness;
pub mod otlp;
pub mod script;
