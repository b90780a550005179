//! TLS on every port and every client, with an authority of the test.

mod command_line;
mod database;
mod handshakes;
mod processes;
mod reload;
mod sample;
mod traces;
