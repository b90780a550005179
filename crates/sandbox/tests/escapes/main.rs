//! What a command tries to reach from inside its sandbox, and what it may do there: the same attempts at
//! each level that this machine has.
//!
//! An attempt prints `ESCAPED` or leaves a trace on the host. At a level that does not stop it, the row
//! names what that level says is missing. Where it is harmless, the attempt is made without a sandbox too
//! and must succeed there, so that a row that can never fail is noticed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may fail")]

mod attempts;
mod behaviour;
mod capabilities;
mod disk;
mod neighbours;
mod parser;
mod participant;
mod plain_user;
mod projects;
mod support;
