//! The types, the states and the rules, as plain data and pure functions.
//!
//! Time, ids and seeds are arguments. The module performs no I/O.

pub mod acceptance;
pub mod canary;
pub mod caution;
pub mod check;
pub mod check_inputs;
pub mod command;
pub mod confirmation;
pub mod control;
pub mod decision;
pub mod execution;
pub mod fault;
pub mod fields;
pub mod grant;
pub mod graph;
pub mod identity;
pub mod journal;
pub mod json;
pub mod limits;
pub mod machine;
pub mod manifest;
pub mod network;
pub mod path;
pub mod plan;
pub mod planning;
pub mod policy;
pub mod problem;
pub mod reader;
pub mod receipt;
pub mod redact;
pub mod run;
pub mod scope;
pub mod secret;
pub mod shown_call;
pub mod source_tests;
pub mod step;
pub mod step_checks;
pub mod stop;
pub mod tests_named;
pub mod tests_seen;
pub mod todo;
pub mod verdict;
pub mod verification;
pub mod verify_tool;
pub mod workspace;
