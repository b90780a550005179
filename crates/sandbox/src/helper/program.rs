//! Which file a command's first word means, among what the command sees.

use super::passing::receive_descriptors;
use crate::launch::{PARSE, own_program, stage};
use crate::spec::{Network, NotStarted, PROXY_PORT, Refusal, Spec};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variables by which programs find a proxy.
const PROXIED: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
/// Those that name what is reached without it.
const DIRECT: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The command, ready to be started; none when the spec names no program.
pub(super) fn command(spec: &Spec) -> Result<Option<Command>, NotStarted> {
    if spec.parser_input.is_some() {
        return parser(spec).map(Some);
    }
    let Some((program, arguments)) = spec.argv.split_first() else { return Ok(None) };
    std::env::set_current_dir(&spec.cwd).map_err(|error| unusable(&spec.cwd, &error))?;
    let mut command = Command::new(locate(program, spec)?);
    command
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)));
    if matches!(spec.network, Network::Hosts(_)) {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        command.envs(PROXIED.map(|name| (name, &proxy)));
        command.envs(DIRECT.map(|name| (name, "localhost,127.0.0.1,::1")));
    }
    if !spec.attached {
        // A command that keeps the terminal stays in the process group that the terminal's signals reach.
        command.process_group(0);
    }
    Ok(Some(command))
}

/// This program once more, as the parser. The kernel keeps it open, whatever the mount tree shows.
fn parser(spec: &Spec) -> Result<Command, NotStarted> {
    std::env::set_current_dir(&spec.cwd).map_err(|error| unusable(&spec.cwd, &error))?;
    let program = own_program().map_err(|error| NotStarted::setup("the parser", &error))?;
    let mut command = stage(&program, PARSE);
    command.process_group(0);
    Ok(command)
}

/// The file that becomes the command's standard input, where the spec names one. It is opened before any namespace is
/// made: in a user namespace of its own a process may not open the files of one outside, such as `/proc/PID/fd/0`.
pub(super) fn open_input(spec: &Spec) -> Result<Option<File>, NotStarted> {
    let Some(path) = &spec.input else { return Ok(None) };
    match OpenOptions::new().read(true).custom_flags(OFlag::O_NOCTTY.bits()).open(path) {
        Ok(file) => Ok(Some(file)),
        // A socket cannot be opened by its name: the command reads nothing.
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => File::open("/dev/null")
            .map(Some)
            .map_err(|error| NotStarted::setup("/dev/null", &error)),
        Err(error) => Err(NotStarted::setup(path.display(), &error)),
    }
}

/// The command's standard input; the file that the spec names comes from the supervisor.
pub(super) fn input(spec: &Spec, control: &UnixStream) -> Result<Stdio, NotStarted> {
    if let Some(text) = &spec.parser_input {
        return in_memory(text).map_err(|error| NotStarted::setup("the parser's input", &error));
    }
    let Some(path) = &spec.input else { return Ok(Stdio::null()) };
    let failed = |error| NotStarted::setup(path.display(), &error);
    let given = receive_descriptors(control).map_err(failed)?.pop();
    given.map(Stdio::from).ok_or_else(|| failed(io::Error::from(io::ErrorKind::UnexpectedEof)))
}

/// A text to be read, in a file that has no name.
fn in_memory(text: &str) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create("parser", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// Why a program that was found did not start.
pub(super) fn not_started(program: &str, error: &io::Error) -> NotStarted {
    if error.kind() == io::ErrorKind::NotFound {
        return not_found(program);
    }
    unusable(Path::new(program), error)
}

fn locate(program: &str, spec: &Spec) -> Result<PathBuf, NotStarted> {
    if program.contains('/') {
        return Ok(spec.cwd.join(program));
    }
    let path = spec.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
    let path = path.map_or(OsStr::new(""), |path| path.as_os_str());
    std::env::split_paths(path)
        .map(|folder| spec.cwd.join(folder).join(program))
        .find(|file| {
            file.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
        .ok_or_else(|| not_found(program))
}

fn not_found(program: &str) -> NotStarted {
    let message = format!(
        "there is no program {program:?} in what the command sees; name one that is installed"
    );
    NotStarted::new(Refusal::ProgramNotFound, message)
}

fn unusable(path: &Path, error: &io::Error) -> NotStarted {
    NotStarted {
        refusal: Refusal::ProgramUnusable,
        message: format!("{}: {error}", path.display()),
        errno: error.raw_os_error().unwrap_or(0),
    }
}
