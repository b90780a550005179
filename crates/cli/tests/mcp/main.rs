//! `surety mcp` as an agent meets it: the built binary, real repositories, and a strict client over its standard input
//! and output. No service runs, and no database is there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may fail")]

mod ask;
mod client;
mod compatible;
mod contract;
mod flow;
mod folder;
mod given_up;
mod hook;
mod hostile;
mod http;
mod liars;
mod newest;
mod page;
mod rounds;
mod seen;
#[allow(dead_code, reason = "the home of the tests of `surety verify`, which use all of it")]
#[path = "../verify/support.rs"]
mod support;
