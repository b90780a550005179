//! What the end-to-end tests share.

pub mod conformance;
pub mod otlp;
