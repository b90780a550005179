//! The properties that the project's tests try briefly, for libFuzzer to try at length.
//!
//! The readers of external bytes are pure functions, and are built here from their own files under
//! the names that the properties use. A fuzz build therefore needs neither gRPC nor Postgres.

extern crate self as surety_executor;
extern crate self as surety_planner;

#[path = "../../tests/src/arbitrary.rs"]
pub mod arbitrary;
#[path = "../../crates/planner/src/plan/mod.rs"]
pub mod plan;
pub mod seeds;

/// Decisions, without the JSON Schemas that their arguments are held to.
#[path = "../../crates/executor/src/decision"]
pub mod decision {
    #[allow(dead_code, reason = "the corrections that quote less are not built here")]
    mod correction;
    mod read;
    mod shape;

    pub use read::{Classified, Reading, classify, parse_decision};
    pub use shape::words;
}

/// The write scopes of steps.
#[path = "../../crates/executor/src/tool"]
pub mod tool {
    #[allow(dead_code, reason = "the tools that make some of these errors are not built here")]
    mod error;
    mod scope;

    pub use error::{ErrorCode, ToolError};
    pub use scope::WriteScope;
}
