//! The view of one command: the workspace with the original check inputs, whose writes never reach the
//! workspace.
//!
//! ```text
//!   FOLDER/CLASS/upper   what commands of this owner class wrote, below the overlay; between two
//!                        commands only ignored paths and what the view itself changed stay in it
//!   FOLDER/CLASS/made    the other writes: files that checks look for afterwards
//!   FOLDER/originals     the check inputs of the start
//!   FOLDER/single        what a command wrote whose writes no other one may find
//!   FOLDER/overlay       the files of hidden checks
//!   FOLDER/prepare       what the lines that prepare the views wrote to ignored paths, with the workspace of
//!                        the start in prepare_at_start
//! ```

use super::additions::{ViewOrder, mode_of};
use super::copy;
use super::opening::Opening;
use super::originals::Originals;
use super::view_changes::{Changes, same_content, write_reference};
use super::view_folder::ViewFolder;
use super::{Round, owner_rank};
use crate::scratch::{make, remove};
use crate::snapshot::Snapshots;
use crate::tool::{ErrorCode, Folder, ToolContext, ToolError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check::Owner;
use surety_common::domain::check_inputs::{Exam, language_of};
use surety_common::domain::manifest::{Kind, changes};
use surety_common::domain::receipt::Inputs;
use surety_sandbox::View;

/// The file with the paths that a view changed itself.
const PLACED: &str = "placed";
/// The folder of a command whose writes no other one may find.
const SINGLE: &str = "single";
/// The folder with the files of hidden checks.
const OVERLAY: &str = "overlay";
/// The folder with test files that have failing tests.
const CANARY: &str = "canary";

/// What commands of one owner class wrote.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) folder: PathBuf,
    placed: BTreeSet<PathBuf>,
}

impl Made {
    /// Whether a path there comes from the view, and from no command.
    pub(super) fn is_placed(&self, path: &str) -> bool {
        self.placed.contains(Path::new(path))
    }
}

/// The view of one command that runs.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) context: ToolContext,
    changes: Changes,
    class: PathBuf,
    keeps_ignored: bool,
    /// Whether all that the command wrote goes away with it.
    dropped: bool,
    /// The copy that the command runs in, where the sandbox makes no views.
    copied: Option<PathBuf>,
}

impl Round {
    /// The folder of this round's views.
    pub(super) fn views(&self) -> Result<&ViewFolder, ToolError> {
        if let Some(folder) = self.views.get() {
            return Ok(folder);
        }
        let made = ViewFolder::make(self.setup.sandbox.scratch())?;
        Ok(self.views.get_or_init(|| made))
    }

    /// Prepares the view of one command. It blocks.
    pub(super) fn prepare(
        &self,
        mut context: ToolContext,
        order: &ViewOrder,
    ) -> Result<Prepared, ToolError> {
        let workspace = context.workspace()?;
        let views = self.views()?;
        let own = match order.prepares {
            true => views.prepared(order.inputs),
            false => views.class(order.owner),
        };
        let mut changes = self.changes(&order.line, order.inputs, workspace.root())?;
        self.let_second_pass(&changes);
        let mut below = Vec::new();
        if !order.is_kept() && order.sees_earlier() && own.join("upper").is_dir() {
            undo_placed(&own, workspace.root(), &mut changes);
            below.push(own.join("upper"));
        }
        let prepared = views.prepared(order.inputs).join("upper");
        if !order.prepares && order.owner != Owner::Plan && prepared.is_dir() {
            below.push(prepared);
        }
        self.cover(&order.overlay, &mut changes)?;
        self.plant(order, workspace.root(), &mut changes)?;
        // A second run of a check, and a hidden one, leave nothing to later ones.
        let class = if order.is_kept() { own } else { views.join(SINGLE) };
        let failed = |error: io::Error| ToolError::io(class.display(), &error);
        if !order.is_kept() {
            remove(&class).map_err(failed)?;
        }
        let upper = class.join("upper");
        if !upper.is_dir() {
            make(&upper).map_err(failed)?;
            // The overlay's root looks like the folder below which it lies.
            copy::like(&upper, workspace.root()).map_err(failed)?;
            copy::own_as(&class, workspace.root()).map_err(failed)?;
        }
        let mut copied = None;
        if self.setup.sandbox.keeps_views() && !self.setup.copies {
            let view = settle(&class, &changes, below).map_err(failed)?;
            context.view = Some(Arc::new(view));
        } else {
            let to = class.join("copy");
            // The first is on top, and the copy has the last one on top.
            below.reverse();
            below.push(class.join("upper"));
            let made = copy::workspace(workspace.root(), &to, &changes, &below);
            made.map_err(failed)?;
            context.folder = Arc::new(Folder::given(to.clone()));
            copied = Some(to);
        }
        let keeps_ignored = order.prepares || matches!(order.inputs, Inputs::Original);
        let dropped = !order.is_kept() && order.sees_earlier();
        Ok(Prepared { context, changes, class, keeps_ignored, dropped, copied })
    }

    /// Sorts what a command wrote into its view. It blocks.
    pub(super) fn collect(&self, prepared: &Prepared) -> Result<(), ToolError> {
        let Prepared { changes, class, keeps_ignored, copied, .. } = prepared;
        let snapshots = self.start().ok().flatten().map(|start| Arc::clone(&start.snapshots));
        let sorting = Sorting {
            upper: &class.join("upper"),
            made: &class.join("made"),
            changes,
            snapshots: snapshots.as_deref(),
            keeps_ignored: *keeps_ignored,
        };
        let failed = |error: io::Error| ToolError::io(class.display(), &error);
        if prepared.dropped {
            return remove(class).map_err(failed);
        }
        if let Some(copied) = copied {
            let workspace = self.setup.folder.workspace()?;
            copy::written(copied, workspace.root(), changes, sorting.upper).map_err(failed)?;
            remove(copied).map_err(failed)?;
        }
        sorting.folder(Path::new("")).map(drop).map_err(failed)
    }

    /// Takes out of a layer what its own view changed, so that only what the lines wrote to ignored paths stays.
    /// It blocks.
    pub(super) fn keep_prepared(&self, inputs: Inputs) -> Result<(), ToolError> {
        let class = self.views()?.prepared(inputs);
        let upper = class.join("upper");
        let snapshots = self.start()?.map(|start| Arc::clone(&start.snapshots));
        let failed = |error: io::Error| ToolError::io(upper.display(), &error);
        let mut kept = Vec::new();
        for path in read_placed(&class.join(PLACED)) {
            let at = upper.join(&path);
            let Ok(found) = fs::symlink_metadata(&at) else { continue };
            let is_removal = found.file_type().is_char_device() && found.rdev() == 0;
            let is_ignored = snapshots.as_ref().is_some_and(|snapshots| {
                snapshots.is_ignored(path.as_os_str().as_bytes(), found.is_dir())
            });
            // What a line made in the place of an ignored path is its own.
            if is_ignored && !is_removal {
                kept.push(path);
                continue;
            }
            remove_at(&at).map_err(failed)?;
            let above = path.ancestors().skip(1).filter(|above| *above != Path::new(""));
            // One that still holds something stays.
            above.take_while(|above| fs::remove_dir(upper.join(above)).is_ok()).for_each(drop);
        }
        write_placed(&class.join(PLACED), kept.iter()).map_err(failed)
    }

    /// The folders with what the commands of this owner class, and of those with more trust, wrote.
    pub(super) fn made_for(&self, owner: Owner) -> Vec<Made> {
        let Some(views) = self.views.get() else { return Vec::new() };
        let classes = [Owner::Plan, Owner::Operator, Owner::User];
        let counts = classes.into_iter().filter(|class| owner_rank(*class) >= owner_rank(owner));
        counts
            .map(|class| views.class(class))
            .flat_map(|class| {
                ["made", "upper"].map(|kind| Made {
                    folder: class.join(kind),
                    placed: read_placed(&class.join(PLACED)),
                })
            })
            .filter(|made| made.folder.is_dir())
            .collect()
    }

    /// Adds the files of a hidden check, over whatever stands there.
    fn cover(&self, overlay: &str, changes: &mut Changes) -> Result<(), ToolError> {
        if overlay.is_empty() {
            return Ok(());
        }
        let Some(files) = self.setup.additions.overlays.get(overlay) else {
            let message = "the files of the hidden check are not kept; create the run again";
            return Err(ToolError::new(ErrorCode::InternalError, message));
        };
        let folder = self.views()?.join(OVERLAY).join(overlay);
        for (path, content) in files.iter() {
            let (path, from) = (Path::new(path), folder.join(path));
            write_file(&from, content, mode_of(content))
                .map_err(|error| ToolError::io(from.display(), &error))?;
            clear_way(self.opening()?, path, changes);
            changes.remove.remove(path);
            changes.replace.insert(path.to_owned(), from);
        }
        Ok(())
    }

    /// Adds failing tests to the test files of the view.
    fn plant(
        &self,
        order: &ViewOrder,
        root: &Path,
        changes: &mut Changes,
    ) -> Result<(), ToolError> {
        let Some(canary) = &order.canary else { return Ok(()) };
        let folder = self.views()?.join(CANARY).join(order.inputs.as_str());
        for (path, added) in &canary.hosts {
            let from = changes.replace.get(path).cloned().unwrap_or_else(|| root.join(path));
            if changes.remove.contains(path) || !from.is_file() {
                continue;
            }
            let to = folder.join(path);
            let written = fs::read(&from).and_then(|mut text| {
                text.extend(added.as_bytes());
                let mode = fs::metadata(&from)?.permissions().mode();
                drop(remove_at(&to));
                write_file(&to, &text, mode & 0o777)
            });
            written.map_err(|error| ToolError::io(to.display(), &error))?;
            changes.replace.insert(path.clone(), to);
        }
        Ok(())
    }

    /// What a view of the workspace at the start changes: everything that is not ignored. A file that is no
    /// code and whose content was not kept stays.
    fn at_start(&self) -> Result<Changes, ToolError> {
        let opening = self.opening()?;
        let mut view = Changes::default();
        let (Some(start), Some(now)) = (self.start()?, &opening.now) else { return Ok(view) };
        let folder = self.views()?.join("start");
        for change in changes(&start.manifest, now) {
            if change.is_ignored() || !change.is_of_content() {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(change.path()));
            if change.before.is_none_or(|before| before.kind == Kind::Folder) {
                if change.before.is_none()
                    && change.after.is_some_and(|now| now.kind != Kind::Folder)
                {
                    view.remove.insert(path.to_owned());
                }
                continue;
            }
            let given = self.originals.get().map(|given| &given.originals);
            let written = given.map_or(Ok(None), |given| given.write_any(change.path(), &folder));
            let written = written.map_err(|error| ToolError::io(folder.display(), &error))?;
            match written.map_or_else(|| self.start_file(change.path()), |from| Ok(Some(from)))? {
                Some(from) => {
                    clear_way(opening, path, &mut view);
                    view.replace.insert(path.to_owned(), from);
                }
                None if language_of(&path.to_string_lossy()).is_none() => {}
                None => {
                    let message =
                        format!("the content of {} at the start was not kept", path.display());
                    return Err(ToolError::new(ErrorCode::OutputNotKept, message));
                }
            }
        }
        view.remove.extend(opening.ignored.iter().cloned());
        Ok(view)
    }

    fn changes(&self, line: &str, inputs: Inputs, root: &Path) -> Result<Changes, ToolError> {
        if inputs.is_at_start() {
            return self.at_start();
        }
        let opening = self.opening()?;
        let mut changes = Changes::default();
        let Some(exam) = opening.exams.get(line).filter(|_| inputs != Inputs::AsLeft) else {
            return Ok(changes);
        };
        for path in &opening.changed {
            let path = Path::new(OsStr::from_bytes(path));
            changes.replace.insert(path.to_owned(), root.join(path));
        }
        // With the packages of a changed manifest a check gets nothing else that steps left.
        let kept: &[PathBuf] = match inputs {
            Inputs::OriginalWithIgnored if opening.installed.is_empty() => &opening.ignored,
            Inputs::OriginalWithIgnored => &opening.installed,
            Inputs::Original
            | Inputs::AsLeft
            | Inputs::Unstated
            | Inputs::Canary
            | Inputs::CanaryAtStart
            | Inputs::TestsAtStart
            | Inputs::AtStart => &[],
        };
        let removed = opening.ignored.iter().filter(|path| !kept.contains(path));
        changes.remove.extend(removed.cloned());
        if let Some(given) = self.originals.get() {
            let folder = self.views()?.join("originals");
            restore(exam, opening, &given.originals, &folder, &mut changes)?;
        }
        let folder = self.views()?.join("merged");
        for (path, merged) in self.merged() {
            let Some(text) = &merged.text else { continue };
            let to = folder.join(path);
            let written = write_merged(&root.join(path), &to, text);
            written.map_err(|error| ToolError::io(to.display(), &error))?;
            changes.replace.insert(path.to_owned(), to);
        }
        for difference in &exam.take_out {
            let path = Path::new(OsStr::from_bytes(&difference.path));
            changes.replace.remove(path);
            changes.remove.insert(path.to_owned());
        }
        Ok(changes)
    }
}

/// Writes a merged manifest, with the permissions of the workspace's own.
fn write_merged(own: &Path, to: &Path, text: &str) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    if let Some(above) = to.parent() {
        make(above)?;
    }
    fs::write(to, text)?;
    fs::set_permissions(to, fs::metadata(own)?.permissions())
}

/// Adds the originals of an exam. One that was not kept stays as it is.
fn restore(
    exam: &Exam,
    opening: &Opening,
    originals: &Originals,
    folder: &Path,
    changes: &mut Changes,
) -> Result<(), ToolError> {
    for difference in &exam.put_back {
        let path = Path::new(OsStr::from_bytes(&difference.path));
        let from = folder.join(path);
        let from = if from.symlink_metadata().is_ok() {
            Some(from)
        } else {
            let of_git = opening.git.iter().find(|it| it.path == difference.path);
            let written = match of_git.and_then(|it| it.content.as_deref()) {
                Some(content) => write_reference(&from, content).map(|()| Some(from)),
                None => originals.write(&difference.path, folder),
            };
            written.map_err(|error| ToolError::io(folder.display(), &error))?
        };
        let Some(from) = from else { continue };
        clear_way(opening, path, changes);
        changes.replace.insert(path.to_owned(), from);
    }
    Ok(())
}

/// Makes room for a file: neither through a link that steps made of a folder, nor below a file.
fn clear_way(opening: &Opening, path: &Path, changes: &mut Changes) {
    let stands = |path: &Path| {
        let entry = opening.now.as_ref()?.get(path.as_os_str().as_bytes())?;
        Some(entry.kind)
    };
    let above = path
        .ancestors()
        .skip(1)
        .find(|above| stands(above).is_some_and(|kind| kind != Kind::Folder));
    changes.remove.extend(above.map(Path::to_owned));
    if stands(path).is_some_and(|kind| kind == Kind::Folder) {
        changes.remove.insert(path.to_owned());
    }
}

/// Undoes what the kept view of an owner changed and this one does not: that view lies below this one.
fn undo_placed(class: &Path, root: &Path, changes: &mut Changes) {
    for path in read_placed(&class.join(PLACED)) {
        let from = root.join(&path);
        if changes.has(&path) {
            continue;
        }
        match fs::symlink_metadata(&from) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => drop(changes.replace.insert(path, from)),
            Err(_) => drop(changes.remove.insert(path)),
        }
    }
}

fn write_file(to: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    if let Some(above) = to.parent() {
        make(above)?;
    }
    fs::write(to, content)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
}

/// Brings what is below an overlay to these changes; answers what is left for the sandbox to do.
fn settle(class: &Path, changes: &Changes, below: Vec<PathBuf>) -> io::Result<View> {
    let upper = class.join("upper");
    let placed = class.join(PLACED);
    let before = read_placed(&placed);
    for path in before.iter().filter(|path| !changes.has(path)) {
        remove_at(&upper.join(path))?;
    }
    let mut view = View { upper: Some(class.to_owned()), below, ..View::default() };
    let is_in = |layer: &Path, path: &Path| layer.join(path).symlink_metadata().is_ok();
    for (path, from) in &changes.replace {
        let layers = [&upper].into_iter().chain(&view.below);
        let on_top = layers.into_iter().find(|layer| is_in(layer, path));
        // What stands there already keeps its time, so that what was built from it stays valid.
        if !on_top.is_some_and(|layer| same_content(&layer.join(path), from)) {
            view.replace.push((path.clone(), from.clone()));
        }
    }
    // What a command made in the place of an ignored path stays there.
    let is_out = |path: &&PathBuf| {
        before.contains(path.as_path()) && is_in(&upper, path)
            || view.below.iter().any(|layer| is_in(layer, path))
    };
    let removed = changes.remove.iter().filter(|path| !is_out(path)).cloned().collect();
    view.remove = removed;
    write_placed(&placed, changes.replace.keys().chain(&changes.remove))?;
    Ok(view)
}

fn write_placed<'p>(file: &Path, paths: impl Iterator<Item = &'p PathBuf>) -> io::Result<()> {
    let lines = paths.flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat());
    fs::write(file, lines.collect::<Vec<u8>>())
}

/// The paths that the view changed at an earlier command.
fn read_placed(file: &Path) -> BTreeSet<PathBuf> {
    let bytes = fs::read(file).unwrap_or_default();
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

fn remove_at(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sorts what lies below an overlay after a command.
struct Sorting<'s> {
    upper: &'s Path,
    made: &'s Path,
    changes: &'s Changes,
    snapshots: Option<&'s Snapshots>,
    keeps_ignored: bool,
}

impl Sorting<'_> {
    /// Answers whether the folder is empty now.
    fn folder(&self, folder: &Path) -> io::Result<bool> {
        let mut empty = true;
        for entry in fs::read_dir(self.upper.join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            let stays = if kind.is_dir() {
                if self.is_ignored(&path, true) && self.keeps_ignored {
                    true
                } else if self.folder(&path)? {
                    fs::remove_dir(entry.path())?;
                    false
                } else {
                    true
                }
            } else {
                self.file(&path, &entry.path(), kind)?
            };
            empty &= !stays;
        }
        Ok(empty)
    }

    /// Answers whether the file stays.
    fn file(&self, path: &Path, at: &Path, kind: fs::FileType) -> io::Result<bool> {
        // What the overlay marks as removed has this kind.
        let is_removal = kind.is_char_device() && fs::symlink_metadata(at)?.rdev() == 0;
        if is_removal && self.changes.remove.iter().any(|removed| path.starts_with(removed)) {
            return Ok(true);
        }
        let is_placed = self.changes.replace.get(path).is_some_and(|from| same_content(at, from));
        if is_placed || self.keeps_ignored && self.is_ignored(path, false) {
            return Ok(true);
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

    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let path = path.as_os_str().as_bytes();
        self.snapshots.is_some_and(|snapshots| snapshots.is_ignored(path, is_folder))
    }
}
