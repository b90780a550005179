//! Folders that go away with what made them, and those that a killed process left.

use std::fs::{self, DirEntry, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surety_sandbox::{SCRATCH_LOCK as LOCK, remove_tree};

/// The mode of a folder that every account can pass, and only its owner can list.
const PASSABLE: u32 = 0o711;
/// A folder without that file is being made, unless it is older than this.
const BEING_MADE: Duration = Duration::from_secs(60);

/// A folder that goes away with this value. Accounts of workspaces can pass through it.
#[derive(Debug)]
pub struct ScratchFolder {
    path: PathBuf,
    _lock: File,
}

impl ScratchFolder {
    /// Makes a folder whose name begins with `prefix`, and those above it. It blocks.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn make(parent: &Path, prefix: &str) -> io::Result<Self> {
        Self::at(parent.join(format!("{prefix}{}", uuid::Uuid::now_v7().simple())))
    }

    /// Makes this folder, and those above it. It blocks.
    ///
    /// # Errors
    /// What the operating system says; a folder that is there already.
    pub fn at(path: PathBuf) -> io::Result<Self> {
        path.parent().map_or(Ok(()), make)?;
        // Not recursive: a folder of this name that is there already is none of this process.
        fs::create_dir(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(PASSABLE))?;
        let lock = File::create(path.join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "scratch: a folder could not be removed; remove it");
        }
    }
}

/// Removes the folders of this prefix whose makers were killed. Answers how many. It blocks.
pub fn sweep(parent: &Path, prefix: &str) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(prefix) || !is_left(&path) {
            continue;
        }
        match remove_tree(&path) {
            Ok(()) => removed += 1,
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "scratch: the folder of a killed process could not be removed; remove it");
            }
        }
    }
    removed
}

fn is_left(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = fs::metadata(path).and_then(|found| found.modified());
            made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > BEING_MADE))
        }
        Err(_) => false,
    }
}

/// What lies in a folder. The folder is closed again, because a caller that goes down a deep tree would have all of it
/// open. It blocks.
///
/// # Errors
/// What the operating system says.
pub(crate) fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(folder)?.collect()
}

/// The bytes that a folder must have room for.
const LEAST_ROOM: usize = 64 << 10;

/// Writes a file to a folder and removes it. It blocks.
///
/// # Errors
/// The folder is full, read-only, or closed to this account.
pub(crate) fn try_write(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("write-{}", uuid::Uuid::now_v7().simple()));
    let written = fs::write(&path, vec![1; LEAST_ROOM]);
    match fs::remove_file(&path) {
        Err(error) if written.is_ok() => Err(error),
        Ok(()) | Err(_) => written,
    }
}

/// Makes a folder that every account can pass, whatever the umask, with those above it that are missing. One that is
/// there stays as it is. It blocks.
///
/// # Errors
/// What the operating system says.
pub fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    path.parent().filter(|above| !above.as_os_str().is_empty()).map_or(Ok(()), make)?;
    match fs::create_dir(path) {
        // Another process made it in the meantime.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(PASSABLE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_the_dead_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let left = folder("view-left");
        fs::write(left.join(LOCK), "").unwrap();
        fs::create_dir(left.join("upper")).unwrap();
        fs::set_permissions(left.join("upper"), Permissions::from_mode(0o0)).unwrap();
        let (new, other) = (folder("view-new"), folder("call-7"));
        fs::write(other.join(LOCK), "").unwrap();
        let held = ScratchFolder::make(parent.path(), "view-").unwrap();
        assert_eq!(sweep(parent.path(), "view-"), 1);
        assert!(!left.exists() && new.exists() && other.exists() && held.path().exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
        assert_eq!(sweep(&parent.path().join("nowhere"), "view-"), 0);
    }
}
