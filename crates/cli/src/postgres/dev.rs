//! Runs a command with a temporary database.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::PostgresError;
use super::process::send;
use super::{Durability, EmbeddedPostgres, Folders};

/// Starts a temporary Postgres with these settings (each `name=value`), runs `command` with its `DATABASE_URL`, stops
/// it, and returns the command's exit code. For a command that a signal ended, the code is 128 plus the signal's number.
///
/// # Errors
/// The database could not be started or stopped, or the command could not be started.
pub async fn run_with_database(
    folders: Folders<'_>,
    durability: Durability,
    settings: &[&str],
    command: &[OsString],
) -> Result<u8, PostgresError> {
    let refused = |source| PostgresError::Command { command: shown(command), source };
    // Before the server starts, so that no signal ends this process without the server.
    let interrupts = Interrupts::listen().map_err(refused)?;
    let postgres = EmbeddedPostgres::start_temporary_in(folders, durability, settings).await?;
    let ended = run(command, &postgres.url(), interrupts).await;
    postgres.stop().await?;
    ended.map(code_of).map_err(refused)
}

/// The signals that would end this process before the database is stopped.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

async fn run(
    command: &[OsString],
    url: &str,
    mut interrupts: Interrupts,
) -> std::io::Result<ExitStatus> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| std::io::Error::other("no command was given"))?;
    let mut child = Command::new(program).args(arguments).env("DATABASE_URL", url).spawn()?;
    loop {
        tokio::select! {
            ended = child.wait() => return ended,
            // The terminal has sent these two signals to the command as well.
            _ = interrupts.interrupt.recv() => {}
            _ = interrupts.hang_up.recv() => {}
            _ = interrupts.terminate.recv() => terminate(&child),
        }
    }
}

fn terminate(child: &Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        send(pid, nix::sys::signal::Signal::SIGTERM);
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn shown(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
