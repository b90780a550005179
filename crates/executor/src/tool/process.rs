//! Runs one command to its end, or ends it with all processes that it started.
//!
//! ```text
//!   spawn in its own process group -> wait for: exit | deadline | cancel | too much output
//!     -> SIGTERM to the rest of the group, a grace period, SIGKILL
//!     -> read the rest of the output, for a limited time: a process that left the group may hold the pipes
//! ```
//!
//! If the executor is killed in between, the module `guard` ends the group.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Environment, ToolContext, guard};
use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use surety_common::domain::receipt::Command;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::Child;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The most bytes of output, both streams together; a command that writes more is ended.
pub const OUTPUT_LIMIT: usize = 64 << 20;

/// The size of a read in bytes, the capacity of a pipe on Linux.
const READ: usize = 64 << 10;

/// The grace period after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How long the pipes of an ended command may stay open before their holders are ended too.
const PIPES: Duration = Duration::from_millis(200);

/// The time limit for the effects of a signal.
const AFTER: Duration = Duration::from_secs(2);

/// How often a group is checked during the grace period.
const POLL: Duration = Duration::from_millis(10);

/// A command to run.
#[derive(Debug, Clone)]
pub struct CommandRequest {
    /// The program and its arguments, or a line for `sh`.
    pub command: Command,
    /// The working directory; absolute.
    pub folder: PathBuf,
    /// The whole environment of the command.
    pub environment: Environment,
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself.
    Itself,
    /// The deadline passed.
    Deadline,
    /// The call was cancelled.
    Cancel,
    /// It wrote more than [`OUTPUT_LIMIT`].
    OutputLimit,
}

/// A command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What ended it.
    pub ending: Ending,
    /// Its exit code; 128 plus the signal's number for a killed command.
    pub exit_code: i32,
    /// Its whole standard output.
    pub stdout: Vec<u8>,
    /// Its whole standard error.
    pub stderr: Vec<u8>,
    /// Whether a process that left the group still held the pipes when reading ended, so that the
    /// end of the output may be missing.
    pub left_running: bool,
}

/// Runs a command until it ends, the context's deadline passes or its token is cancelled. No
/// process in its group outlives the call, even if the call's future is dropped.
///
/// # Errors
/// `program_not_found`, and other errors of the operating system at its start.
pub async fn run(ctx: &ToolContext, request: &CommandRequest) -> Result<Finished, ToolError> {
    ctx.check()?;
    guard::prepare();
    let mut child = spawn(request)?;
    let group = Group::of(&child)?;
    let captured = Arc::new(Captured::default());
    let readers = [
        child.stdout.take().map(|pipe| read(pipe, &captured, OUT)),
        child.stderr.take().map(|pipe| read(pipe, &captured, ERR)),
    ];
    let (ending, status) = tokio::select! {
        biased;
        status = child.wait() => (Ending::Itself, Some(status)),
        () = captured.full.notified() => (Ending::OutputLimit, None),
        () = ctx.cancel.cancelled() => (Ending::Cancel, None),
        () = sleep_until(ctx.deadline) => (Ending::Deadline, None),
    };
    let exit_code = match status {
        Some(status) => code_of(status.map_err(|error| ToolError::io("wait", &error))?),
        None => end(&mut child, &group, &ctx.kill).await?,
    };
    let left_running = !drain(readers, &group, &ctx.kill).await;
    let (stdout, stderr) = captured.take();
    // The excess output may be read only after the exit was seen.
    let ending = if ending == Ending::Itself && stdout.len() + stderr.len() > OUTPUT_LIMIT {
        Ending::OutputLimit
    } else {
        ending
    };
    Ok(Finished { ending, exit_code, stdout, stderr, left_running })
}

fn spawn(request: &CommandRequest) -> Result<Child, ToolError> {
    let line;
    let argv: &[String] = match &request.command {
        Command::Argv(argv) => argv,
        Command::Line(text) => {
            line = ["sh".to_owned(), "-c".to_owned(), text.clone()];
            &line
        }
    };
    let Some((program, rest)) = argv.split_first() else {
        let message = "a command needs a program";
        return Err(ToolError::new(ErrorCode::ArgumentsInvalid, message));
    };
    let found = locate(program, request)?;
    tokio::process::Command::new(found)
        .arg0(program)
        .args(rest)
        .current_dir(&request.folder)
        .env_clear()
        .envs(request.environment.iter())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(program, &error))
}

/// Finds the program. The system call that starts a program copies this whole process first when
/// the `PATH` differs, which is slow.
fn locate(program: &str, request: &CommandRequest) -> Result<PathBuf, ToolError> {
    // A relative program is relative to the command's working directory, not the executor's.
    if program.contains('/') {
        return Ok(request.folder.join(program));
    }
    which::which_in(program, request.environment.get("PATH"), &request.folder)
        .map_err(|_| not_found(program))
}

fn not_started(program: &str, error: &std::io::Error) -> ToolError {
    if error.kind() == std::io::ErrorKind::NotFound {
        return not_found(program);
    }
    ToolError::io(program, error)
}

fn not_found(program: &str) -> ToolError {
    let message = format!("the program {program:?} does not exist; use one that is installed");
    ToolError::new(ErrorCode::ProgramNotFound, message)
}

/// The process group of a command. Dropping it kills the remaining processes.
struct Group {
    id: Pid,
    /// Set when no process is left: the id may then be reused, so no signal is sent to it again.
    ended: AtomicBool,
}

impl Group {
    fn of(child: &Child) -> Result<Self, ToolError> {
        child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(|id| {
                guard::watch(Pid::from_raw(id));
                Self { id: Pid::from_raw(id), ended: AtomicBool::new(false) }
            })
            .ok_or_else(|| ToolError::new(ErrorCode::InternalError, "a new process has no id"))
    }

    /// Sends a signal; returns whether any process of the group is left.
    fn signal(&self, signal: impl Into<Option<Signal>>) -> bool {
        if self.ended.load(Ordering::Relaxed) {
            return false;
        }
        let any_left = signal::killpg(self.id, signal) != Err(Errno::ESRCH);
        self.ended.store(!any_left, Ordering::Relaxed);
        any_left
    }

    /// Sends SIGTERM to the group, and SIGKILL after the grace period or when it must end at once.
    async fn end(&self, kill: &CancellationToken) {
        let until = Instant::now() + GRACE;
        let mut any_left = self.signal(Signal::SIGTERM);
        while any_left && Instant::now() < until && !kill.is_cancelled() {
            sleep(POLL).await;
            any_left = self.signal(None);
        }
        if any_left {
            self.signal(Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        guard::release(self.id);
    }
}

/// Ends a running command. Whatever its exit code, it is reported as killed, because it did not
/// finish.
async fn end(child: &mut Child, group: &Group, kill: &CancellationToken) -> Result<i32, ToolError> {
    // The child is awaited concurrently, because an unreaped process stays in its group.
    let (status, ()) =
        futures::future::join(timeout(GRACE + AFTER, child.wait()), group.end(kill)).await;
    let signal = match status {
        Ok(status) => {
            let status = status.map_err(|error| ToolError::io("wait", &error))?;
            status.signal().unwrap_or(Signal::SIGTERM as i32)
        }
        // SIGKILL had no effect yet: the kernel blocks the process.
        Err(_) => Signal::SIGKILL as i32,
    };
    Ok(128 + signal)
}

fn code_of(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 128,
    }
}

/// Reads both pipes to their end; returns whether the end was reached.
async fn drain(
    readers: [Option<JoinHandle<()>>; 2],
    group: &Group,
    kill: &CancellationToken,
) -> bool {
    let aborts: Vec<_> = readers.iter().flatten().map(JoinHandle::abort_handle).collect();
    let mut ends = Box::pin(futures::future::join_all(readers.into_iter().flatten()));
    let mut ended = timeout(PIPES, &mut ends).await.is_ok();
    if !ended {
        group.end(kill).await;
        ended = timeout(AFTER, &mut ends).await.is_ok();
    }
    for abort in aborts {
        abort.abort();
    }
    ended
}

const OUT: usize = 0;
const ERR: usize = 1;

/// The output of the two streams so far.
#[derive(Default)]
struct Captured {
    streams: Mutex<[Vec<u8>; 2]>,
    full: Notify,
}

impl Captured {
    /// Stores what fits; returns whether all did.
    fn keep(&self, stream: usize, bytes: &[u8]) -> bool {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = streams.iter().map(Vec::len).sum();
        // One byte above the limit is stored, which distinguishes an exceeded limit from a reached
        // one.
        let free = (OUTPUT_LIMIT + 1).saturating_sub(kept);
        let fitting = bytes.get(..free).unwrap_or(bytes);
        if let Some(stream) = streams.get_mut(stream) {
            stream.extend_from_slice(fitting);
        }
        let fits = kept + fitting.len() <= OUTPUT_LIMIT;
        if !fits {
            self.full.notify_one();
        }
        fits
    }

    fn take(&self) -> (Vec<u8>, Vec<u8>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let [out, err] = &mut *streams;
        (std::mem::take(out), std::mem::take(err))
    }
}

fn read(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    captured: &Arc<Captured>,
    stream: usize,
) -> JoinHandle<()> {
    let captured = Arc::clone(captured);
    tokio::spawn(async move {
        loop {
            match poll_fn(|cx| keep_next(&mut pipe, cx, &captured, stream)).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::warn!(%error, "process: a command's output could not be read further");
                    return;
                }
            }
        }
    })
}

/// Reads once; returns whether there may be more. The buffer exists only during the read, because
/// most commands write rarely.
fn keep_next(
    pipe: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    captured: &Captured,
    stream: usize,
) -> Poll<std::io::Result<bool>> {
    let mut bytes = [const { MaybeUninit::uninit() }; READ];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(pipe).poll_read(cx, &mut buffer))?;
    let read = buffer.filled();
    Poll::Ready(Ok(!read.is_empty() && captured.keep(stream, read)))
}
