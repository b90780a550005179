//! The layers below the overlay of a view: what the view placed there itself, and what a command left in them.

use super::copy::{is_out_of_reach, own_as};
use super::view_changes::{Changes, same_content, same_text};
use crate::scratch::{entries, make};
use crate::snapshot::Snapshots;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{is_ignored_input, source_of_byte_code, vendored};
use surety_sandbox::{View, remove_tree};

/// The file with the paths that a view changed itself.
pub(super) const PLACED: &str = "placed";

/// Undoes what the views of these layers changed and this one does not: the layers lie below it.
pub(super) fn undo_placed(
    layers: &[PathBuf],
    root: &Path,
    changes: &mut Changes,
) -> io::Result<()> {
    let uppers: Vec<PathBuf> = layers.iter().map(|layer| layer.join("upper")).collect();
    let is_there = |path: &Path| uppers.iter().any(|upper| is_in(upper, path));
    let mut undone = BTreeSet::new();
    for layer in layers {
        for path in read_placed(&layer.join(PLACED))? {
            let from = root.join(&path);
            if changes.has(&path) {
                continue;
            }
            match fs::symlink_metadata(&from) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => drop(changes.replace.insert(path, from)),
                Err(_) if is_there(&path) => drop(undone.insert(path)),
                Err(_) => {}
            }
        }
    }
    for path in &undone {
        // Folders that only they needed go with them.
        let mut whole = path.as_path();
        for above in path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty()) {
            let is_needed =
                is_in(root, above) || changes.replace.keys().any(|it| it.starts_with(above));
            if is_needed || !holds_only(&uppers, above, &undone)? {
                break;
            }
            whole = above;
        }
        changes.undone.insert(whole.to_owned());
    }
    Ok(())
}

/// Whether a folder has nothing but these files in all layers.
fn holds_only(uppers: &[PathBuf], folder: &Path, files: &BTreeSet<PathBuf>) -> io::Result<bool> {
    for upper in uppers {
        let at = upper.join(folder);
        if !at.is_dir() {
            continue;
        }
        for entry in entries(&at)? {
            let path = folder.join(entry.file_name());
            let is_theirs = match entry.file_type()?.is_dir() {
                true => holds_only(uppers, &path, files)?,
                false => files.contains(&path),
            };
            if !is_theirs {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_in(layer: &Path, path: &Path) -> bool {
    layer.join(path).symlink_metadata().is_ok()
}

/// Brings what is below an overlay to these changes; answers what is left for the sandbox to do.
pub(super) fn settle(class: &Path, changes: &Changes, below: Vec<PathBuf>) -> io::Result<View> {
    let upper = class.join("upper");
    let placed = class.join(PLACED);
    let before = read_placed(&placed)?;
    for path in before.iter().filter(|path| !changes.has(path)) {
        remove_at(&upper.join(path))?;
        remove_empty_above(&upper, path);
    }
    let mut view = View { upper: Some(class.to_owned()), below, ..View::default() };
    for (path, from) in &changes.replace {
        let layers = [&upper].into_iter().chain(&view.below);
        let on_top = layers.into_iter().find(|layer| is_in(layer, path));
        let goes = path.ancestors().any(|above| changes.undone.contains(above));
        // What stands there already keeps its time, so that what was built from it stays valid.
        if goes || !on_top.is_some_and(|layer| same_content(&layer.join(path), from)) {
            view.replace.push((path.clone(), from.clone()));
        }
    }
    // What a command made in the place of an ignored path stays there.
    let is_out = |path: &&PathBuf| {
        before.contains(path.as_path()) && is_in(&upper, path)
            || view.below.iter().any(|layer| is_in(layer, path))
    };
    let removed = changes.remove.iter().filter(|path| !is_out(path));
    view.remove = removed.chain(&changes.undone).cloned().collect();
    view.times = changes.times.iter().map(|(path, at)| (path.clone(), *at)).collect();
    write_placed(&placed, changes.replace.keys().chain(&changes.remove).chain(&changes.undone))?;
    Ok(view)
}

pub(super) fn write_placed<'p>(
    file: &Path,
    paths: impl Iterator<Item = &'p PathBuf>,
) -> io::Result<()> {
    let lines = paths.flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat());
    fs::write(file, lines.collect::<Vec<u8>>())
}

/// The paths that the view changed at an earlier command.
///
/// # Errors
/// The list is there and cannot be read.
pub(super) fn read_placed(file: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let bytes = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => found?,
    };
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    Ok(parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect())
}

pub(super) fn remove_at(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the folders above a removed path that only it needed: the workspace may have them no more.
fn remove_empty_above(upper: &Path, path: &Path) {
    let above = path.ancestors().skip(1).filter(|above| *above != Path::new(""));
    for folder in above {
        match fs::remove_dir(upper.join(folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return,
            Ok(()) | Err(_) => {}
        }
    }
}

/// Sorts what lies below an overlay after a command.
pub(super) struct Sorting<'s> {
    pub(super) upper: &'s Path,
    /// The workspace below the overlay.
    pub(super) root: &'s Path,
    pub(super) made: &'s Path,
    pub(super) changes: &'s Changes,
    pub(super) snapshots: Option<&'s Snapshots>,
    pub(super) keeps_ignored: bool,
    /// Whether the command is there to prepare the views of others, which then find what it wrote to ignored check inputs.
    pub(super) prepares: bool,
}

impl Sorting<'_> {
    /// Answers whether the folder is empty now, and adds the files of the view that have another text, or are gone.
    pub(super) fn whole(&self, written: &mut Vec<PathBuf>) -> io::Result<()> {
        self.folder(Path::new(""), false, written).map(drop)
    }

    /// The same of one folder, which is ignored or not.
    fn folder(&self, folder: &Path, ignored: bool, written: &mut Vec<PathBuf>) -> io::Result<bool> {
        let mut empty = true;
        let listing = match entries(&self.upper.join(folder)) {
            // A command closed its own folder, or made one too deep for a path: it stays as it is.
            Err(error) if ignored && is_out_of_reach(&error) => return Ok(false),
            listing => listing?,
        };
        for entry in listing {
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            let stays = if kind.is_dir() {
                let ignored = ignored || self.is_ignored(&path, true);
                let is_empty = self.folder(&path, ignored, written)?;
                if is_empty && !(ignored && self.keeps_ignored) {
                    fs::remove_dir(entry.path())?;
                    false
                } else {
                    true
                }
            } else {
                self.file(&path, (&entry.path(), kind), ignored, written)?
            };
            empty &= !stays;
        }
        Ok(empty)
    }

    /// Answers whether the file stays.
    fn file(
        &self,
        path: &Path,
        (at, kind): (&Path, fs::FileType),
        ignored: bool,
        written: &mut Vec<PathBuf>,
    ) -> io::Result<bool> {
        // What the overlay marks as removed has this kind.
        let is_removal = kind.is_char_device() && fs::symlink_metadata(at)?.rdev() == 0;
        if is_removal && path.ancestors().any(|above| self.changes.takes_out(above)) {
            return Ok(true);
        }
        let is_placed = self.changes.replace.get(path).is_some_and(|from| same_content(at, from));
        if is_placed {
            return Ok(true);
        }
        let name = path.to_string_lossy();
        if kind.is_file() && source_of_byte_code(&name).is_some() {
            // Python would take it for what the check itself compiled, here or in a later command.
            written.push(path.to_owned());
            if vendored(&name).is_empty() {
                fs::remove_file(at)?;
                return Ok(false);
            }
        }
        let of_view = self.changes.replace.get(path).cloned();
        let of_view = of_view.unwrap_or_else(|| self.root.join(path));
        if self.keeps_ignored && (ignored || self.is_ignored(path, false)) {
            self.ignored_file((path, at), &of_view, written)?;
            return Ok(true);
        }
        // What is neither may not be read: it may never end.
        let is_plain = |kind: fs::FileType| kind.is_file() || kind.is_symlink();
        let is_other = fs::symlink_metadata(&of_view).is_ok_and(|found| {
            !(is_plain(kind) && is_plain(found.file_type()) && same_text(at, &of_view))
        });
        if is_removal || is_other {
            written.push(path.to_owned());
        }
        if is_removal || !(kind.is_file() || kind.is_symlink()) {
            fs::remove_file(at)?;
            return Ok(false);
        }
        let to = self.made.join(path);
        remove_at(&to)?;
        if let Some(above) = to.parent() {
            make(above)?;
        }
        fs::rename(at, to)?;
        Ok(false)
    }

    /// An ignored file that stays: of an installed package it may be a part of the tests, and a check input is what it was
    /// before the command.
    fn ignored_file(
        &self,
        (path, at): (&Path, &Path),
        of_view: &Path,
        written: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let name = path.to_string_lossy();
        let is_installed = !vendored(&name).is_empty();
        if !is_installed && (self.prepares || !is_ignored_input(&name)) {
            return Ok(());
        }
        let is_plain = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
        if !is_plain(at) || !is_plain(of_view) || same_text(at, of_view) {
            return Ok(());
        }
        if is_installed {
            written.push(path.to_owned());
            return Ok(());
        }
        // With its time: what it is made of may be newer, and is then made anew.
        let modified = fs::metadata(of_view)?.modified()?;
        fs::remove_file(at)?;
        fs::copy(of_view, at)?;
        File::open(at)?.set_times(FileTimes::new().set_modified(modified))?;
        own_as(at, of_view)
    }

    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let path = path.as_os_str().as_bytes();
        self.snapshots.is_some_and(|snapshots| snapshots.is_ignored(path, is_folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_view_put_there_goes_with_the_folders_that_only_it_needed() {
        let folder = tempfile::tempdir().unwrap();
        let (layer, root) = (folder.path().join("layer"), folder.path().join("root"));
        let write = |file: PathBuf, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for placed in ["tests/old/deep/a", "tests/built/b", "tests/c"] {
            write(layer.join("upper").join(placed), "start");
        }
        write(layer.join("upper/tests/built/by-a-command"), "");
        write(root.join("tests/c"), "left");
        let placed = ["tests/old/deep/a", "tests/built/b", "tests/c", "gone"].map(PathBuf::from);
        write_placed(&layer.join(PLACED), placed.iter()).unwrap();
        let mut changes = Changes::default();
        undo_placed(std::slice::from_ref(&layer), &root, &mut changes).unwrap();
        assert_eq!(changes.undone, ["tests/built/b", "tests/old"].map(PathBuf::from).into());
        assert_eq!(changes.replace, [("tests/c".into(), root.join("tests/c"))].into());
        // A view that has another file in the folder keeps the folder.
        let mut changes = Changes::default();
        changes.replace.insert("tests/old/d".into(), root.join("tests/c"));
        undo_placed(&[layer], &root, &mut changes).unwrap();
        let expected = ["tests/built/b", "tests/old/deep"].map(PathBuf::from);
        assert_eq!(changes.undone, expected.into());
    }
}
