//! Opens files beneath a folder safely while other processes change the folder.
//!
//! On Linux the kernel resolves a path in one step (`openat2`). Otherwise, and when the real path
//! is needed, each component is opened from the one before it without following links. Links are
//! then read and resolved here. `EXDEV` means that the path leaves the folder.

use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::Mode;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The most links in one path; Linux has the same limit.
const MAX_LINKS: u32 = 40;

/// The flags for opening a folder of the path.
const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The end of a path with all links resolved.
#[derive(Debug)]
pub(super) struct Place {
    /// The deepest existing folder of the path.
    pub(super) folder: OwnedFd,
    /// Missing folders between that one and the name.
    pub(super) missing: Vec<OsString>,
    /// The last component; it was not a link when it was checked. `.` for the folder itself.
    pub(super) name: OsString,
    /// The real path, relative to the root, without links.
    pub(super) real: PathBuf,
}

/// Opens a normalized relative path beneath the root. Links that stay inside are followed, absolute
/// ones are not.
pub(super) fn open(root: &OwnedFd, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    match open_in_one_step(root, path, flags) {
        // An old kernel, a filter that refuses the call, or a concurrent rename.
        Err(Errno::ENOSYS | Errno::EPERM | Errno::EAGAIN) => {}
        answer => return answer,
    }
    open_by_walking(root, path, flags)
}

/// Opens a folder by its name in another, without following a link.
pub(super) fn open_folder(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    fcntl::openat(parent, name, FOLDER, Mode::empty())
}

#[cfg(target_os = "linux")]
fn open_in_one_step(root: &OwnedFd, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    use nix::fcntl::{OpenHow, ResolveFlag};
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fcntl::openat2(root, path, how)
}

fn open_by_walking(root: &OwnedFd, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let place = find(root, path)?;
    if !place.missing.is_empty() {
        return Err(Errno::ENOENT);
    }
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    fcntl::openat(&place.folder, place.name.as_os_str(), flags, Mode::empty())
}

/// Finds the real path of a normalized relative path. The file and the last folders may be missing.
pub(super) fn find(root: &OwnedFd, path: &Path) -> Result<Place, Errno> {
    let mut walk = Walk {
        root: root.try_clone().map_err(|_| Errno::EMFILE)?,
        entered: Vec::new(),
        pending: VecDeque::new(),
        links: 0,
    };
    walk.prepend(path)?;
    walk.finish()
}

struct Walk {
    root: OwnedFd,
    entered: Vec<(OwnedFd, OsString)>,
    pending: VecDeque<OsString>,
    links: u32,
}

impl Walk {
    fn finish(mut self) -> Result<Place, Errno> {
        while let Some(name) = self.pending.pop_front() {
            if name == ".." {
                self.entered.pop().ok_or(Errno::EXDEV)?;
                continue;
            }
            match fcntl::readlinkat(self.here(), name.as_os_str()) {
                Ok(target) => self.follow(Path::new(&target))?,
                Err(Errno::EINVAL) if self.pending.is_empty() => return Ok(self.end(name)),
                Err(Errno::EINVAL) => {
                    let folder = open_folder(self.here(), &name)?;
                    self.entered.push((folder, name));
                }
                Err(Errno::ENOENT) => return self.end_before(name),
                Err(error) => return Err(error),
            }
        }
        Ok(self.end(OsString::from(".")))
    }

    fn here(&self) -> &OwnedFd {
        self.entered.last().map_or(&self.root, |(folder, _)| folder)
    }

    fn follow(&mut self, target: &Path) -> Result<(), Errno> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        self.prepend(target)
    }

    fn prepend(&mut self, path: &Path) -> Result<(), Errno> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(_) | Component::ParentDir => {
                    names.push(component.as_os_str().to_owned());
                }
                Component::RootDir | Component::Prefix(_) => return Err(Errno::EXDEV),
            }
        }
        for name in names.into_iter().rev() {
            self.pending.push_front(name);
        }
        Ok(())
    }

    /// The rest of a path below a missing folder contains no link, and `..` in it would refer to a
    /// folder that does not exist.
    fn end_before(mut self, first: OsString) -> Result<Place, Errno> {
        if self.pending.iter().any(|name| name == "..") {
            return Err(Errno::ENOENT);
        }
        let Some(name) = self.pending.pop_back() else {
            return Ok(self.end(first));
        };
        let missing: Vec<_> = std::iter::once(first).chain(self.pending.drain(..)).collect();
        let mut place = self.end(OsString::from("."));
        place.real.extend(&missing);
        place.real.push(&name);
        Ok(Place { missing, name, ..place })
    }

    fn end(mut self, name: OsString) -> Place {
        let mut real: PathBuf = self.entered.iter().map(|(_, name)| name).collect();
        if name != "." {
            real.push(&name);
        }
        let folder = match self.entered.pop() {
            Some((folder, _)) => folder,
            None => self.root,
        };
        Place { folder, missing: Vec::new(), name, real }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn root_of(folder: &Path) -> OwnedFd {
        fs::File::open(folder).unwrap().into()
    }

    /// Both ways must give the same result, because hosts differ in which one they use.
    #[test]
    fn the_kernel_and_the_walk_agree_on_what_is_inside() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let inside = tempfile::tempdir().unwrap();
        let at = |name: &str| inside.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "x").unwrap();
        symlink("a/b/file", at("good")).unwrap();
        symlink("../b/../b", at("a/b/around")).unwrap();
        symlink("../..", at("a/b/up")).unwrap();
        symlink("../../..", at("a/b/out")).unwrap();
        symlink(outside.path(), at("absolute")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        let root = root_of(inside.path());
        for (path, expected) in [
            ("a/b/file", Ok(())),
            ("good", Ok(())),
            ("a/b/around/file", Ok(())),
            ("a/b/up/good", Ok(())),
            ("a/b/up", Ok(())),
            ("", Ok(())),
            ("a/b/out/etc", Err(Errno::EXDEV)),
            ("absolute/secret", Err(Errno::EXDEV)),
            ("loop", Err(Errno::ELOOP)),
            ("dangling", Err(Errno::ENOENT)),
            ("a/none/file", Err(Errno::ENOENT)),
            ("good/file", Err(Errno::ENOTDIR)),
        ] {
            let path = Path::new(path);
            let walked = open_by_walking(&root, path, OFlag::O_RDONLY).map(drop);
            assert_eq!(walked, expected, "walking {path:?}");
            let opened = open(&root, path, OFlag::O_RDONLY).map(drop);
            assert_eq!(opened, expected, "opening {path:?}");
        }
    }

    #[test]
    fn the_real_place_of_a_file_behind_links_is_found() {
        let inside = tempfile::tempdir().unwrap();
        fs::create_dir_all(inside.path().join("real/deep")).unwrap();
        symlink("real", inside.path().join("link")).unwrap();
        let root = root_of(inside.path());
        let place = find(&root, Path::new("link/deep/new/more/file.txt")).unwrap();
        assert_eq!(place.real, Path::new("real/deep/new/more/file.txt"));
        assert_eq!(place.missing, ["new", "more"]);
        assert_eq!(place.name, "file.txt");
    }
}
