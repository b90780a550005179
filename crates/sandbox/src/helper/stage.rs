//! The messages between the stages, and what each stage does at its start.

use super::account::Account;
use crate::spec::{Left, LimitHit, NotStarted, Spec};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The stage that becomes pid 1 of the command's namespaces.
pub(super) const INIT: &str = "init";
/// The stage that confines itself by Landlock and becomes the command.
pub(super) const CONFINE: &str = "confine";
/// The stage that connects sockets of the command's loopback with the host's network.
pub(super) const BRIDGE: &str = "bridge";
/// Lets the command begin.
pub(super) const GO: u8 = b'G';

/// What the supervisor sends to the next stage.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) spec: Spec,
    /// The account to become; none keeps the one it has.
    pub(super) account: Option<Account>,
    /// The folder of this command alone.
    pub(super) scratch: Option<PathBuf>,
}

/// What a stage sends to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// Everything is set up.
    Ready,
    /// The command did not start.
    NotStarted(NotStarted),
    /// The command ended.
    Ended {
        exit: crate::spec::Exit,
        left: Vec<Left>,
        /// The limit for which the next stage ended it.
        limit: Option<LimitHit>,
        network_refused: Option<bool>,
        hosts_refused: Vec<String>,
    },
}

/// The socket that this stage was given as its standard input. The command gets another one.
pub(super) fn control() -> io::Result<UnixStream> {
    io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)
}

/// Takes signals as something to read. What this process starts inherits that they are blocked.
pub(super) fn signals() -> io::Result<SignalFd> {
    let mut taken = SigSet::empty();
    for signal in
        [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE]
    {
        taken.add(signal);
    }
    taken.thread_block()?;
    Ok(SignalFd::with_flags(&taken, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

/// Blocks no signal, as a program expects at its start.
pub(super) fn unblock_signals() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Reads away the signals that came.
pub(super) fn drain(signals: &SignalFd) -> io::Result<()> {
    while signals.read_signal()?.is_some() {}
    Ok(())
}
