//! Writes files atomically: at every instant a file has either the old content or the new one. Of several
//! files, all are changed or none, unless the machine stops in between.

use crate::tool::error::ToolError;
use crate::tool::resolve::{self, Place};
use crate::tool::scope::WriteScope;
use crate::tool::workspace::{self, RelPath, Workspace};
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::{self, Mode};
use nix::unistd::{self, UnlinkatFlags};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, Write};
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
    /// The SHA-256 of the new content in hexadecimal; none for a file that was removed.
    pub after_digest: Option<String>,
}

impl Written {
    /// The facts about this write: one about the file and, for a link, one about its name.
    pub fn facts(&self) -> Vec<Fact> {
        let fact = |path: &RelPath| Fact::FileWritten {
            path: path.text(),
            before_digest: self.before_digest.clone(),
            after_digest: self.after_digest.clone(),
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
        let change =
            Change { path: path.clone(), content: Some(content.to_vec()), executable: false };
        let staged = self.stage(change, scope)?;
        staged.commit().map_err(|error| failed(path, error))?;
        Ok(staged.written)
    }

    /// Writes and removes several files, all or none: every new content is on the disk beside its file
    /// before the first file is changed, and a failure then puts back what was changed before it.
    ///
    /// # Errors
    /// As [`Self::write`]; all files then have their old content.
    pub fn write_all(
        &self,
        changes: Vec<Change>,
        scope: &WriteScope,
    ) -> Result<Vec<Written>, ToolError> {
        let mut staged = Vec::new();
        for change in changes {
            staged.push(self.stage(change, scope)?);
        }
        commit_all(&staged)?;
        Ok(staged.into_iter().map(|file| file.written).collect())
    }

    /// Prepares a change, so that little of it is left to fail.
    fn stage(&self, change: Change, scope: &WriteScope) -> Result<Staged, ToolError> {
        let Change { path, content, executable } = change;
        let failed = |error| failed(&path, error);
        let place = self.place_to_write(&path, scope)?;
        let real = RelPath::real(place.real.clone());
        let mut before = None;
        if let Some(mut old) = open_old(&place).map_err(failed)? {
            let found = old.metadata().map_err(failed)?;
            if !found.is_file() {
                return Err(workspace::not_a_file(&path));
            }
            let digest = workspace::digest_of(&old).map_err(failed)?;
            old.rewind().map_err(failed)?;
            before = Some((old, found, digest));
        }
        let folder = make_folders(&place).map_err(failed)?;
        let temporary = match &content {
            None => None,
            Some(content) => {
                let (file, name) =
                    create_temporary(&folder, before.is_some(), executable).map_err(failed)?;
                let temporary = Temporary { folder: folder.try_clone().map_err(failed)?, name };
                fill(file, content, before.as_ref().map(|(_, old, _)| old)).map_err(failed)?;
                Some(temporary)
            }
        };
        let written = Written {
            real,
            before_digest: before.as_ref().map(|(_, _, digest)| digest.clone()),
            after_digest: content.as_deref().map(sha256_hex),
            path,
        };
        let old = before.map(|(file, found, _)| (file, found));
        Ok(Staged { written, folder, name: place.name, temporary, old })
    }
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: RelPath,
    /// The new content; none removes the file.
    pub content: Option<Vec<u8>>,
    /// Whether a file that does not exist yet becomes executable.
    pub executable: bool,
}

/// A change whose new content is on the disk.
#[derive(Debug)]
struct Staged {
    written: Written,
    folder: OwnedFd,
    name: OsString,
    temporary: Option<Temporary>,
    /// The old file, which stays readable by this handle whatever its name leads to.
    old: Option<(File, Metadata)>,
}

impl Staged {
    /// Changes the file. After an error it has its old content, also where the change could not be flushed.
    fn commit(&self) -> std::io::Result<()> {
        self.replace()?;
        flush_folder(&self.folder).inspect_err(|_| self.put_back())
    }

    fn replace(&self) -> std::io::Result<()> {
        match &self.temporary {
            Some(temporary) => {
                fcntl::renameat(
                    &self.folder,
                    temporary.name.as_os_str(),
                    &self.folder,
                    self.name.as_os_str(),
                )?;
            }
            None => {
                unistd::unlinkat(&self.folder, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir)?
            }
        }
        Ok(())
    }

    /// Gives the file its old content again after a commit.
    fn put_back(&self) {
        let restored = match &self.old {
            None => {
                unistd::unlinkat(&self.folder, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir)
                    .map_err(std::io::Error::from)
            }
            Some((file, found)) => self.restore(file, found),
        };
        let path = self.written.path.text();
        match restored.map(|()| flush_folder(&self.folder)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(path, %error, "write: the old content of a file was put back; its folder could not be flushed");
            }
            Err(error) => {
                tracing::error!(path, %error, "write: the old content of a file could not be put back");
            }
        }
    }

    fn restore(&self, mut file: &File, found: &Metadata) -> std::io::Result<()> {
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let (filled, name) = create_temporary(&self.folder, true, false)?;
        let temporary = Temporary { folder: self.folder.try_clone()?, name };
        fill(filled, &content, Some(found))?;
        fcntl::renameat(
            &self.folder,
            temporary.name.as_os_str(),
            &self.folder,
            self.name.as_os_str(),
        )?;
        Ok(())
    }
}

/// Changes all files, or none.
fn commit_all(staged: &[Staged]) -> Result<(), ToolError> {
    for (index, file) in staged.iter().enumerate() {
        if let Err(error) = file.commit() {
            for done in staged.iter().take(index).rev() {
                done.put_back();
            }
            return Err(failed(&file.written.path, error));
        }
    }
    Ok(())
}

/// A temporary file, removed at the end unless it was renamed.
#[derive(Debug)]
struct Temporary {
    folder: OwnedFd,
    name: OsString,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        match unistd::unlinkat(&self.folder, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir) {
            // It is in its place.
            Ok(()) | Err(Errno::ENOENT) => {}
            // Scans skip a file that is left here.
            Err(error) => {
                tracing::warn!(name = ?self.name, %error, "write: a temporary file could not be removed");
            }
        }
    }
}

fn failed(path: &RelPath, error: std::io::Error) -> ToolError {
    match error.raw_os_error() {
        Some(code) => workspace::refused(path, Errno::from_raw(code)),
        None => ToolError::io(path.text(), &error),
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

fn create_temporary(
    folder: &OwnedFd,
    private: bool,
    executable: bool,
) -> std::io::Result<(File, OsString)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Until it has the mode of the file it replaces, no other user may read it.
    let mode = match (private, executable) {
        (true, _) => 0o600,
        (false, true) => 0o777,
        (false, false) => 0o666,
    };
    let mode = Mode::from_bits_truncate(mode);
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

#[cfg(test)]
mod tests;
