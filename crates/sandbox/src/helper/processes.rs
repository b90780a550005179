//! The processes of one command: its main one, and what it leaves behind.

use crate::spec::{Exit, Left};
use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use std::fs;
use std::time::{Duration, Instant};

/// The time in which background processes may end by themselves, such as the reader of its output.
pub(super) const GRACE: Duration = Duration::from_millis(200);

/// The time limit for the end of killed processes.
const GONE: Duration = Duration::from_secs(2);

/// The most background processes that a report names.
const NAMED: usize = 32;

/// The main process of a command and how it ended.
#[derive(Debug)]
pub(super) struct ProcessTree {
    main: Pid,
    pub(super) exit: Option<Exit>,
    /// When the main process was seen to have ended.
    ended_at: Option<Instant>,
}

impl ProcessTree {
    pub(super) const fn of(main: Pid) -> Self {
        Self { main, exit: None, ended_at: None }
    }

    /// Collects every ended process; returns whether any is left.
    pub(super) fn collect(&mut self) -> Result<bool, Errno> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return Ok(true),
                Ok(WaitStatus::Exited(pid, code)) => self.note(pid, Exit::Code(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.note(pid, Exit::Signal(signal as i32));
                }
                Ok(
                    WaitStatus::Stopped(..)
                    | WaitStatus::Continued(_)
                    | WaitStatus::PtraceEvent(..)
                    | WaitStatus::PtraceSyscall(_),
                )
                | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn note(&mut self, pid: Pid, exit: Exit) {
        if pid == self.main {
            self.exit = Some(exit);
            self.ended_at = Some(Instant::now());
        }
    }

    /// What is left of the grace period of background processes; none while the main process runs.
    pub(super) fn grace_left(&self) -> Option<Duration> {
        self.ended_at.map(|at| (at + GRACE).saturating_duration_since(Instant::now()))
    }
}

/// A process as `/proc` shows it.
struct Seen {
    pid: i32,
    parent: i32,
    name: String,
    ended: bool,
}

/// Every visible process but `init`, in a PID namespace.
pub(super) fn all_but_init() -> Vec<Left> {
    let left = seen().into_iter().filter(|process| process.pid != 1 && !process.ended);
    left.take(NAMED).map(|process| Left { pid: process.pid, name: process.name }).collect()
}

/// The descendants of this process. Orphans are its children, because it is their subreaper.
pub(super) fn descendants() -> Vec<Left> {
    let mut all = seen();
    let mut found = Vec::new();
    let mut parents = vec![std::process::id().cast_signed()];
    while let Some(parent) = parents.pop() {
        let (children, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|process| process.parent == parent);
        parents.extend(children.iter().map(|process| process.pid));
        found.extend(children.into_iter().filter(|process| !process.ended));
        all = others;
    }
    found.into_iter().map(|process| Left { pid: process.pid, name: process.name }).collect()
}

/// Sends a signal to every descendant.
pub(super) fn signal_descendants(signal: Signal) {
    let ours = std::process::id().cast_signed();
    for process in descendants() {
        let Some(pid) = rustix::process::Pid::from_raw(process.pid) else { continue };
        // The id may have been reused: the handle is taken first, and its ancestry is checked after.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
            if descends_from(process.pid, ours) {
                signal::kill(Pid::from_raw(process.pid), signal).ok();
            }
            continue;
        };
        if descends_from(process.pid, ours)
            && let Some(signal) = rustix::process::Signal::from_named_raw(signal as i32)
        {
            // It may have ended meanwhile.
            pidfd_send_signal(&handle, signal).ok();
        }
    }
}

/// Kills every descendant until none is left; returns those of the first scan.
pub(super) fn kill_descendants(tree: &mut ProcessTree) -> Result<Vec<Left>, Errno> {
    let mut left = descendants();
    left.truncate(NAMED);
    let until = Instant::now() + GONE;
    while tree.collect()? && Instant::now() < until {
        signal_descendants(Signal::SIGKILL);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(left)
}

fn descends_from(pid: i32, ancestor: i32) -> bool {
    let mut pid = pid;
    while pid > 1 {
        match read(pid) {
            Some(process) if process.parent == ancestor => return true,
            Some(process) => pid = process.parent,
            None => return false,
        }
    }
    false
}

fn seen() -> Vec<Seen> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(read).collect()
}

/// None when the process is gone.
fn read(pid: i32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold parentheses itself.
    let (begin, end) = (stat.find('(')?, stat.rfind(')')?);
    let mut fields = stat.get(end + 2..)?.split(' ');
    let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
    let name = stat.get(begin + 1..end)?.to_owned();
    Some(Seen { pid, parent, name, ended: matches!(state, "Z" | "X") })
}
