//! TLS on every port and every client, with an authority of the test.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod command_line;
mod database;
mod handshakes;
mod processes;
mod reload;
mod sample;
mod traces;
