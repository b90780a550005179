//! A workspace on a local folder. Whatever is asked for, nothing outside the folder is touched.

use crate::tool::error::{ErrorCode, ToolError};
use crate::tool::resolve;
use crate::tool::scope::WriteScope;
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

/// A folder that tools may look at and change.
#[derive(Debug)]
pub struct Workspace {
    /// Without links.
    root: PathBuf,
    /// As it was given, which is how people name it.
    given: PathBuf,
    /// Kept open, so that a folder renamed meanwhile is still this one.
    folder: OwnedFd,
}

/// A cleaned path relative to the root: no `.`, no `..`, not absolute. Empty is the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

/// What a folder holds under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name; any bytes but `/` and NUL.
    pub name: OsString,
    /// What is there.
    pub kind: Kind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, wherever it leads.
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

    /// A path that a walk found to be real.
    pub(crate) const fn real(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path; empty for the root.
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The path as text, `.` for the root. A name that is not UTF-8 shows replacement characters.
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
    /// What the operating system says when the folder is not there or cannot be opened.
    pub fn open(root: &Path) -> Result<Self, ToolError> {
        let failed = |error: std::io::Error| ToolError::io(root.display(), &error);
        let given = clean(std::path::absolute(root).map_err(failed)?.as_path());
        let root = root.canonicalize().map_err(failed)?;
        let folder = File::open(&root).map_err(failed)?;
        if !folder.metadata().map_err(failed)?.is_dir() {
            let message = format!("{}: a workspace is a folder", root.display());
            return Err(ToolError::new(ErrorCode::NotADirectory, message));
        }
        Ok(Self { root, given, folder: folder.into() })
    }

    /// The folder, absolute and without links.
    pub fn root(&self) -> &Path {
        &self.root
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

    /// Reads a path, absolute or relative to the root, and cleans it before judging it, so that
    /// `../p/a.txt` is inside the workspace `/srv/p`.
    ///
    /// # Errors
    /// `path_outside_workspace`; `path_invalid` for an empty path or one with a NUL.
    pub fn locate(&self, path: &str) -> Result<RelPath, ToolError> {
        if path.is_empty() || path.contains('\0') {
            let message = "a path is not empty and holds no NUL";
            return Err(ToolError::new(ErrorCode::PathInvalid, message));
        }
        for base in [&self.root, &self.given] {
            if let Ok(inside) = clean(&base.join(path)).strip_prefix(base) {
                return Ok(RelPath(inside.to_owned()));
            }
        }
        Err(ToolError::outside(path))
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `file_not_found`, `not_a_file`, `path_outside_workspace` through a link, and what else the
    /// operating system says.
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

    /// Whether anything is at this path. A link counts as what it leads to.
    ///
    /// # Errors
    /// `path_outside_workspace` through a link, and what else the operating system says.
    pub fn exists(&self, path: &RelPath) -> Result<bool, ToolError> {
        let place = match resolve::find(&self.folder, path.as_path()) {
            Ok(place) => place,
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(false),
            Err(error) => return Err(refused(path, error)),
        };
        if !place.missing.is_empty() {
            return Ok(false);
        }
        match kind_of(&place.folder, &place.name) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => Err(refused(path, error)),
        }
    }

    /// Hex SHA-256 of a file's content; none when nothing is there.
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

    /// What a folder holds, sorted by name.
    ///
    /// # Errors
    /// `file_not_found`, `not_a_directory`, `path_outside_workspace` through a link, and what else
    /// the operating system says.
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

    /// The text of a link, which is not followed.
    pub(crate) fn link_target(&self, path: &RelPath) -> Result<OsString, ToolError> {
        let failed = |error| refused(path, error);
        let parent = path.as_path().parent().unwrap_or(Path::new(""));
        let name = path.as_path().file_name().unwrap_or(OsStr::new("."));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let folder = resolve::open(&self.folder, parent, flags).map_err(failed)?;
        nix::fcntl::readlinkat(&folder, name).map_err(failed)
    }

    /// Where a path really is, links resolved. A file and its folders need not be there yet.
    pub(super) fn place(&self, path: &RelPath) -> Result<resolve::Place, ToolError> {
        resolve::find(&self.folder, path.as_path()).map_err(|error| refused(path, error))
    }

    /// Where a write to this path would really go, judged by the scope: the path as it is named
    /// and the path it leads to must both be allowed.
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
        if scope.allows(path.as_path()) && scope.allows(&place.real) {
            return Ok(place);
        }
        let message = format!("{} is outside what this step may write", path.text());
        Err(ToolError::new(ErrorCode::WriteScopeViolation, message))
    }

    /// A folder of the workspace for a command to run in, by its real path.
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

/// Hex SHA-256 of all that is left to read.
pub(crate) fn digest_of(mut source: impl Read) -> std::io::Result<String> {
    let mut hasher = Sha256::new();
    std::io::copy(&mut source, &mut hasher)?;
    Ok(hex::encode(hasher.finalize()))
}

pub(super) fn not_a_file(path: &RelPath) -> ToolError {
    let message = format!("{} is no regular file", path.text());
    ToolError::new(ErrorCode::NotAFile, message)
}

pub(super) fn refused(path: &RelPath, error: Errno) -> ToolError {
    if error == Errno::EXDEV {
        return ToolError::outside(path.text());
    }
    // What opening a socket says.
    if error == Errno::ENXIO {
        return not_a_file(path);
    }
    ToolError::errno(path.text(), error)
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
