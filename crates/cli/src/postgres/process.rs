//! Signals to Postgres processes, and the check that a process is the server of a cluster.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Close all connections, write a checkpoint, end.
pub(super) const FAST_SHUTDOWN: Signal = Signal::SIGINT;
/// End at once; the next start recovers from the log.
pub(super) const IMMEDIATE_SHUTDOWN: Signal = Signal::SIGQUIT;

/// Sends `signal`. A process that has already ended is no error.
pub(super) fn send(pid: i32, signal: Signal) {
    if let Err(error) = kill(Pid::from_raw(pid), signal) {
        tracing::debug!(pid, %signal, %error, "postgres: the process to signal has already ended");
    }
}

/// Whether `pid` is the server of `cluster`. A process id alone proves nothing: after a restart of
/// the machine it may belong to another process.
pub(super) fn serves(pid: i32, cluster: &Path) -> bool {
    if Path::new("/proc/self").exists() {
        // The server's working folder is its cluster; a process that has ended has none.
        return fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == cluster);
    }
    let output = Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output();
    output.is_ok_and(|output| {
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        line.contains("postgres") && line.contains(&*cluster.to_string_lossy())
    })
}
