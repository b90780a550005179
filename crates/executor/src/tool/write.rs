//! Writes a file atomically: at every instant it has either the old content or the new one.

use crate::tool::error::ToolError;
use crate::tool::resolve::{self, Place};
use crate::tool::scope::WriteScope;
use crate::tool::workspace::{self, RelPath, Workspace};
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::{self, Mode};
use nix::unistd::{self, UnlinkatFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use surety_common::domain::json::sha256_hex;
use surety_common::domain::receipt::Fact;

/// The prefix of the names of temporary files. Scans skip them, so that one left by a crash is not
/// part of the workspace's content.
pub(crate) const TEMPORARY: &str = ".surety-tmp-";

/// The most names that are tried; one exists only when a process with this id left it behind.
const NAMES_TRIED: u32 = 1000;

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The path as it was given.
    pub path: RelPath,
    /// The file's real path, which differs when the given path contains a link.
    pub real: RelPath,
    /// The SHA-256 of the old content in hexadecimal; none for a new file.
    pub before_digest: Option<String>,
    /// The SHA-256 of the new content in hexadecimal.
    pub after_digest: String,
}

impl Written {
    /// The facts about this write: one about the file and, for a link, one about its name.
    pub fn facts(&self) -> Vec<Fact> {
        let fact = |path: &RelPath| Fact::FileWritten {
            path: path.text(),
            before_digest: self.before_digest.clone(),
            after_digest: Some(self.after_digest.clone()),
        };
        let mut facts = vec![fact(&self.real)];
        if self.real != self.path {
            facts.push(fact(&self.path));
        }
        facts
    }
}

impl Workspace {
    /// Writes a whole file: a temporary file beside it, flushed, then renamed over it. Missing
    /// parent folders are created, and an existing file's mode is kept.
    ///
    /// # Errors
    /// `write_scope_violation`, `path_outside_workspace`, `not_a_file`, and other errors of the
    /// operating system; the old content is then unchanged.
    pub fn write(
        &self,
        path: &RelPath,
        content: &[u8],
        scope: &WriteScope,
    ) -> Result<Written, ToolError> {
        let place = self.place_to_write(path, scope)?;
        let real = RelPath::real(place.real.clone());
        let failed = |error: std::io::Error| match error.raw_os_error() {
            Some(code) => workspace::refused(path, Errno::from_raw(code)),
            None => ToolError::io(path.text(), &error),
        };
        let old = open_old(&place).map_err(failed)?;
        let mut before = (None, None);
        if let Some(old) = old {
            let found = old.metadata().map_err(failed)?;
            if !found.is_file() {
                return Err(workspace::not_a_file(path));
            }
            before = (Some(found), Some(workspace::digest_of(old).map_err(failed)?));
        }
        let folder = make_folders(&place).map_err(failed)?;
        replace(&folder, &place.name, content, before.0.as_ref()).map_err(failed)?;
        Ok(Written {
            path: path.clone(),
            real,
            before_digest: before.1,
            after_digest: sha256_hex(content),
        })
    }
}

fn open_old(place: &Place) -> std::io::Result<Option<File>> {
    if !place.missing.is_empty() {
        return Ok(None);
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match fcntl::openat(&place.folder, place.name.as_os_str(), flags, Mode::empty()) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates the missing folders and opens the last. A link that appears concurrently is not
/// followed.
fn make_folders(place: &Place) -> std::io::Result<OwnedFd> {
    let mut folder = place.folder.try_clone()?;
    for name in &place.missing {
        match stat::mkdirat(&folder, name.as_os_str(), Mode::from_bits_truncate(0o777)) {
            Ok(()) => flush_folder(&folder)?,
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        folder = resolve::open_folder(&folder, name)?;
    }
    Ok(folder)
}

fn flush_folder(folder: &OwnedFd) -> std::io::Result<()> {
    // Over this descriptor, because a new one may be unavailable, after the write has happened.
    Ok(unistd::fsync(folder)?)
}

fn replace(
    folder: &OwnedFd,
    name: &OsStr,
    content: &[u8],
    old: Option<&Metadata>,
) -> std::io::Result<()> {
    let (file, temporary) = create_temporary(folder, old.is_some())?;
    let filled = fill(file, content, old).and_then(|()| {
        fcntl::renameat(folder, temporary.as_os_str(), folder, name)?;
        Ok(())
    });
    if let Err(error) = filled {
        // The first error is the one to report; scans skip a file that is left here.
        if unistd::unlinkat(folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir).is_err() {
            tracing::warn!(?temporary, "write: a temporary file could not be removed");
        }
        return Err(error);
    }
    flush_folder(folder)
}

fn create_temporary(folder: &OwnedFd, private: bool) -> std::io::Result<(File, OsString)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Until it has the mode of the file it replaces, no other user may read it.
    let mode = Mode::from_bits_truncate(if private { 0o600 } else { 0o666 });
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    for _ in 0..NAMES_TRIED {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{TEMPORARY}{}-{number}", std::process::id()));
        match fcntl::openat(folder, name.as_os_str(), flags, mode) {
            Ok(file) => return Ok((file.into(), name)),
            Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EEXIST.into())
}

fn fill(mut file: File, content: &[u8], old: Option<&Metadata>) -> std::io::Result<()> {
    file.write_all(content)?;
    if let Some(old) = old {
        // Only root can change the owner; for other users the written file becomes theirs. The
        // owner is set before the mode, because a new owner clears the set-user bits.
        if unistd::geteuid().is_root() {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        let mode = old.permissions().mode() & 0o7777;
        file.set_permissions(PermissionsExt::from_mode(mode))?;
    }
    file.sync_all()
}
