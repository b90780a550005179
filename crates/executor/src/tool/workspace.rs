//! A workspace in a local folder. No call accesses a file outside the folder.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::resolve;
use crate::tool::scope::WriteScope;
use data_encoding::HEXLOWER;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{self, SFlag};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// `O_NONBLOCK`: opening a named pipe must not wait for a writer.
const READ: OFlag = OFlag::O_RDONLY.union(OFlag::O_NONBLOCK);

/// A folder that tools may read and change.
#[derive(Debug)]
pub struct Workspace {
    /// The path without links.
    root: PathBuf,
    /// The path as it was given, which drivers may use too.
    given: PathBuf,
    /// Kept open, so that a renamed folder is still this one.
    folder: OwnedFd,
}

/// A normalized path relative to the root: no `.`, no `..`, not absolute. Empty is the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name; any bytes but `/` and NUL.
    pub name: OsString,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, whatever its target.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl RelPath {
    /// The root itself.
    pub fn root() -> Self {
        Self(PathBuf::new())
    }

    /// The path of a name in this folder.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        Self(self.0.join(name))
    }

    /// A path that a scan resolved.
    pub(crate) const fn real(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path; empty for the root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The path as text, `.` for the root. Bytes that are not UTF-8 become replacement characters.
    pub fn text(&self) -> String {
        if self.0.as_os_str().is_empty() {
            return ".".to_owned();
        }
        self.0.to_string_lossy().into_owned()
    }
}

impl Workspace {
    /// Opens a folder as a workspace.
    ///
    /// # Errors
    /// The operating system's error when the folder does not exist or cannot be opened.
    pub fn open(root: &Path) -> Result<Self, ToolError> {
        let failed = |error: std::io::Error| ToolError::io(root.display(), &error);
        let given = clean(std::path::absolute(root).map_err(failed)?.as_path());
        let root = root.canonicalize().map_err(failed)?;
        let folder = File::open(&root).map_err(failed)?;
        if !folder.metadata().map_err(failed)?.is_dir() {
            let message = format!("{} is not a folder; a workspace must be one", root.display());
            return Err(ToolError::new(ErrorCode::NotADirectory, message));
        }
        Ok(Self { root, given, folder: folder.into() })
    }

    /// The folder, absolute and without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder as it was given, absolute; a link where it was given as one.
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// Whether the path still leads to the folder that was opened: it may have been renamed, or a link
    /// on the way turned.
    ///
    /// # Errors
    /// `workspace_moved` when it leads elsewhere or nowhere.
    pub fn check_in_place(&self) -> Result<(), ToolError> {
        let failed = |error: Errno| ToolError::errno(self.given.display(), error);
        let opened = self.identity()?;
        for path in [&self.given, &self.root] {
            let found = match stat::stat(path) {
                Ok(found) => Some((found.st_dev, found.st_ino)),
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => None,
                Err(error) => return Err(failed(error)),
            };
            if found != Some(opened) {
                return Err(Self::moved(path));
            }
        }
        Ok(())
    }

    /// The device and the number of the open folder.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn identity(&self) -> Result<(u64, u64), ToolError> {
        let found = stat::fstat(&self.folder);
        let found = found.map_err(|error| ToolError::errno(self.given.display(), error))?;
        Ok((found.st_dev, found.st_ino))
    }

    pub(crate) fn moved(path: &Path) -> ToolError {
        let message = format!(
            "{} is not the folder that the run began in; put that folder back, or start a new run",
            path.display()
        );
        ToolError::new(ErrorCode::WorkspaceMoved, message)
    }

    /// The open folder.
    pub(crate) fn handle(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Normalizes a path, absolute or relative to the root, before it is checked, so that
    /// `../p/a.txt` is inside the workspace `/srv/p`.
    ///
    /// # Errors
    /// `path_outside_workspace`; `path_invalid` for an empty path or one with a NUL.
    pub fn locate(&self, path: &str) -> Result<RelPath, ToolError> {
        if path.is_empty() || path.contains('\0') {
            let message = "the path is empty or contains NUL";
            return Err(ToolError::new(ErrorCode::PathInvalid, message));
        }
        for base in [&self.root, &self.given] {
            if let Ok(inside) = clean(&base.join(path)).strip_prefix(base) {
                return Ok(RelPath(inside.to_owned()));
            }
        }
        Err(ToolError::outside(path))
    }

    /// As [`Self::locate`]; and an absolute path may name this folder by any path that leads to it, such as a link elsewhere.
    ///
    /// # Errors
    /// As [`Self::locate`].
    pub fn locate_by_any_name(&self, path: &str) -> Result<RelPath, ToolError> {
        self.locate(path).or_else(|error| {
            let is_outside = error.code == ErrorCode::PathOutsideWorkspace;
            is_outside.then(|| self.below_another_name(path)).flatten().ok_or(error)
        })
    }

    fn below_another_name(&self, path: &str) -> Option<RelPath> {
        let path = Some(Path::new(path)).filter(|path| path.is_absolute()).map(clean)?;
        let own = self.identity().ok()?;
        let is_own = |folder: &&Path| {
            stat::stat(*folder).is_ok_and(|found| (found.st_dev, found.st_ino) == own)
        };
        let name = path.ancestors().find(is_own)?;
        Some(RelPath(path.strip_prefix(name).ok()?.to_owned()))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `file_not_found`, `not_a_file`, `path_outside_workspace` through a link, and other errors of
    /// the operating system.
    pub fn open_file(&self, path: &RelPath) -> Result<File, ToolError> {
        let opened = resolve::open(&self.folder, path.as_path(), READ);
        let file = File::from(opened.map_err(|error| refused(path, error))?);
        let kind = file.metadata().map_err(|error| ToolError::io(path.text(), &error))?.file_type();
        if kind.is_file() {
            return Ok(file);
        }
        Err(not_a_file(path))
    }

    /// Reads a whole file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::open_file`], and `too_large`.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<Vec<u8>, ToolError> {
        let mut content = Vec::new();
        self.open_file(path)?
            .take(limit.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|error| ToolError::io(path.text(), &error))?;
        if content.len() as u64 > limit {
            let message = format!("{} is larger than {limit} bytes", path.text());
            return Err(ToolError::new(ErrorCode::TooLarge, message));
        }
        Ok(content)
    }

    /// What stands under the path; none where nothing does. For a link its target counts.
    ///
    /// # Errors
    /// `path_outside_workspace` through a link, and other errors of the operating system.
    pub fn kind(&self, path: &RelPath) -> Result<Option<Kind>, ToolError> {
        let place = match resolve::find(&self.folder, path.as_path()) {
            Ok(place) if place.missing.is_empty() => place,
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(None),
            Err(error) => return Err(refused(path, error)),
        };
        found(path, kind_of(&place.folder, &place.name))
    }

    /// Whether the path itself is a symbolic link, wherever it leads.
    ///
    /// # Errors
    /// As [`Self::kind`].
    pub fn is_link(&self, path: &RelPath) -> Result<bool, ToolError> {
        let (Some(parent), Some(name)) = (path.as_path().parent(), path.as_path().file_name())
        else {
            return Ok(false);
        };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let kind = match resolve::open(&self.folder, parent, flags) {
            Ok(folder) => found(path, kind_of(&folder, name))?,
            Err(Errno::ENOENT | Errno::ENOTDIR) => None,
            Err(error) => return Err(refused(path, error)),
        };
        Ok(kind == Some(Kind::Link))
    }

    /// The SHA-256 of a file's content in hexadecimal; none when the file does not exist.
    ///
    /// # Errors
    /// As [`Self::open_file`], but for `file_not_found`.
    pub fn digest(&self, path: &RelPath) -> Result<Option<String>, ToolError> {
        match self.open_file(path) {
            Ok(file) => {
                digest_of(file).map(Some).map_err(|error| ToolError::io(path.text(), &error))
            }
            Err(error) if error.code == ErrorCode::FileNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The entries of a folder, sorted by name.
    ///
    /// # Errors
    /// `file_not_found`, `not_a_directory`, `path_outside_workspace` through a link, and other
    /// errors of the operating system.
    pub fn entries(&self, path: &RelPath) -> Result<Vec<Entry>, ToolError> {
        let failed = |error| refused(path, error);
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let folder = resolve::open(&self.folder, path.as_path(), flags).map_err(failed)?;
        let mut listing =
            Dir::from_fd(folder.try_clone().map_err(|_| failed(Errno::EMFILE))?).map_err(failed)?;
        let mut entries = Vec::new();
        for entry in listing.iter() {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                Some(kind) => kind.into(),
                None => match kind_of(&folder, name) {
                    Ok(kind) => kind,
                    Err(Errno::ENOENT) => continue,
                    Err(error) => return Err(failed(error)),
                },
            };
            let name = name.to_owned();
            entries.push(Entry { name, kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The real path of a path, with links resolved. A file and its folders may be missing.
    pub(super) fn place(&self, path: &RelPath) -> Result<resolve::Place, ToolError> {
        resolve::find(&self.folder, path.as_path()).map_err(|error| refused(path, error))
    }

    /// The real path of a write, checked against the scope: the given path and the real path must
    /// both be writable.
    ///
    /// # Errors
    /// `write_scope_violation`, `not_a_file`, `path_outside_workspace` through a link.
    pub(super) fn place_to_write(
        &self,
        path: &RelPath,
        scope: &WriteScope,
    ) -> Result<resolve::Place, ToolError> {
        let place = self.place(path)?;
        if place.name == "." {
            return Err(not_a_file(path));
        }
        if scope.is_writable(path.as_path()) && scope.is_writable(&place.real) {
            return Ok(place);
        }
        let message = format!("{} is outside the step's write scope", path.text());
        Err(ToolError::new(ErrorCode::WriteScopeViolation, message))
    }

    /// The real path of a folder, for a command to run in.
    ///
    /// # Errors
    /// As [`Self::entries`].
    pub fn folder(&self, path: &RelPath) -> Result<PathBuf, ToolError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        resolve::open(&self.folder, path.as_path(), flags).map_err(|error| refused(path, error))?;
        let place = self.place(path)?;
        Ok(self.root.join(place.real))
    }
}

/// The SHA-256 of the rest of a stream, in hexadecimal.
pub(crate) fn digest_of(mut source: impl Read) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut source, &mut hasher)?;
    Ok(HEXLOWER.encode(&hasher.finalize()))
}

pub(super) fn not_a_file(path: &RelPath) -> ToolError {
    let message = format!("{} is not a regular file", path.text());
    ToolError::new(ErrorCode::NotAFile, message)
}

pub(super) fn refused(path: &RelPath, error: Errno) -> ToolError {
    if error == Errno::EXDEV {
        return ToolError::outside(path.text());
    }
    // The error for opening a socket.
    if error == Errno::ENXIO {
        return not_a_file(path);
    }
    ToolError::errno(path.text(), error)
}

fn found(path: &RelPath, kind: Result<Kind, Errno>) -> Result<Option<Kind>, ToolError> {
    match kind {
        Ok(kind) => Ok(Some(kind)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(refused(path, error)),
    }
}

pub(super) fn kind_of(folder: &OwnedFd, name: &OsStr) -> Result<Kind, Errno> {
    let found = stat::fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    let format = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
    Ok(if format == SFlag::S_IFREG {
        Kind::File
    } else if format == SFlag::S_IFDIR {
        Kind::Folder
    } else if format == SFlag::S_IFLNK {
        Kind::Link
    } else {
        Kind::Other
    })
}

impl From<nix::dir::Type> for Kind {
    fn from(kind: nix::dir::Type) -> Self {
        use nix::dir::Type;
        match kind {
            Type::File => Self::File,
            Type::Directory => Self::Folder,
            Type::Symlink => Self::Link,
            Type::Fifo | Type::CharacterDevice | Type::BlockDevice | Type::Socket => Self::Other,
        }
    }
}

fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                cleaned.push(component);
            }
        }
    }
    cleaned
}
