//! The helper's own program, where it lies beside the service's: it has a tenth of the size, so it starts in half the time.

use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Asks a helper for its build, in place of a stage.
pub(crate) const IDENTIFY: &str = "identify";

/// The build of the helper's sources, from `build.rs`. A helper of other sources may read another spec.
const BUILD: &str = env!("SURETY_SANDBOX_BUILD");

/// The permissions to write that the owner does not have alone.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The program that was found, kept open: an update that replaces the file changes nothing here.
static PROGRAM: OnceLock<Option<File>> = OnceLock::new();

/// The helper's program of this build, which has this name beside this program; none where there is no such program.
pub(crate) fn program(name: &str, own: &Path) -> Option<PathBuf> {
    // Without it, this program is the helper: a failure here is no reason to carry out nothing.
    PROGRAM.get_or_init(|| find(name, own).ok().flatten()).as_ref().map(path)
}

/// Answers [`IDENTIFY`].
pub(crate) fn identify() -> io::Result<()> {
    io::stdout().write_all(BUILD.as_bytes())
}

fn find(name: &str, own: &Path) -> io::Result<Option<File>> {
    // A pipe in its place would be waited for.
    let flags = OFlag::O_NONBLOCK.bits();
    let beside = std::env::current_exe()?.with_file_name(name);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(beside)?;
    Ok((is_as_safe(&file, own)? && is_this_build(&file, name)?).then_some(file))
}

/// Whether no account can write to the file that cannot write to this program: folders such as `/tmp` let other accounts
/// put a file beside it.
fn is_as_safe(file: &File, own: &Path) -> io::Result<bool> {
    let (found, own) = (file.metadata()?, own.metadata()?);
    let is_same_owner = found.uid() == own.uid();
    let is_same_group = found.gid() == own.gid() || found.mode() & 0o020 == 0;
    let more_writers = found.mode() & WRITABLE_BY_OTHERS & !own.mode();
    Ok(found.is_file() && is_same_owner && is_same_group && more_writers == 0)
}

fn is_this_build(file: &File, name: &str) -> io::Result<bool> {
    let asked = Command::new(path(file))
        .arg0(name)
        .arg(IDENTIFY)
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    Ok(asked.status.success() && asked.stdout == BUILD.as_bytes())
}

/// What a child of this process starts it by, before its descriptors close.
fn path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
