//! Views as copies of the workspace, where the sandbox makes no overlays.

use super::view_changes::{Changes, same_content};
use crate::scratch::remove;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// Copies the workspace with these changes, and with what earlier commands wrote to ignored paths. Files that
/// are not changed keep their times, so that what was built stays valid.
pub(super) fn workspace(
    from: &Path,
    to: &Path,
    changes: &Changes,
    kept: &[PathBuf],
) -> io::Result<()> {
    remove(to)?;
    let mut copying = Copying { from, to, changes };
    copying.folder(Path::new(""))?;
    let nothing = Changes::default();
    for layer in kept {
        copying = Copying { from: layer, to, changes: &nothing };
        copying.folder(Path::new(""))?;
    }
    for (path, file) in &changes.replace {
        let target = to.join(path);
        if let Some(above) = target.parent() {
            fs::create_dir_all(above)?;
        }
        drop(fs::remove_file(&target));
        if file.symlink_metadata()?.is_symlink() {
            symlink(fs::read_link(file)?, &target)?;
        } else {
            fs::copy(file, &target)?;
        }
        own_as(&target, from)?;
    }
    Ok(())
}

struct Copying<'c> {
    from: &'c Path,
    to: &'c Path,
    changes: &'c Changes,
}

impl Copying<'_> {
    fn folder(&self, folder: &Path) -> io::Result<()> {
        let (from, to) = (self.from.join(folder), self.to.join(folder));
        match fs::create_dir(&to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if self.changes.remove.contains(&path) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.folder(&path)?;
            } else if kind.is_symlink() {
                let target = self.to.join(&path);
                drop(fs::remove_file(&target));
                symlink(fs::read_link(entry.path())?, &target)?;
                own_as(&target, &entry.path())?;
            } else if kind.is_file() && !self.changes.replace.contains_key(&path) {
                file(&entry.path(), &self.to.join(&path))?;
            }
        }
        like(&to, &from)
    }
}

fn file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let found = fs::symlink_metadata(from)?;
    let times = FileTimes::new().set_modified(found.modified()?).set_accessed(found.accessed()?);
    // Times can be set on a file without the right to write it.
    File::open(to)?.set_times(times)?;
    own_as(to, from)
}

/// Gives a folder the permissions and the owner of another.
pub(super) fn like(folder: &Path, other: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(other)?;
    fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o7777))?;
    own_as(folder, other)
}

/// Gives a path to the owner of another, where this process is root.
pub(super) fn own_as(path: &Path, other: &Path) -> io::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let owner = fs::symlink_metadata(other)?;
    lchown(path, Some(owner.uid()), Some(owner.gid()))
}

/// Moves what a command wrote in a copy to another folder.
pub(super) fn written(
    copy: &Path,
    workspace: &Path,
    changes: &Changes,
    to: &Path,
) -> io::Result<()> {
    let finding = Finding { copy, workspace, changes, to };
    finding.folder(Path::new(""))
}

struct Finding<'f> {
    copy: &'f Path,
    workspace: &'f Path,
    changes: &'f Changes,
    to: &'f Path,
}

impl Finding<'_> {
    fn folder(&self, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(self.copy.join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if path != Path::new(".git") {
                    self.folder(&path)?;
                }
            } else if (kind.is_file() || kind.is_symlink()) && !self.is_as_before(&path)? {
                let to = self.to.join(&path);
                if let Some(above) = to.parent() {
                    fs::create_dir_all(above)?;
                }
                drop(fs::remove_file(&to));
                fs::rename(entry.path(), to)?;
            }
        }
        Ok(())
    }

    fn is_as_before(&self, path: &Path) -> io::Result<bool> {
        let now = self.copy.join(path);
        if let Some(from) = self.changes.replace.get(path) {
            return Ok(same_content(&now, from));
        }
        let Ok(before) = fs::symlink_metadata(self.workspace.join(path)) else { return Ok(false) };
        let found = fs::symlink_metadata(&now)?;
        if found.is_symlink() {
            return Ok(same_content(&now, &self.workspace.join(path)));
        }
        Ok(found.len() == before.len() && found.modified()? == before.modified()?)
    }
}
