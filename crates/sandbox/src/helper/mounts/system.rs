//! The parts of the tree that every command has: devices, its own processes, temporary folders.

use super::calls::{ALWAYS, at, bind, host, make_file, make_folder, remount, setup, tmpfs};
use crate::spec::{NotStarted, Tree};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Devices without state, which every program expects.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The device that opens the terminal of the session.
const TERMINAL: &str = "/dev/tty";

const LINKS: [(&str, &str); 6] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
    ("/var/tmp", "/tmp"),
];

/// What of `/proc` is about the machine and can be written: uid 0 may write there without any
/// capability.
const CLOSED: [&str; 6] =
    ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi"];

/// What of `/proc` shows more of the machine than a build or a test needs.
const COVERED: [&str; 6] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/kmsg",
];

/// A file without any permission, while it is bound over a hidden one.
const CLOSED_FILE: &str = "/.closed";

/// What programs ask for the number of processors.
const PROCESSORS: [&str; 2] = ["/sys/devices/system/cpu", "/sys/devices/system/node"];

pub(super) fn devices(keeps_terminal: bool) -> Result<(), NotStarted> {
    make_folder(Path::new("/dev"))?;
    for device in DEVICES.iter().chain(keeps_terminal.then_some(&TERMINAL)) {
        bind(Path::new(device))?;
    }
    let terminals = Path::new("/dev/pts");
    make_folder(terminals)?;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("devpts"), terminals, Some("devpts"), flags, options)
        .map_err(|error| at("devpts", terminals, error))
}

/// Whether a device of the host is shown here. What it is remounted with leaves it open for reading and writing, and its
/// mode, owner and times as they are on the host.
pub(super) fn shows_device(point: &Path) -> bool {
    let shown = DEVICES.iter().chain(&COVERED).chain([&TERMINAL]);
    { shown }.any(|path| point == Path::new(path))
}

/// The flags of such a mount.
pub(super) const OF_DEVICE: MsFlags =
    MsFlags::MS_NOSUID.union(MsFlags::MS_NOEXEC).union(MsFlags::MS_RDONLY);

pub(super) fn folders() -> Result<(), NotStarted> {
    for folder in ["/var", "/run"] {
        make_folder(Path::new(folder))?;
    }
    for (path, target) in LINKS {
        if fs::symlink_metadata(path).is_err() {
            symlink(target, path).map_err(|error| setup("link", Path::new(path), &error))?;
        }
    }
    Ok(())
}

/// A `/proc` of the command's own processes.
pub(super) fn processes() -> Result<(), NotStarted> {
    let path = Path::new("/proc");
    make_folder(path)?;
    let flags = ALWAYS | MsFlags::MS_NOEXEC;
    let none: Option<&str> = None;
    mount(Some("proc"), path, Some("proc"), flags, none)
        .map_err(|error| at("proc", path, error))?;
    for covered in COVERED.map(Path::new).into_iter().filter(|path| path.exists()) {
        cover(covered)?;
    }
    Ok(())
}

/// Closes what of `/proc` can be written, once nothing has to be.
pub(super) fn close_processes() -> Result<(), NotStarted> {
    let none: Option<&str> = None;
    for path in CLOSED.map(Path::new).into_iter().filter(|path| path.exists()) {
        mount(Some(path), path, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
            .map_err(|error| at("bind", path, error))?;
        remount(path, ALWAYS | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY)?;
    }
    Ok(())
}

pub(super) fn processors() -> Result<(), NotStarted> {
    for path in PROCESSORS.map(Path::new).into_iter().filter(|path| host(path).exists()) {
        bind(path)?;
        let flags = ALWAYS | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
        remount(path, flags | MsFlags::MS_RELATIME)?;
    }
    Ok(())
}

/// Covers a path, when the tree shows it.
pub(super) fn hide(path: &Path, tree: &Tree) -> Result<(), NotStarted> {
    if tree.workspace.starts_with(path) {
        // The workspace lies below it, and nothing else of it is shown.
        return Ok(());
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            tmpfs(path, "mode=0000,size=4k")?;
            remount(path, ALWAYS | MsFlags::MS_RDONLY)
        }
        Ok(found) if !found.is_symlink() => close_file(path),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Shows a file in a file's place that no command may open. An empty one would look like a readable file
/// without content.
fn close_file(path: &Path) -> Result<(), NotStarted> {
    let closed = Path::new(CLOSED_FILE);
    make_file(closed)?;
    fs::set_permissions(closed, Permissions::from_mode(0o000))
        .map_err(|error| setup("close", closed, &error))?;
    let none: Option<&str> = None;
    mount(Some(closed), path, none, MsFlags::MS_BIND, none)
        .map_err(|error| at("close", path, error))?;
    remount(path, ALWAYS | MsFlags::MS_RDONLY)?;
    // The mount keeps the file; no other path leads to it.
    fs::remove_file(closed).map_err(|error| setup("remove", closed, &error))
}

/// Shows nothing in a file's place.
fn cover(path: &Path) -> Result<(), NotStarted> {
    make_file(path)?;
    let none: Option<&str> = None;
    mount(Some(&host(Path::new("/dev/null"))), path, none, MsFlags::MS_BIND, none)
        .map_err(|error| at("cover", path, error))
}
