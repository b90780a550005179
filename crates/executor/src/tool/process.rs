//! Runs one command to its end, or ends it with all processes that it started.
//!
//! ```text
//!   start the sandbox's helper -> send it the command -> wait for: report | deadline | cancel
//!     -> ask for an end, a grace, kill
//!     -> the report: how it ended, under what, and what it left behind
//! ```
//!
//! The helper ends everything when its socket closes, so nothing outlives the call, its future, or
//! this process.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::{Environment, ToolContext};
use nix::sys::signal::Signal;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use surety_common::domain::receipt::Command;
use surety_common::domain::redact::RedactedStream;
use surety_sandbox::{
    Exit, Launch, LaunchError, Left, LimitHit, NotStarted, Refusal, Report, Spec,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The most bytes of output that are stored, both streams together. A command may write more: the middle
/// is counted and not stored.
pub const OUTPUT_LIMIT: usize = 64 << 20;

/// The bytes that are stored from the end of each stream that does not fit.
const TAIL: usize = 64 << 10;

/// The bytes that are stored from the start of both streams together; the rest of the limit is for the
/// ends, and for the lines that say what is missing.
const HEAD: usize = OUTPUT_LIMIT - 3 * TAIL;

/// The size of a read in bytes, the capacity of a pipe on Linux.
const READ: usize = 64 << 10;

/// The grace period after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// The time limit for the end of the helper and of the pipes.
const AFTER: Duration = Duration::from_secs(5);

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
    /// It ended by itself, or at a limit of its sandbox.
    Itself,
    /// The deadline passed.
    Deadline,
    /// The call was cancelled.
    Cancel,
}

/// A command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// What ended it.
    pub ending: Ending,
    /// Its exit code; 128 plus the signal's number for a killed command.
    pub exit_code: i32,
    /// Its standard output, whole within [`OUTPUT_LIMIT`].
    pub stdout: Vec<u8>,
    /// Its standard error, in the same way.
    pub stderr: Vec<u8>,
    /// The bytes of both streams that are not stored.
    pub left_out: u64,
    /// Processes that it left running, which were killed.
    pub left: Vec<Left>,
    /// The limit of the sandbox that ended it.
    pub limit: Option<LimitHit>,
    /// Whether it tried an address without a route.
    pub network_refused: bool,
    /// The hosts that it asked for and was refused.
    pub hosts_refused: Vec<String>,
    /// The sandbox level in force, as in receipts.
    pub sandbox: String,
}

/// Runs a command until it ends, the context's deadline passes or its token is cancelled. No
/// process that it started outlives the call, even if the call's future is dropped.
///
/// # Errors
/// `program_not_found`, `sandbox_failed`, `sandbox_unavailable`, `sandbox_required`, and other errors of
/// the operating system at its start.
pub async fn run(ctx: &ToolContext, request: &CommandRequest) -> Result<Finished, ToolError> {
    ctx.check()?;
    let described = request.clone();
    let spec = describe(ctx, move |ctx| ctx.sandbox.spec(ctx, &described)).await?;
    carry_out(ctx, &spec).await
}

/// Runs the parser of this program over the workspace, as [`run`] does a command. Its output is untrusted.
///
/// # Errors
/// As [`run`].
pub(super) async fn parse(ctx: &ToolContext, input: String) -> Result<Finished, ToolError> {
    ctx.check()?;
    let spec = describe(ctx, move |ctx| ctx.sandbox.parser_spec(ctx, input)).await?;
    carry_out(ctx, &spec).await
}

async fn carry_out(ctx: &ToolContext, spec: &Spec) -> Result<Finished, ToolError> {
    let mut helper = Helper::start(spec, Stdio::piped).await?;
    let captured = Arc::new(Captured::default());
    let readers = [
        helper.child.stdout.take().map(|pipe| read(pipe, &captured, (OUT, ctx.redacted_stream()))),
        helper.child.stderr.take().map(|pipe| read(pipe, &captured, (ERR, ctx.redacted_stream()))),
    ];
    let (ending, report) = tokio::select! {
        biased;
        report = helper.report() => (Ending::Itself, Some(report)),
        () = ctx.cancel.cancelled() => (Ending::Cancel, None),
        () = sleep_until(ctx.deadline) => (Ending::Deadline, None),
    };
    let report = match report {
        Some(report) => report?,
        None => helper.end(&ctx.kill).await?,
    };
    drain(readers).await;
    helper.collect().await;
    let [(stdout, out_left), (stderr, err_left)] = captured.take();
    let ended = finished(report, ending)?;
    Ok(Finished { stdout, stderr, left_out: out_left + err_left, ..ended })
}

/// A command that ended, without its output.
pub(super) fn finished(report: Report, ending: Ending) -> Result<Finished, ToolError> {
    let Report { in_force, exit, left, limit, network_refused, hosts_refused } = report;
    Ok(Finished {
        ending,
        exit_code: code_of(exit, ending)?,
        stdout: Vec::new(),
        stderr: Vec::new(),
        left_out: 0,
        left,
        limit,
        network_refused: network_refused.unwrap_or(false),
        hosts_refused,
        sandbox: in_force.to_string(),
    })
}

/// Runs a person's own command, which has the standard output and error of this process, until it ends or
/// `cancel` is cancelled. No process that it started outlives the call.
///
/// # Errors
/// As [`run`].
pub async fn run_attached(spec: &Spec, cancel: &CancellationToken) -> Result<Finished, ToolError> {
    let mut helper = Helper::start(spec, Stdio::inherit).await?;
    let (ending, report) = tokio::select! {
        biased;
        () = cancel.cancelled() => (Ending::Cancel, helper.end(&CancellationToken::new()).await?),
        report = helper.report() => (Ending::Itself, report?),
    };
    helper.collect().await;
    finished(report, ending)
}

async fn describe(
    ctx: &ToolContext,
    spec: impl FnOnce(&ToolContext) -> Result<Spec, ToolError> + Send + 'static,
) -> Result<Spec, ToolError> {
    let ctx = ctx.clone();
    let described = spawn_blocking(move || spec(&ctx)).await;
    described.map_err(|error| {
        ToolError::new(
            ErrorCode::InternalError,
            format!("the sandbox could not be prepared: {error}"),
        )
    })?
}

/// The sandbox's helper, which runs one command.
pub(super) struct Helper {
    child: Child,
    control: UnixStream,
    /// The part of the report that was read so far.
    received: Vec<u8>,
}

impl Helper {
    pub(super) async fn start(spec: &Spec, output: fn() -> Stdio) -> Result<Self, ToolError> {
        let Launch { command, control, spec } = surety_sandbox::prepare(spec).map_err(launch)?;
        let start = |error: std::io::Error| launch(LaunchError::Start(error));
        let mut command = tokio::process::Command::from(command);
        let child = command.stdout(output()).stderr(output()).spawn().map_err(start)?;
        // The helper's end of the socket must not stay open here.
        drop(command);
        control.set_nonblocking(true).map_err(start)?;
        let mut control = UnixStream::from_std(control).map_err(start)?;
        control.write_all(&spec).await.map_err(start)?;
        Ok(Self { child, control, received: Vec::new() })
    }

    /// The command's standard output; none when it was taken.
    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its standard error; none when it was taken.
    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The helper's report. It can be dropped and called again without a loss.
    pub(super) async fn report(&mut self) -> Result<Report, ToolError> {
        loop {
            match self.control.read_buf(&mut self.received).await {
                Ok(0) => break,
                Ok(_) => {}
                // The helper ended without reading a request, after its report.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => return Err(launch(LaunchError::NoReport(error))),
            }
        }
        Launch::report(&self.received).map_err(launch)
    }

    /// Ends a running command: SIGTERM first, SIGKILL after the grace period or when `kill` is cancelled.
    pub(super) async fn end(&mut self, kill: &CancellationToken) -> Result<Report, ToolError> {
        if self.control.write_all(&[Launch::TERMINATE]).await.is_ok() {
            tokio::select! {
                biased;
                report = self.report() => return report,
                () = kill.cancelled() => {}
                () = sleep(GRACE) => {}
            }
        }
        // A helper that is about to report reads no more requests.
        let requested = self.control.write_all(&[Launch::KILL]).await;
        match timeout(AFTER, self.report()).await {
            Ok(report) => report,
            Err(_) => {
                tracing::error!(
                    ?requested,
                    "executor: the sandbox's helper did not end its command in time; look for its processes"
                );
                let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
                Err(launch(LaunchError::NoReport(late)))
            }
        }
    }

    /// Waits for the helper's own end, which follows its report.
    pub(super) async fn collect(&mut self) {
        match timeout(AFTER, self.child.wait()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "executor: the exit of the sandbox's helper could not be read")
            }
            Err(_) => {
                tracing::warn!("executor: the sandbox's helper reported and is still running")
            }
        }
    }
}

/// The caller's error for a failed helper; missing file descriptors or processes are a retryable error.
fn launch(error: LaunchError) -> ToolError {
    match &error {
        LaunchError::Start(source) => {
            let failure = ToolError::io("the sandbox's helper", source);
            if failure.code == ErrorCode::MachineExhausted {
                return failure;
            }
        }
        LaunchError::NoHelper(_) | LaunchError::Describe(_) | LaunchError::NoReport(_) => {}
    }
    ToolError::new(ErrorCode::SandboxFailed, error.to_string())
}

/// The exit code of a command. A command that was ended has the code of a killed one, whatever its
/// own exit code was.
fn code_of(exit: Exit, ending: Ending) -> Result<i32, ToolError> {
    match (exit, ending) {
        (Exit::NotStarted(why), _) => Err(not_started(&why)),
        (Exit::Signal(signal), _) => Ok(128 + signal),
        (Exit::Code(code), Ending::Itself) => Ok(code),
        (Exit::Code(_), Ending::Deadline | Ending::Cancel) => Ok(128 + Signal::SIGTERM as i32),
    }
}

fn not_started(why: &NotStarted) -> ToolError {
    let code = match why.refusal {
        Refusal::ProgramNotFound => ErrorCode::ProgramNotFound,
        Refusal::ProgramUnusable | Refusal::Setup if why.errno != 0 => {
            let error = std::io::Error::from_raw_os_error(why.errno);
            match (ToolError::io("sandbox", &error).code, why.refusal) {
                (ErrorCode::MachineExhausted, _) => ErrorCode::MachineExhausted,
                (code, Refusal::ProgramUnusable) => code,
                // The folder of the command's temporary files cannot be made.
                (_, _) if is_of_storage(&error) => ErrorCode::IoFailed,
                (_, _) => ErrorCode::SandboxFailed,
            }
        }
        Refusal::NetworkUnsupported => ErrorCode::SandboxUnavailable,
        Refusal::ProgramUnusable | Refusal::ViewUnsupported | Refusal::Setup => {
            ErrorCode::SandboxFailed
        }
    };
    ToolError::new(code, why.message.clone())
}

/// Whether a disk is full, over its quota or read-only.
fn is_of_storage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// Reads to the end of both pipes, which closed with the last process of the command.
async fn drain(readers: [Option<JoinHandle<()>>; 2]) {
    for mut reader in readers.into_iter().flatten() {
        if timeout(AFTER, &mut reader).await.is_err() {
            tracing::warn!(
                "executor: a command's output stays open after its end; the rest is not read"
            );
            reader.abort();
        }
    }
}

const OUT: usize = 0;
const ERR: usize = 1;

/// The output of the two streams so far.
#[derive(Default)]
struct Captured {
    streams: Mutex<[Stream; 2]>,
}

/// What is stored of one stream: its start, and its end where not all of it fits.
#[derive(Default)]
struct Stream {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// The bytes that were read.
    read: u64,
}

impl Captured {
    fn keep(&self, stream: usize, bytes: &[u8]) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let stored: usize = streams.iter().map(|stream| stream.head.len()).sum();
        if let Some(stream) = streams.get_mut(stream) {
            stream.keep(bytes, HEAD.saturating_sub(stored));
        }
    }

    /// What is stored of each stream, and how many of its bytes are not.
    fn take(&self) -> [(Vec<u8>, u64); 2] {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *streams).map(Stream::join)
    }
}

impl Stream {
    fn keep(&mut self, bytes: &[u8], free: usize) {
        // Once bytes were left out, the start is complete, even where the other stream frees nothing.
        let free = if self.tail.is_empty() { free } else { 0 };
        let (fitting, rest) = bytes.split_at(free.min(bytes.len()));
        self.head.extend_from_slice(fitting);
        self.read += bytes.len() as u64;
        let rest = rest.get(rest.len().saturating_sub(TAIL)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    fn join(self) -> (Vec<u8>, u64) {
        let Self { mut head, tail, read } = self;
        let left_out = read.saturating_sub((head.len() + tail.len()) as u64);
        if left_out > 0 {
            let note = format!("\n--- {left_out} bytes of output are not stored ---\n");
            head.extend_from_slice(note.as_bytes());
        }
        head.extend(tail);
        (head, left_out)
    }
}

fn read(
    mut pipe: impl AsyncRead + Unpin + Send + 'static,
    captured: &Arc<Captured>,
    (stream, mut redacted): (usize, Option<RedactedStream>),
) -> JoinHandle<()> {
    let captured = Arc::clone(captured);
    tokio::spawn(async move {
        loop {
            let next = poll_fn(|cx| keep_next(&mut pipe, cx, &captured, (stream, &mut redacted)));
            match next.await {
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
    (stream, redacted): (usize, &mut Option<RedactedStream>),
) -> Poll<std::io::Result<bool>> {
    let mut bytes = [const { MaybeUninit::uninit() }; READ];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(pipe).poll_read(cx, &mut buffer))?;
    let read = buffer.filled();
    match redacted {
        // Part of a secret must not stay where the middle of an output is left out.
        Some(redacted) if read.is_empty() => captured.keep(stream, &redacted.finish()),
        Some(redacted) => captured.keep(stream, &redacted.push(read)),
        None => captured.keep(stream, read),
    }
    Poll::Ready(Ok(!read.is_empty()))
}
