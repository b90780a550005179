//! The process of a server: in the sandbox, with all that it starts, until it is told to end.

use crate::scratch::ScratchFolder;
use crate::tool::process::{Ending, Helper, finished};
use crate::tool::{ErrorCode, ToolError};
use nix::sys::stat::Mode;
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use surety_sandbox::Spec;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The bytes that are kept of what a server wrote last on its standard error.
const LAST_WORDS: usize = 4 << 10;
/// How many lines of that are shown.
const SHOWN_LINES: usize = 3;
/// How long the end of a process is waited for: longer than the helper takes for it at most.
const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// How long the rest of its standard error is waited for.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);
/// The mode of the named pipe: this account alone.
const OWN: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// The named pipe of a server's standard input. The sandbox opens it by its path, before the server's own mount tree.
pub(super) struct Input {
    folder: ScratchFolder,
    sender: pipe::Sender,
}

impl Input {
    /// Makes the pipe. It blocks.
    pub(super) fn make(scratch: &Path) -> Result<Self, ToolError> {
        let failed = |error: std::io::Error| ToolError::io("the input of an MCP server", &error);
        let folder = ScratchFolder::make(scratch, super::SCRATCH_PREFIX).map_err(failed)?;
        let path = input_of(&folder);
        nix::unistd::mkfifo(&path, OWN).map_err(|errno| failed(errno.into()))?;
        // With both ends open here nothing blocks, and a server that does not read is no broken pipe.
        let mut options = OpenOptions::new();
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let file =
            options.read(true).write(true).custom_flags(flags).open(&path).map_err(failed)?;
        Ok(Self { sender: pipe::Sender::from_file(file).map_err(failed)?, folder })
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        input_of(&self.folder)
    }
}

fn input_of(folder: &ScratchFolder) -> PathBuf {
    folder.path().join("input")
}

/// The ends of a server's process that its connection has.
pub(super) struct Pipes {
    pub(super) input: pipe::Sender,
    pub(super) output: ChildStdout,
}

/// A running server.
pub(super) struct ServerProcess {
    stop: CancellationToken,
    kill: CancellationToken,
    ended: watch::Receiver<Option<String>>,
    last_words: LastWords,
    sandbox: String,
}

impl ServerProcess {
    /// Starts a server. It is killed when `lost` is cancelled.
    ///
    /// # Errors
    /// The helper cannot be started.
    pub(super) async fn start(
        spec: &Spec,
        input: Input,
        lost: &CancellationToken,
    ) -> Result<(Self, Pipes), ToolError> {
        let mut helper = Helper::start(spec, Stdio::piped).await?;
        let (Some(output), Some(errors)) = (helper.stdout(), helper.stderr()) else {
            let message = "the output of an MCP server is not connected";
            return Err(ToolError::new(ErrorCode::InternalError, message));
        };
        let last_words = LastWords::default();
        let words = tokio::spawn(last_words.clone().follow(errors));
        let (stop, kill) = (CancellationToken::new(), lost.child_token());
        let (send, ended) = watch::channel(None);
        let Input { folder, sender } = input;
        tokio::spawn(supervise(helper, (stop.clone(), kill.clone()), send, (folder, words)));
        let sandbox = spec.confinement.in_force().to_string();
        let process = Self { stop, kill, ended, last_words, sandbox };
        Ok((process, Pipes { input: sender, output }))
    }

    /// What confines it.
    pub(super) fn sandbox(&self) -> &str {
        &self.sandbox
    }

    /// How it ended, with what it wrote last; none while it runs.
    pub(super) fn end_in_words(&self) -> Option<String> {
        let ended = self.ended.borrow().clone()?;
        Some(match self.last_words.lines() {
            line if line.is_empty() => ended,
            line => format!("{ended}; it wrote last: {line}"),
        })
    }

    /// Waits for the end of the process, at most for `patience`.
    pub(super) async fn wait(&self, patience: Duration) -> Option<String> {
        let mut ended = self.ended.clone();
        let over = async { ended.wait_for(Option::is_some).await.is_ok() };
        timeout(patience, over).await.ok()?;
        self.end_in_words()
    }

    /// Ends it with all that it started. `at_once` leaves it no time.
    pub(super) async fn end(&self, at_once: bool) {
        if at_once {
            self.kill.cancel();
        }
        self.stop.cancel();
        if self.wait(ENDED_WITHIN).await.is_none() {
            tracing::error!(
                "mcp: the process of a server did not end in time; look for its processes"
            );
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill.cancel();
        self.stop.cancel();
    }
}

/// Follows the process to its end.
async fn supervise(
    mut helper: Helper,
    (stop, kill): (CancellationToken, CancellationToken),
    ended: watch::Sender<Option<String>>,
    (_input, words): (ScratchFolder, JoinHandle<()>),
) {
    let reported = tokio::select! {
        biased;
        report = helper.report() => report.map(|report| (report, Ending::Itself)),
        () = stop.cancelled() => helper.end(&kill).await.map(|report| (report, Ending::Cancel)),
        () = kill.cancelled() => helper.end(&kill).await.map(|report| (report, Ending::Cancel)),
    };
    let how = match reported.and_then(|(report, ending)| finished(report, ending)) {
        Ok(finished) => match (finished.ending, finished.limit) {
            (_, Some(limit)) => format!("it reached its sandbox's limit of {}", limit.as_str()),
            (Ending::Itself, None) => format!("its process ended with {}", finished.exit_code),
            (Ending::Deadline | Ending::Cancel, None) => "its process was ended".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    helper.collect().await;
    if timeout(LAST_WORDS_WITHIN, words).await.is_err() {
        tracing::debug!("mcp: the standard error of a server stays open after its end");
    }
    ended.send_replace(Some(how));
}

/// What a server wrote last on its standard error.
#[derive(Debug, Clone, Default)]
struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    async fn follow(self, mut errors: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; LAST_WORDS];
        while let Ok(read) = errors.read(&mut buffer).await
            && read > 0
        {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(buffer.get(..read).unwrap_or_default());
            let excess = kept.len().saturating_sub(LAST_WORDS);
            kept.drain(..excess);
        }
    }

    /// Its last lines, in one: a package manager and a stack trace name the cause before the last.
    fn lines(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().rev().map(super::text::line).filter(|line| !line.is_empty());
        let mut last: Vec<String> = lines.take(SHOWN_LINES).collect();
        last.reverse();
        last.join("; ")
    }
}
