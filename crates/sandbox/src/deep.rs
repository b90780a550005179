//! Walks over trees that commands made. They may be deeper than any path is long, and may change meanwhile, so a walk
//! goes by descriptors, of which it has three open at most, and keeps its way in memory and not on the stack.

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A folder itself: a link in its place is not followed.
const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// What its owner needs to list and change a folder.
const OPEN: Mode = Mode::S_IRWXU;

/// What a walk does with what it finds.
pub(crate) trait Visit {
    /// Opens a folder that the walk comes to.
    fn open(&mut self, above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
        openat(above, name, FOLDER, Mode::empty())
    }

    /// Visits an entry of a folder; answers whether it is a folder to walk.
    fn entry(&mut self, above: BorrowedFd<'_>, name: &OsStr, kind: Option<Type>) -> bool;

    /// Leaves a folder, in which everything was visited.
    fn leave(&mut self, above: BorrowedFd<'_>, name: &OsStr);

    /// Notes what could not be visited.
    fn failed(&mut self, error: Errno);
}

/// A folder on the way.
struct Level {
    name: OsString,
    /// Device and inode, by which it is known again on the way back.
    identity: (u64, u64),
    /// Folders in it that are still to be walked.
    ahead: Vec<OsString>,
}

/// Walks everything below a folder.
///
/// # Errors
/// The folder cannot be opened, or one that the walk was in was moved away, where it ends.
pub(crate) fn walk(top: &Path, visit: &mut impl Visit) -> Result<(), Errno> {
    // The service made what lies above; only what lies below is the command's.
    let mut current = visit.open(AT_FDCWD, top.as_os_str())?;
    let mut level = list(&current, OsString::new(), visit)?;
    let mut above: Vec<Level> = Vec::new();
    loop {
        if let Some(name) = level.ahead.pop() {
            let entered = visit.open(current.as_fd(), &name);
            match entered.and_then(|folder| Ok((list(&folder, name, visit)?, folder))) {
                Ok((below, folder)) => {
                    current = folder;
                    above.push(std::mem::replace(&mut level, below));
                }
                // It is gone, or is no folder any more.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
                Err(error) => visit.failed(error),
            }
            continue;
        }
        let Some(back) = above.pop() else { return Ok(()) };
        let parent = openat(&current, "..", FOLDER, Mode::empty())?;
        if identity(&parent)? != back.identity {
            return Err(Errno::ESTALE);
        }
        visit.leave(parent.as_fd(), &level.name);
        current = parent;
        level = back;
    }
}

fn identity(folder: &OwnedFd) -> Result<(u64, u64), Errno> {
    let found = fstat(folder)?;
    // The types of both differ between systems.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    Ok((found.st_dev as u64, found.st_ino as u64))
}

fn list(folder: &OwnedFd, name: OsString, visit: &mut impl Visit) -> Result<Level, Errno> {
    let mut level = Level { name, identity: identity(folder)?, ahead: Vec::new() };
    let mut entries = Dir::from_fd(openat(folder, ".", FOLDER, Mode::empty())?)?;
    for entry in entries.iter() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                visit.failed(error);
                break;
            }
        };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && visit.entry(folder.as_fd(), name, entry.file_type()) {
            level.ahead.push(name.to_owned());
        }
    }
    Ok(level)
}

/// Removes a file, a link itself, or a folder and what lies in it, whatever permissions a command left there. It goes on
/// past what cannot be removed. Nothing there is no error. It blocks.
///
/// # Errors
/// What the operating system says about the first part that could not be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let mut removal = Removal { failed: None };
    let ended = match walk(path, &mut removal) {
        Ok(()) => unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir),
        Err(Errno::ENOTDIR | Errno::ELOOP) => unlinkat(AT_FDCWD, path, UnlinkatFlags::NoRemoveDir),
        Err(error) => Err(error),
    };
    match (ended, removal.failed) {
        // The folder is not empty because of what failed first.
        (Err(error), failed) if error != Errno::ENOENT => Err(failed.unwrap_or(error).into()),
        (Ok(()) | Err(_), _) => Ok(()),
    }
}

struct Removal {
    failed: Option<Errno>,
}

impl Removal {
    fn note(&mut self, removed: Result<(), Errno>) {
        match removed {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => self.failed(error),
        }
    }
}

impl Visit for Removal {
    fn open(&mut self, above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
        let folder = match openat(above, name, FOLDER, Mode::empty()) {
            Err(Errno::EACCES) => {
                // Never through a link.
                fchmodat(above, name, OPEN, FchmodatFlags::NoFollowSymlink)?;
                openat(above, name, FOLDER, Mode::empty())?
            }
            opened => opened?,
        };
        if !Mode::from_bits_truncate(fstat(&folder)?.st_mode).contains(OPEN) {
            // What follows says whether it mattered: root needs no permission.
            fchmod(&folder, OPEN).ok();
        }
        Ok(folder)
    }

    fn entry(&mut self, above: BorrowedFd<'_>, name: &OsStr, kind: Option<Type>) -> bool {
        if kind == Some(Type::Directory) {
            return true;
        }
        match unlinkat(above, name, UnlinkatFlags::NoRemoveDir) {
            // The file system did not say that it is a folder, or it became one.
            Err(Errno::EISDIR) => return true,
            Err(Errno::EPERM) if kind.is_none() => return true,
            removed => self.note(removed),
        }
        false
    }

    fn leave(&mut self, above: BorrowedFd<'_>, name: &OsStr) {
        let removed = unlinkat(above, name, UnlinkatFlags::RemoveDir);
        self.note(removed);
    }

    fn failed(&mut self, error: Errno) {
        self.failed.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Makes folders in each other, each with a file, so many levels deep.
    fn make_deep(top: &Path, levels: usize) {
        let mode = OPEN;
        let mut folder = openat(AT_FDCWD, top, FOLDER, Mode::empty()).unwrap();
        for _ in 0..levels {
            let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
            openat(&folder, "f", flags, mode).unwrap();
            nix::sys::stat::mkdirat(&folder, "d", mode).unwrap();
            folder = openat(&folder, "d", FOLDER, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_removed_on_a_small_stack() {
        // On a disk it takes half a minute to make it.
        let memory = Some(Path::new("/dev/shm")).filter(|folder| folder.is_dir());
        let place = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
        let tree = place.path().join("tree");
        fs::create_dir(&tree).unwrap();
        make_deep(&tree, 40_000);
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let path = tree.clone();
        small.spawn(move || remove_tree(&path).unwrap()).unwrap().join().unwrap();
        assert!(!tree.exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "").unwrap();
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        symlink(&kept, tree.join("a/link")).unwrap();
        symlink(kept.join("f"), tree.join("a/b/file")).unwrap();
        let link = place.path().join("link");
        symlink(&kept, &link).unwrap();
        remove_tree(&link).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && fs::symlink_metadata(&link).is_err());
        assert!(kept.join("f").exists());
        remove_tree(&kept.join("f")).unwrap();
        assert!(!kept.join("f").exists());
    }

    #[test]
    fn folders_without_permission_are_removed_by_their_owner() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::write(tree.join("a/b/c/f"), "").unwrap();
        let below = ["a/b/c", "a/b", "a", ""].map(|path| tree.join(path));
        for (folder, mode) in below.iter().zip([0o500, 0, 0o300, 0o400]) {
            fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn a_folder_that_becomes_a_link_meanwhile_leads_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let kept = place.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("f"), "").unwrap();
        let (tree, over) = (place.path().join("tree"), AtomicBool::new(false));
        let swapped = tree.join("swapped");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // Each of them fails now and then.
                    fs::create_dir_all(swapped.join("below")).ok();
                    fs::rename(&swapped, tree.join("moved")).ok();
                    symlink(&kept, &swapped).ok();
                    fs::remove_file(&swapped).ok();
                }
            });
            for _ in 0..2_000 {
                // It may find new entries again and again.
                remove_tree(&tree).ok();
            }
            over.store(true, Ordering::Relaxed);
        });
        remove_tree(&tree).unwrap();
        assert!(kept.join("f").exists());
    }
}
