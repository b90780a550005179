//! The folder on disk of one command: what overlays keep, and where no mount tree is private its
//! temporary folder.

use super::account::Account;
use crate::deep::remove_tree;
use crate::launch::{SCRATCH_LOCK, SCRATCH_PREFIX};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The name of the temporary folder in it.
pub(super) const TMP: &str = "tmp";
/// The name of the home folder in it.
pub(super) const HOME: &str = "home";

/// A folder that goes away with the command.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    /// Locked for as long as this process lives: what a killed one left is found by that.
    _lock: File,
}

impl Scratch {
    /// Makes the folder for this process's command.
    pub(super) fn make(parent: &Path, account: Option<Account>) -> io::Result<Self> {
        let path = parent.join(format!("{SCRATCH_PREFIX}{}", std::process::id()));
        // What a helper of the same number left behind when it was killed.
        remove_tree(&path)?;
        folder(&path, account)?;
        let lock = File::create(path.join(SCRATCH_LOCK))?;
        lock.try_lock()?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder in it.
    pub(super) fn folder(&self, name: &str, account: Option<Account>) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        folder(&path, account)?;
        Ok(path)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        remove_tree(&self.path)
    }
}

fn folder(path: &Path, account: Option<Account>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    account.map_or(Ok(()), |account| account.own(path))
}
