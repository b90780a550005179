//! What the end-to-end tests share.

pub mod agent;
pub mod arbitrary;
pub mod audit;
pub mod authority;
pub mod conformance;
pub mod forge;
pub mod harness;
pub mod liars;
pub mod loop_bench;
pub mod model_server;
pub mod otlp;
pub mod relay;
pub mod script;
pub mod skips;
pub mod timestamp_authority;
pub mod toolchain;
pub mod worker;
