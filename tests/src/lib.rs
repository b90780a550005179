//! What the end-to-end tests share.

pub mod otlp;
pub mod conformance;
