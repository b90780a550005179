//! The command line `surety`, as a library, so that tests and other tools can use its parts.

pub mod commands;
pub mod postgres;
