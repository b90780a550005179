//! What the end-to-end tests share.

pub mod harness;
pub mod conformance;
pub mod otlp;
