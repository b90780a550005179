//! `surety verify` over real folders and real git repositories: no service runs, and no database is there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may fail")]

mod command;
mod helper;
mod input;
mod predicates;
mod revision;
mod signed;
mod support;
mod verdict;
