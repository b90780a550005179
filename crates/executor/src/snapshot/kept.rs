//! A copy of a workspace, or of some of its paths: what a start was, where no repository keeps it.

use super::git::WorkTree;
use super::reach::{Check, Reach};
use super::rules::without_exclude;
use super::{Manifest, Snapshots};
use crate::tool::{ErrorCode, RelPath, ToolError, Workspace};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check_inputs::is_unmade_input;
use surety_common::domain::manifest::{Content, Entry, IgnoreRules, Kind, Place};

/// Which paths of a manifest are kept.
pub type Which<'w> = &'w dyn Fn(&Entry) -> bool;

/// Copies paths of a manifest into a folder that has none of them. Files together have at most `most` bytes. It
/// blocks.
///
/// # Errors
/// `too_large`; a file cannot be read, or is no longer what the manifest says; what `check` answers.
pub fn keep(
    workspace: &Workspace,
    start: &Manifest,
    folder: &Path,
    (which, most): (Which<'_>, u64),
    check: Check<'_>,
) -> Result<(), ToolError> {
    let mut left = most;
    for entry in start.entries().iter().filter(|entry| which(entry)) {
        check()?;
        let path = path_of(entry);
        let place = folder.join(&path);
        let failed = |error: io::Error| ToolError::io(place.display(), &error);
        // A folder may be ignored, and one of its files not.
        place.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        match (entry.kind, &entry.content) {
            (Kind::Folder, _) => fs::create_dir_all(&place).map_err(failed)?,
            (Kind::Link, Content::Target(target)) => {
                symlink(OsStr::from_bytes(target), &place).map_err(failed)?;
            }
            (Kind::File, Content::File(_)) => {
                let source = workspace.open_file(&RelPath::real(path.clone()))?;
                let mut target = File::create_new(&place).map_err(failed)?;
                let copied = io::copy(&mut source.take(left.saturating_add(1)), &mut target);
                left = left.checked_sub(copied.map_err(failed)?).ok_or_else(|| {
                    let message = format!("the files that are kept have more than {most} bytes");
                    ToolError::new(ErrorCode::TooLarge, message)
                })?;
                let mode = Permissions::from_mode(entry.mode & 0o777 | 0o600);
                target.set_permissions(mode).map_err(failed)?;
            }
            // Pipes, sockets and devices have no content, and what cannot be read is known by that alone.
            _ => {}
        }
    }
    match altered(folder, start, which, check)? {
        None => Ok(()),
        Some(path) => Err(ToolError::new(
            ErrorCode::IoFailed,
            format!("{} changed while the workspace was read; stop writing to it", path.display()),
        )),
    }
}

/// The first path of the copy that is not what the manifest says; none where all of it is. It blocks.
///
/// # Errors
/// The copy cannot be read; what `check` answers.
pub fn altered(
    folder: &Path,
    start: &Manifest,
    which: Which<'_>,
    check: Check<'_>,
) -> Result<Option<PathBuf>, ToolError> {
    let all = Snapshots::resume(&Arc::new(IgnoreRules::default()))?;
    let copy = all.take(&Workspace::open(folder)?, None, Reach::Everything, check)?;
    let is_same = |entry: &Entry| match (entry.kind, &entry.content) {
        (Kind::File, Content::File(_)) | (Kind::Link, Content::Target(_)) => copy
            .get(&entry.path)
            .is_some_and(|found| found.kind == entry.kind && found.content == entry.content),
        _ => true,
    };
    let mut kept = start.entries().iter().filter(|entry| which(entry));
    Ok(kept.find(|entry| !is_same(entry)).map(path_of))
}

/// The manifest of an earlier start, as a start of now: ignored paths whose times say nothing any more are those of
/// now. `globs` are those of ignored paths whose content counts. It blocks.
///
/// # Errors
/// The workspace cannot be read; what `check` answers.
pub fn resumed(
    workspace: &Workspace,
    start: &Manifest,
    globs: &[String],
    check: Check<'_>,
) -> Result<(Snapshots, Manifest), ToolError> {
    let rules = IgnoreRules { counted: globs.to_vec(), ..IgnoreRules::clone(&start.rules) };
    let rules = Arc::new(rules);
    let snapshots = Snapshots::resume(&rules)?;
    let now = snapshots.take(workspace, None, Reach::Everything, check)?;
    let place = Place::clone(&now.place);
    let mut entries: Vec<_> = counted(start).cloned().collect();
    entries.extend(ignored_at_start(start, &now));
    Ok((snapshots, Manifest::new(place, rules, entries)))
}

/// The ignored paths of an earlier start. Times that were read elsewhere, or before the machine started, say nothing about
/// files of now; the digests of those that were read hold everywhere.
pub fn ignored_at_start(start: &Manifest, now: &Manifest) -> Vec<Entry> {
    let is_here = start.place == now.place;
    let was_read = |entry: &Entry| matches!(entry.content, Content::File(_) | Content::Target(_));
    let of_start = start.entries().iter().filter(|entry| is_here || was_read(entry));
    let of_now = now.entries().iter().filter(|entry| {
        !is_here && !was_read(entry) && !start.get(&entry.path).is_some_and(was_read)
    });
    of_start.chain(of_now).filter(|entry| entry.ignored).cloned().collect()
}

/// The ignored paths that nothing but the repository's own list ignores and that are check inputs: a revision does not have
/// that list, and a run can write it.
///
/// # Errors
/// The rules do not read.
pub(crate) fn ignored_by_exclude(
    tree: &WorkTree,
    rules: &IgnoreRules,
    now: &Manifest,
) -> Result<Vec<Vec<u8>>, ToolError> {
    let Some(exclude) = tree.exclude() else { return Ok(Vec::new()) };
    let others = Snapshots::resume(&Arc::new(without_exclude(rules, &exclude)))?;
    let is_one = |entry: &&Entry| {
        entry.ignored
            && entry.kind != Kind::Folder
            && is_unmade_input(&String::from_utf8_lossy(&entry.path))
            && !others.is_ignored(&entry.path, false)
    };
    Ok(now.entries().iter().filter(is_one).map(|entry| entry.path.to_vec()).collect())
}

fn counted(manifest: &Manifest) -> impl Iterator<Item = &Entry> {
    manifest.entries().iter().filter(|entry| !entry.ignored)
}

fn path_of(entry: &Entry) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&entry.path))
}
