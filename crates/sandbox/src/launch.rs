//! Starting the helper, which is its own program beside this one, or this program once more.

use crate::message::{frame, receive, unframe};
use crate::spec::{Report, Spec};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Argument zero of a process that was started as the helper, and the name of the helper's program.
pub(crate) const HELPER_NAME: &str = "surety-sandbox";

/// The first stage of the helper.
pub(crate) const SUPERVISE: &str = "supervise";

/// What the names of the folders begin with that helpers make in the scratch folder.
pub const SCRATCH_PREFIX: &str = "call-";

/// The file in such a folder that its maker keeps locked for as long as it lives.
pub const SCRATCH_LOCK: &str = ".lock";

/// The stage that is the service's parser.
pub(crate) const PARSE: &str = "parse";

/// Whether this program becomes the helper when it is started as one.
static HELPER: AtomicBool = AtomicBool::new(false);

/// Why the helper was not started, or ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// This program cannot be the helper and the helper's own program is not beside it.
    #[error(
        "sandbox: no helper: {0} does not call surety_sandbox::run_if_invoked, and there is no \
         program surety-sandbox beside it; build it with `cargo build --workspace --bins`"
    )]
    NoHelper(PathBuf),
    /// The operating system did not start it.
    #[error("sandbox: the helper does not start: {0}")]
    Start(#[source] io::Error),
    /// The spec cannot be encoded.
    #[error("sandbox: the command cannot be described to the helper: {0}")]
    Describe(#[source] io::Error),
    /// It ended without saying how its command ended.
    #[error("sandbox: the helper ended without a report: {0}")]
    NoReport(#[source] io::Error),
}

/// The helper, ready to be started. Set its standard output and error before: the command gets them.
#[derive(Debug)]
pub struct Launch {
    /// Starts the helper.
    pub command: Command,
    /// The service's end of the socket. Write [`Launch::spec`] to it first; the report comes back over
    /// it. When it is closed, every process of the command is killed.
    pub control: UnixStream,
    /// What the helper reads first.
    pub spec: Vec<u8>,
}

impl Launch {
    /// What to write to the control socket to ask every process of the command to end.
    pub const TERMINATE: u8 = crate::message::TERMINATE;
    /// What to write to the control socket to kill every process of the command.
    pub const KILL: u8 = crate::message::KILL;

    /// Reads the bytes that the helper wrote to the control socket.
    ///
    /// # Errors
    /// The helper ended before it wrote a whole report.
    pub fn report(bytes: &[u8]) -> Result<Report, LaunchError> {
        unframe(bytes).map_err(LaunchError::NoReport)
    }
}

/// Prepares the helper for one command.
///
/// # Errors
/// There is no helper, the machine has no open files left, or the spec holds a path that is not UTF-8.
pub fn prepare(spec: &Spec) -> Result<Launch, LaunchError> {
    let spec = frame(spec).map_err(LaunchError::Describe)?;
    let (control, theirs) = UnixStream::pair().map_err(LaunchError::Start)?;
    let mut command = stage(&program()?, SUPERVISE);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    Ok(Launch { command, control, spec })
}

/// Runs one command to its end. It blocks; a service that may not block uses [`prepare`].
///
/// # Errors
/// [`LaunchError`]
pub fn run(spec: &Spec, stdout: Stdio, stderr: Stdio) -> Result<Report, LaunchError> {
    let Launch { mut command, mut control, spec } = prepare(spec)?;
    let mut child = command.stdout(stdout).stderr(stderr).spawn().map_err(LaunchError::Start)?;
    // The helper's end of the socket must not stay open here.
    drop(command);
    let report = control
        .write_all(&spec)
        .and_then(|()| receive(&mut control))
        .map_err(LaunchError::NoReport);
    child.wait().map_err(LaunchError::Start)?;
    report
}

/// A stage of the helper as a process to start.
pub(crate) fn stage(program: &Path, stage: &str) -> Command {
    let mut command = Command::new(program);
    command.arg0(HELPER_NAME).arg(stage).env_clear();
    command
}

/// The stage as which this process was started.
pub(crate) fn invoked_stage(arguments: impl IntoIterator<Item = OsString>) -> Option<OsString> {
    let mut arguments = arguments.into_iter();
    if arguments.next()? == HELPER_NAME {
        return arguments.next();
    }
    // A program between the helper and its parser sets no argument zero.
    let is_parser = arguments.next()? == HELPER_NAME;
    arguments.next().filter(|stage| is_parser && stage == PARSE)
}

pub(crate) fn this_program_is_a_helper() {
    HELPER.store(true, Ordering::Relaxed);
}

fn program() -> Result<PathBuf, LaunchError> {
    if HELPER.load(Ordering::Relaxed) {
        let own = own_program().map_err(LaunchError::Start)?;
        #[cfg(target_os = "linux")]
        if let Some(smaller) = crate::beside::program(HELPER_NAME, &own) {
            return Ok(smaller);
        }
        return Ok(own);
    }
    // A test binary has a main of its own, and lies one folder below the programs.
    let own = std::env::current_exe().map_err(LaunchError::Start)?;
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join(HELPER_NAME));
    beside.into_iter().find(|path| path.is_file()).ok_or(LaunchError::NoHelper(own))
}

/// This very program, also after an update replaced its file.
#[cfg(target_os = "linux")]
pub(crate) fn own_program() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc/self/exe"))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}
