//! The calls that make one mount or file of the tree, with errors that name the path.

use crate::spec::NotStarted;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the host's root lies while the tree is made.
pub(super) const HOST: &str = "/.host";

/// What every mount of the command has.
pub(super) const ALWAYS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

/// Shows a path of the host at the same path.
pub(super) fn bind(path: &Path) -> Result<(), NotStarted> {
    bind_to(path, path)
}

/// Shows a path of the host at another path.
pub(super) fn bind_to(from: &Path, path: &Path) -> Result<(), NotStarted> {
    let source = host(from);
    let Ok(found) = fs::metadata(&source) else {
        // What is not there on the host is not there for the command.
        return Ok(());
    };
    if found.is_dir() {
        make_folder(path)?;
    } else {
        make_file(path)?;
    }
    let none: Option<&str> = None;
    mount(Some(&source), path, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
        .map_err(|error| at("bind", path, error))
}

pub(super) fn remount(path: &Path, flags: MsFlags) -> Result<(), NotStarted> {
    let none: Option<&str> = None;
    mount(none, path, none, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags, none)
        .map_err(|error| at("remount", path, error))
}

pub(super) fn tmpfs(path: &Path, options: &str) -> Result<(), NotStarted> {
    mount(Some("tmpfs"), path, Some("tmpfs"), ALWAYS, Some(options))
        .map_err(|error| at("tmpfs", path, error))
}

/// Where a path of the host is while the tree is made.
pub(super) fn host(path: &Path) -> PathBuf {
    Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path))
}

pub(super) fn make_folder(path: &Path) -> Result<(), NotStarted> {
    fs::create_dir_all(path).map_err(|error| setup("make", path, &error))
}

pub(super) fn make_file(path: &Path) -> Result<(), NotStarted> {
    if path.exists() {
        return Ok(());
    }
    parents(path)?;
    fs::write(path, "").map_err(|error| setup("make", path, &error))
}

pub(super) fn parents(path: &Path) -> Result<(), NotStarted> {
    path.parent().map_or(Ok(()), make_folder)
}

pub(super) fn at(what: &str, path: impl AsRef<Path>, error: Errno) -> NotStarted {
    setup(what, path.as_ref(), &error.into())
}

pub(super) fn setup(what: &str, path: &Path, error: &io::Error) -> NotStarted {
    NotStarted::setup(format!("{what} {}", path.display()), error)
}
