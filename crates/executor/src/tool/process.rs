//! Running one command to its end, or ending it with everything it started.
//!
//! ```text
//!   spawn in a group of its own -> wait for: exit | deadline | cancel | too much output
//!     -> SIGTERM to what is left of the group, a grace, SIGKILL
//!     -> the last of the output, for a bounded time: who left the group may hold the pipes
//! ```
//!
//! Should the executor be killed meanwhile, the module `guard` ends the group in its place.

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

/// Bytes of output, both streams together, that are kept; a command that writes more is ended.
pub const OUTPUT_LIMIT: usize = 64 << 20;

/// Bytes that are read at once: as many as a pipe of Linux holds.
const READ: usize = 64 << 10;

/// How long a process may take to end itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How long the pipes of an ended command may stay open before what holds them is ended too.
const PIPES: Duration = Duration::from_millis(200);

/// How long is waited for what a signal or the kernel has still to do.
const AFTER: Duration = Duration::from_secs(2);

/// How often a group that was asked to end is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What to run.
#[derive(Debug, Clone)]
pub struct CommandRequest {
    /// The program and its arguments, or a line for `sh`.
    pub command: Command,
    /// Where it runs; absolute.
    pub folder: PathBuf,
    /// All that it sees of the environment.
    pub environment: Environment,
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself.
    Itself,
    /// The deadline passed.
    Deadline,
    /// The call was called off.
    Cancel,
    /// It wrote more than [`OUTPUT_LIMIT`].
    OutputLimit,
}

/// A command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What ended it.
    pub ending: Ending,
    /// Its exit code; 128 and the signal's number when it was killed, by whomever.
    pub exit_code: i32,
    /// All that it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// All that it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// Whether a process that left the group still held the pipes when reading was given up, so
    /// that something may be missing from the output's end.
    pub left_running: bool,
}

/// Runs a command until it ends, the context's deadline passes or its token is cancelled. Nothing
/// it started in its group outlives the call, nor the dropping of the call's future.
///
/// # Errors
/// `program_not_found`, and what else the operating system says when it does not start.
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
    // The pipes may tell of too much output only after the exit was seen.
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

/// Where the program is. It is looked for here and not by the system's call that starts it: with a
/// `PATH` that may differ from this process's own, that call copies this whole process first, which
/// costs more than all else about a start.
fn locate(program: &str, request: &CommandRequest) -> Result<PathBuf, ToolError> {
    // A relative program is meant from where the command runs, not from where the executor does.
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
    let message = format!("there is no program {program:?}; name one that is installed");
    ToolError::new(ErrorCode::ProgramNotFound, message)
}

/// The process group of a command. What is left of it is killed when this goes, however the call
/// ends.
struct Group {
    id: Pid,
    /// Once nobody is left the id may be given to strangers, so nothing is sent to it again.
    gone: AtomicBool,
}

impl Group {
    fn of(child: &Child) -> Result<Self, ToolError> {
        child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(|id| {
                guard::watch(Pid::from_raw(id));
                Self { id: Pid::from_raw(id), gone: AtomicBool::new(false) }
            })
            .ok_or_else(|| ToolError::new(ErrorCode::InternalError, "a new process has no id"))
    }

    /// Sends a signal; answers whether anybody is left who could get it.
    fn signal(&self, signal: impl Into<Option<Signal>>) -> bool {
        if self.gone.load(Ordering::Relaxed) {
            return false;
        }
        let anybody = signal::killpg(self.id, signal) != Err(Errno::ESRCH);
        self.gone.store(!anybody, Ordering::Relaxed);
        anybody
    }

    /// Asks the group to end, and kills what has not ended after the grace, or once it must be over.
    async fn end(&self, kill: &CancellationToken) {
        let until = Instant::now() + GRACE;
        let mut anybody = self.signal(Signal::SIGTERM);
        while anybody && Instant::now() < until && !kill.is_cancelled() {
            sleep(LOOK).await;
            anybody = self.signal(None);
        }
        if anybody {
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

/// Ends a command that is still running. However it takes the signal, its code is that of a
/// killed one: it did not get to its end.
async fn end(child: &mut Child, group: &Group, kill: &CancellationToken) -> Result<i32, ToolError> {
    // Waiting beside the signals, because a process that nobody waits for stays in its group.
    let (status, ()) =
        futures::future::join(timeout(GRACE + AFTER, child.wait()), group.end(kill)).await;
    let signal = match status {
        Ok(status) => {
            let status = status.map_err(|error| ToolError::io("wait", &error))?;
            status.signal().unwrap_or(Signal::SIGTERM as i32)
        }
        // Not even SIGKILL was taken yet: the kernel holds it.
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

/// Reads to the end of both pipes; answers whether the end came.
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

/// What the two streams gave so far.
#[derive(Default)]
struct Captured {
    streams: Mutex<[Vec<u8>; 2]>,
    full: Notify,
}

impl Captured {
    /// Keeps what fits; answers whether all did.
    fn keep(&self, stream: usize, bytes: &[u8]) -> bool {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = streams.iter().map(Vec::len).sum();
        // One byte beyond the limit is kept, which is how too much is told from just enough.
        let room = (OUTPUT_LIMIT + 1).saturating_sub(kept);
        let fitting = bytes.get(..room).unwrap_or(bytes);
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
                    tracing::warn!(%error, "a command's output could not be read on");
                    return;
                }
            }
        }
    })
}

/// Reads once; answers whether more is to be read. The buffer is there for the read and not for as
/// long as the command runs, which most of the time writes nothing.
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
