//! The folder that the views of a round are made in.

use crate::tool::ToolError;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use surety_common::domain::check::Owner;

/// The folder of one round's views, which goes away with the round.
#[derive(Debug)]
pub(super) struct ViewFolder(pub(super) PathBuf);

impl ViewFolder {
    /// Makes a folder that an account of a workspace can pass.
    pub(super) fn make(scratch: &Path) -> Result<Self, ToolError> {
        let path = scratch.join(format!("view-{}", uuid::Uuid::now_v7().simple()));
        make(&path).map_err(|error| ToolError::io(path.display(), &error))?;
        Ok(Self(path))
    }

    pub(super) fn class(&self, owner: Owner) -> PathBuf {
        self.0.join(owner.as_str())
    }
}

impl Drop for ViewFolder {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            let path = self.0.display();
            tracing::warn!(%path, %error, "verify: a folder of views could not be removed; remove it");
        }
    }
}

/// Makes a folder, with those above it, that every account can pass.
pub(super) fn make(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o711).create(path)
}

/// Removes a folder even where folders in it are closed to their owner, as overlays leave them.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(path)?;
            fs::remove_dir_all(path)
        }
        ended => ended,
    }
}

fn unlock(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}
