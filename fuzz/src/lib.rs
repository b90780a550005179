//! The properties that the project's tests try briefly, for libFuzzer to try at length.

#[path = "../../tests/src/arbitrary.rs"]
mod arbitrary;

pub use arbitrary::*;
