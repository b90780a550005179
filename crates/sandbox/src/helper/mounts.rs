//! The private mount tree: what the spec names, at the host's own paths, and nothing else.
//!
//! ```text
//!   a tmpfs becomes the root, the host's root lies below it at /.host
//!     -> each path of the spec is bound, overlaid or made, parents first
//!     -> /dev, /proc, /tmp, /dev/shm of its own
//!     -> what is read-only is remounted so, with every mount below it
//!     -> /.host goes away
//! ```

mod calls;
mod plan;
mod system;

use super::stage::Order;
use crate::deep::remove_tree;
use crate::spec::{NotStarted, Overlay, Refusal, Spec, View};
use crate::times::set_modified;
use calls::{ALWAYS, HOST, at, bind, bind_to, host, make_folder, parents, remount, setup, tmpfs};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, geteuid, pivot_root};
use plan::{Entry, Kind, plan};
use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where overlays in memory keep what is written.
const MEMORY: &str = "/.memory";
/// The two folders that an overlay writes to.
const UPPER: &str = "upper";
const WORK: &str = "work";

/// Makes the tree and becomes part of it. [`close`] takes the host's root away.
pub(super) fn build(order: &Order) -> Result<(), NotStarted> {
    let spec = &order.spec;
    enter(&spec.tree.scratch)?;
    if spec.confinement.overlay == Overlay::Memory {
        let limit = format!("mode=0700,size={}", spec.limits.tmp_bytes);
        make_folder(Path::new(MEMORY))?;
        tmpfs(Path::new(MEMORY), &limit)?;
    }
    let entries = plan(spec);
    let mut overlays = Overlays { order, made: 0 };
    for entry in &entries {
        overlays.make(entry)?;
    }
    system::devices(spec.attached)?;
    system::folders()?;
    system::processes()?;
    system::processors()?;
    restrict(&entries)?;
    // Also inside what was bound: the workspace may hold a token file.
    for path in &spec.tree.hidden {
        system::hide(path, &spec.tree)?;
    }
    overlays.change_view()
}

/// Takes the host's root away and closes what can still be written.
pub(super) fn close() -> Result<(), NotStarted> {
    system::close_processes()?;
    if Path::new(MEMORY).exists() {
        // The overlays keep it; no path leads to it any more.
        umount2(MEMORY, MntFlags::MNT_DETACH).map_err(|error| at("detach", MEMORY, error))?;
    }
    umount2(HOST, MntFlags::MNT_DETACH).map_err(|error| at("detach", HOST, error))?;
    for folder in [HOST, MEMORY] {
        drop(fs::remove_dir(folder));
    }
    remount(Path::new("/"), ALWAYS | MsFlags::MS_RDONLY)
}

/// The folders of the tree that are the command's own and lie in memory.
pub(super) fn in_memory(spec: &Spec) -> impl Iterator<Item = PathBuf> {
    let entries = plan(spec).into_iter();
    let own = entries.filter(|entry| matches!(entry.kind, Kind::Private | Kind::Temporary));
    own.map(|entry| entry.path)
}

fn enter(base: &Path) -> Result<(), NotStarted> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|error| at("make private", "/", error))?;
    tmpfs(base, "mode=0755,size=64m,nr_inodes=65536")?;
    let old = base.join(HOST.trim_start_matches('/'));
    make_folder(&old)?;
    pivot_root(base, &old).map_err(|error| at("make the root", base, error))?;
    chdir("/").map_err(|error| at("enter", "/", error))
}

/// Makes each entry's mount.
struct Overlays<'o> {
    order: &'o Order,
    /// How many overlays there are.
    made: usize,
}

impl Overlays<'_> {
    fn make(&mut self, entry: &Entry) -> Result<(), NotStarted> {
        let path = entry.path.as_path();
        match &entry.kind {
            Kind::ReadOnly | Kind::Writable => bind(path),
            Kind::Private => {
                make_folder(path)?;
                tmpfs(path, &format!("size={},{}", self.spec().limits.tmp_bytes, self.owned(0o700)))
            }
            Kind::Temporary => {
                make_folder(path)?;
                tmpfs(path, &format!("size={},mode=1777", self.spec().limits.tmp_bytes))
            }
            Kind::Cache => self.cache(path),
            Kind::View => self.view(path),
            Kind::Link(target) => {
                parents(path)?;
                // Where it is there already, the folder that holds it was bound.
                ignore_existing(symlink(target, path)).map_err(|error| setup("link", path, &error))
            }
            Kind::File(text) => self.file(path, text),
        }
    }

    fn spec(&self) -> &Spec {
        &self.order.spec
    }

    /// The options that give a tmpfs to the command's account.
    fn owned(&self, mode: u32) -> String {
        let account = self.order.account;
        let owner = account.map(|account| format!(",uid={},gid={}", account.uid, account.gid));
        format!("mode={mode:o}{}", owner.unwrap_or_default())
    }

    fn file(&self, path: &Path, text: &str) -> Result<(), NotStarted> {
        parents(path)?;
        fs::write(path, text)
            .and_then(|()| self.order.account.map_or(Ok(()), |account| account.own(path)))
            .map_err(|error| setup("write", path, &error))
    }

    /// A cache of which the command sees what is there, and whose changes go away with it.
    fn cache(&mut self, path: &Path) -> Result<(), NotStarted> {
        if self.spec().confinement.overlay == Overlay::Unavailable {
            return bind(path);
        }
        make_folder(path)?;
        let upper = self.own_upper()?;
        overlay(&[host(path)], &upper, path).map_err(|error| at("overlay", path, error))
    }

    fn view(&mut self, path: &Path) -> Result<(), NotStarted> {
        if let Some(copy) = self.spec().view.as_ref().and_then(|view| view.copy.as_deref()) {
            return bind_to(copy, path);
        }
        let kept = self.spec().view.as_ref().and_then(|view| view.upper.clone());
        if self.spec().confinement.overlay == Overlay::Unavailable {
            return Err(unsupported("this kernel lets the sandbox make no overlay"));
        }
        make_folder(path)?;
        let upper = match kept {
            Some(kept) => self.upper_in(&host(&kept))?,
            None => self.own_upper()?,
        };
        let below = self.spec().view.as_ref().map(|view| view.below.as_slice());
        let layers: Vec<_> =
            below.unwrap_or_default().iter().map(|layer| host(layer)).chain([host(path)]).collect();
        overlay(&layers, &upper, path)
            .map_err(|error| unsupported(&format!("overlay at {}: {error}", path.display())))
    }

    /// The folder of one more overlay, which goes away with the command.
    fn own_upper(&mut self) -> Result<PathBuf, NotStarted> {
        let parent = match (self.spec().confinement.overlay, &self.order.scratch) {
            (Overlay::Disk, Some(scratch)) => host(scratch),
            (Overlay::Disk | Overlay::Memory | Overlay::Unavailable, _) => PathBuf::from(MEMORY),
        };
        self.made += 1;
        let folder = parent.join(self.made.to_string());
        self.make_owned(&folder)?;
        self.upper_in(&folder)
    }

    /// Makes what an overlay writes to, in a folder.
    fn upper_in(&self, folder: &Path) -> Result<PathBuf, NotStarted> {
        self.make_owned(&folder.join(UPPER))?;
        self.make_owned(&folder.join(WORK))?;
        Ok(folder.to_owned())
    }

    fn make_owned(&self, folder: &Path) -> Result<(), NotStarted> {
        ignore_existing(fs::create_dir(folder))
            .and_then(|()| self.order.account.map_or(Ok(()), |account| account.own(folder)))
            .map_err(|error| setup("make", folder, &error))
    }

    /// Puts the view's own files into it, and takes out what it does not have.
    fn change_view(&self) -> Result<(), NotStarted> {
        let Some(View { copy: _, upper: _, below: _, replace, remove, times }) = &self.spec().view
        else {
            return Ok(());
        };
        let workspace = &self.spec().tree.workspace;
        for path in remove {
            let path = workspace.join(path);
            remove_tree(&path).map_err(|error| setup("take out of the view", &path, &error))?;
        }
        // A new time, so that no build answers for an older text. It is the same for all, so that none of them looks made before
        // another one that it is made of.
        let mut at = None;
        for (path, file) in replace {
            let path = workspace.join(path);
            self.replace(&path, &host(file), &mut at)
                .map_err(|error| setup("put into the view", &path, &error))?;
        }
        // Only now: a folder may get one in which nothing can be written, or a time that is changed by what is put there.
        for (path, folder) in replace.iter().rev() {
            let (path, folder) = (workspace.join(path), host(folder));
            allow_as(&path, &folder).map_err(|error| setup("put into the view", &path, &error))?;
        }
        for (path, at) in times {
            let path = workspace.join(path);
            set_modified(&path, *at).map_err(|error| setup("set the time of", &path, &error))?;
        }
        Ok(())
    }

    fn replace(&self, path: &Path, file: &Path, at: &mut Option<SystemTime>) -> io::Result<()> {
        let mut missing = Vec::new();
        let mut above = path.parent();
        while let Some(folder) = above.filter(|folder| !folder.exists()) {
            missing.push(folder);
            above = folder.parent();
        }
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.order.account.map_or(Ok(()), |account| account.own(folder))?;
        }
        let found = fs::symlink_metadata(file)?;
        if found.is_dir() {
            return match fs::create_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                Err(_) => Ok(()),
                Ok(()) => self.order.account.map_or(Ok(()), |account| account.own(path)),
            };
        }
        // Never through a link: what is replaced may be one.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if found.is_symlink() {
            return symlink(fs::read_link(file)?, path);
        }
        fs::copy(file, path)?;
        let copied = File::open(path)?;
        match at {
            Some(at) => copied.set_times(FileTimes::new().set_modified(*at))?,
            None => *at = Some(copied.metadata()?.modified()?),
        }
        self.order.account.map_or(Ok(()), |account| account.own(path))
    }
}

/// Gives a folder of the view the permissions of the one that it is made from.
fn allow_as(path: &Path, from: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(from)?;
    if found.is_dir() { fs::set_permissions(path, found.permissions()) } else { Ok(()) }
}

/// An overlay that writes to the folders [`UPPER`] and [`WORK`] in a folder. Both are named from there, because the command
/// reads the mount's options: by the folder it could tell the views of a check apart.
fn overlay(lower: &[PathBuf], folder: &Path, path: &Path) -> Result<(), Errno> {
    let lower: Vec<_> = lower.iter().map(|folder| escaped(folder)).collect();
    // Who is not root of the machine keeps the overlay's marks in attributes of the user.
    let marks = if geteuid().is_root() { "" } else { ",userxattr" };
    let own = format!(",upperdir={UPPER},workdir={WORK}{marks}");
    let options = [b"lowerdir=".as_slice(), &lower.join(b":".as_slice()), own.as_bytes()].concat();
    chdir(folder)?;
    let mounted = mount(Some("overlay"), path, Some("overlay"), ALWAYS, Some(options.as_slice()));
    chdir("/")?;
    mounted
}

/// A path with a backslash before the bytes that end an option or a folder, and before backslashes.
fn escaped(path: &Path) -> Vec<u8> {
    let special = |byte: &u8| b",:\\".contains(byte).then_some(b'\\');
    path.as_os_str()
        .as_bytes()
        .iter()
        .flat_map(|byte| special(byte).into_iter().chain([*byte]))
        .collect()
}

/// Remounts every mount of the tree with what its entry allows.
fn restrict(entries: &[Entry]) -> Result<(), NotStarted> {
    // Names are bytes, also those of mounts that have nothing to do with the command.
    let read = fs::read("/proc/self/mountinfo");
    let mounts = read.map_err(|error| setup("read", Path::new("/proc/self/mountinfo"), &error))?;
    for line in mounts.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ').skip(4);
        let (Some(point), Some(options)) = (fields.next(), fields.next()) else { continue };
        let point = PathBuf::from(OsString::from_vec(unescaped(point)));
        let (line, options) = (String::from_utf8_lossy(line), String::from_utf8_lossy(options));
        if system::shows_device(&point) {
            remount(&point, kept(&options) | system::OF_DEVICE)?;
            continue;
        }
        let above = entries.iter().filter(|entry| point.starts_with(&entry.path));
        let Some(entry) = above.max_by_key(|entry| entry.path.components().count()) else {
            continue;
        };
        let mut flags = kept(&options) | ALWAYS;
        if matches!(entry.kind, Kind::ReadOnly)
            || matches!(entry.kind, Kind::Cache) && !has_overlay(&line)
        {
            flags |= MsFlags::MS_RDONLY;
        }
        remount(&point, flags)?;
    }
    Ok(())
}

fn has_overlay(line: &str) -> bool {
    line.split_once(" - ").is_some_and(|(_, system)| system.starts_with("overlay "))
}

/// The flags that a mount has already: in a user namespace no process may remove them.
fn kept(options: &str) -> MsFlags {
    options.split(',').fold(MsFlags::empty(), |flags, option| {
        flags
            | match option {
                "ro" => MsFlags::MS_RDONLY,
                "nosuid" => MsFlags::MS_NOSUID,
                "nodev" => MsFlags::MS_NODEV,
                "noexec" => MsFlags::MS_NOEXEC,
                "noatime" => MsFlags::MS_NOATIME,
                "nodiratime" => MsFlags::MS_NODIRATIME,
                "relatime" => MsFlags::MS_RELATIME,
                _ => MsFlags::empty(),
            }
    })
}

/// A path as `/proc/self/mountinfo` writes it: blanks and backslashes as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut read = Vec::with_capacity(text.len());
    let mut left = text;
    while let Some((byte, rest)) = left.split_first() {
        let code = |code: &[u8; 3]| match code {
            b"040" => Some(b' '),
            b"011" => Some(b'\t'),
            b"012" => Some(b'\n'),
            b"134" => Some(b'\\'),
            _ => None,
        };
        let escaped = rest.split_first_chunk().filter(|_| *byte == b'\\');
        (left, _) = match escaped.and_then(|(three, after)| Some((code(three)?, after))) {
            Some((character, after)) => (after, read.push(character)),
            None => (rest, read.push(*byte)),
        };
    }
    read
}

fn ignore_existing(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn unsupported(reason: &str) -> NotStarted {
    NotStarted::new(Refusal::ViewUnsupported, format!("no view: {reason}; make a copy"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_path_is_read_and_written_as_the_kernel_does() {
        assert_eq!(unescaped(br"/a\040b\134c\0"), br"/a b\c\0");
        assert_eq!(unescaped(b"/a\xe9\\040"), b"/a\xe9 ");
        assert_eq!(escaped(Path::new("/a:b,c\\d")), br"/a\:b\,c\\d");
        assert_eq!(escaped(Path::new(OsStr::from_bytes(b"/\xe9:"))), b"/\xe9\\:");
        assert_eq!(host(Path::new("/usr/bin")), Path::new("/.host/usr/bin"));
    }
}
