//! The helper's stages. Each is one process, but for bridge with one thread, and prints nothing: its standard
//! output and error are the command's.

mod account;
mod bridge;
mod cgroup;
mod confine;
mod files;
mod filter;
mod init;
mod limits;
mod loopback;
pub(crate) mod machine;
mod memory;
mod mounts;
mod names;
mod passing;
mod ports;
mod processes;
mod program;
mod proxy;
mod relay;
mod scratch;
mod stage;
mod supervisor;
mod unnamed;
mod watchdog;

use stage::{BRIDGE, CONFINE, INIT};
use std::ffi::OsStr;
use std::io;

/// Runs one stage; answers the process's exit code.
pub(crate) fn run(stage: &OsStr) -> i32 {
    let ended = match stage.to_str() {
        Some(crate::launch::SUPERVISE) => supervisor::run(),
        Some(INIT) => init::run(),
        Some(CONFINE) => confine::run(),
        Some(BRIDGE) => bridge::run(),
        Some(_) | None => Err(io::Error::other("no such stage")),
    };
    // A stage prints nothing; its parent sees the socket close without a report.
    if ended.is_ok() { 0 } else { 70 }
}
