//! Views as copies of the workspace, where the sandbox makes no overlays.

use super::view_changes::{Changes, same_content};
use crate::scratch::entries;
use std::fs::{self, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use surety_sandbox::{remove_tree, set_modified};

/// Copies the workspace with these changes, and with what earlier commands wrote to ignored paths. Files that
/// are not changed keep their times, so that what was built stays valid. What this account cannot read stands in the copy
/// as something that cannot be read either.
pub(super) fn workspace(
    from: &Path,
    to: &Path,
    changes: &Changes,
    kept: &[PathBuf],
) -> io::Result<()> {
    remove_tree(to)?;
    let mut folders = Vec::new();
    Copying { from, to, changes, folders: &mut folders }.folder(Path::new(""))?;
    let nothing = Changes::default();
    for from in kept {
        let mut copying = Copying { from, to, changes: &nothing, folders: &mut folders };
        copying.folder(Path::new(""))?;
    }
    // One time for all, so that none of them looks made before another one that it is made of.
    let mut at: Option<SystemTime> = None;
    for (path, file) in &changes.replace {
        let target = to.join(path);
        if let Some(above) = target.parent() {
            fs::create_dir_all(above)?;
        }
        drop(fs::remove_file(&target));
        let found = file.symlink_metadata()?;
        if found.is_dir() {
            fs::create_dir_all(&target)?;
            folders.push((target.clone(), file.clone()));
        } else if found.is_symlink() {
            symlink(fs::read_link(file)?, &target)?;
        } else {
            fs::copy(file, &target)?;
            let copied = File::open(&target)?;
            match at {
                Some(at) => copied.set_times(FileTimes::new().set_modified(at))?,
                None => at = Some(copied.metadata()?.modified()?),
            }
        }
        own_as(&target, from)?;
    }
    // Only now: nothing can be written in a folder without the right to write. A folder comes after those in it.
    folders.iter().try_for_each(|(folder, other)| like(folder, other))?;
    changes.times.iter().try_for_each(|(path, at)| set_modified(&to.join(path), *at))
}

struct Copying<'c> {
    from: &'c Path,
    to: &'c Path,
    changes: &'c Changes,
    /// The folders that were made, each with the one that it is made like.
    folders: &'c mut Vec<(PathBuf, PathBuf)>,
}

impl Copying<'_> {
    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let (from, to) = (self.from.join(folder), self.to.join(folder));
        match fs::create_dir(&to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let listing = match entries(&from) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.folders.push((to, from));
                return Ok(());
            }
            read => read?,
        };
        for entry in listing {
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
        self.folders.push((to, from));
        Ok(())
    }
}

fn file(from: &Path, to: &Path) -> io::Result<()> {
    match fs::copy(from, to) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            File::create(to)?.set_permissions(Permissions::from_mode(0o0))?;
            return own_as(to, from);
        }
        copied => drop(copied?),
    }
    let found = fs::symlink_metadata(from)?;
    let times = FileTimes::new().set_modified(found.modified()?).set_accessed(found.accessed()?);
    // Times can be set on a file without the right to write it.
    File::open(to)?.set_times(times)?;
    own_as(to, from)
}

/// Whether a folder is closed to this account, or too deep for a path.
pub(super) fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidFilename)
}

/// The time of the last write, in nanoseconds since 1970.
fn modified_ns(found: &fs::Metadata) -> i64 {
    found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
}

/// Whether this account may not read a file.
fn is_closed(path: &Path) -> bool {
    File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether a file of a copy is what stands there for one that cannot be read.
fn stands_for_closed(found: &fs::Metadata) -> bool {
    found.len() == 0 && found.mode() & 0o7777 == 0
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
        let listing = match entries(&self.copy.join(folder)) {
            // A command wrote nothing there, took the right to look away, or made it too deep for a path.
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            read => read?,
        };
        for entry in listing {
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
        let is_in_time = match self.changes.times.get(path) {
            Some(at) => modified_ns(&found) == *at,
            None => found.modified()? == before.modified()?,
        };
        let is_same = found.len() == before.len() && is_in_time;
        Ok(is_same || stands_for_closed(&found) && is_closed(&self.workspace.join(path)))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use nix::unistd::{Uid, setfsuid};

    /// Files that are open to their owner only are closed to this account; root would read all of them.
    fn as_another_account() {
        if nix::unistd::geteuid().is_root() {
            setfsuid(Uid::from_raw(65_534));
        }
    }

    #[test]
    fn what_cannot_be_read_stands_in_the_copy_and_closed_folders_take_their_changes() {
        let outside = tempfile::tempdir().unwrap();
        fs::set_permissions(outside.path(), Permissions::from_mode(0o777)).unwrap();
        let path = outside.path().to_owned();
        // The account of a thread ends with the thread.
        let ran = std::thread::spawn(move || {
            as_another_account();
            let (from, to, new) = (path.join("from"), path.join("to"), path.join("new"));
            fs::create_dir_all(from.join("closed")).unwrap();
            fs::create_dir_all(from.join("data")).unwrap();
            for name in ["closed/a", "data/b", "secret", "open"] {
                fs::write(from.join(name), "old").unwrap();
            }
            fs::write(&new, "new").unwrap();
            for (name, mode) in [("closed", 0o555), ("data", 0o0), ("secret", 0o0)] {
                fs::set_permissions(from.join(name), Permissions::from_mode(mode)).unwrap();
            }
            let mut changes = Changes::default();
            changes.replace.insert(PathBuf::from("closed/a"), new);
            changes.replace.insert(PathBuf::from("made"), from.join("closed"));
            changes.times.insert(PathBuf::from("open"), 1_000_000_007);
            workspace(&from, &to, &changes, &[]).unwrap();
            assert_eq!(fs::read_to_string(to.join("closed/a")).unwrap(), "new");
            assert_eq!(fs::read_to_string(to.join("open")).unwrap(), "old");
            assert!(fs::read_dir(to.join("data")).is_err());
            assert!(fs::read_to_string(to.join("secret")).is_err());
            let mode = |name: &str| fs::metadata(to.join(name)).unwrap().mode() & 0o7777;
            assert_eq!([mode("closed"), mode("data"), mode("secret")], [0o555, 0, 0]);
            assert_eq!(mode("made"), 0o555);
            assert_eq!(fs::metadata(to.join("open")).unwrap().mtime(), 1);
            written(&to, &from, &changes, &path.join("written")).unwrap();
            assert!(!path.join("written").exists());
            remove_tree(&to).unwrap();
            remove_tree(&from).unwrap();
        });
        ran.join().unwrap();
    }
}
