//! The folder on disk of one command: what overlays keep, and where no mount tree is private its
//! temporary folder.

use super::account::Account;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the temporary folder in it.
pub(super) const TMP: &str = "tmp";
/// The name of the home folder in it.
pub(super) const HOME: &str = "home";

/// A folder that goes away with the command.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder for this process's command.
    pub(super) fn make(parent: &Path, account: Option<Account>) -> io::Result<Self> {
        let path = parent.join(format!("call-{}", std::process::id()));
        // What a helper of the same number left behind when it was killed.
        remove(&path)?;
        let scratch = Self(path);
        folder(&scratch.0, account)?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a folder in it.
    pub(super) fn folder(&self, name: &str, account: Option<Account>) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        folder(&path, account)?;
        Ok(path)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        remove(&self.0)
    }
}

fn folder(path: &Path, account: Option<Account>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    account.map_or(Ok(()), |account| account.own(path))
}

/// Removes a folder even where folders in it are closed to their owner, as overlays leave them.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open(path)?;
            fs::remove_dir_all(path)
        }
        ended => ended,
    }
}

fn open(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open(&entry.path())?;
        }
    }
    Ok(())
}
