//! The view of one command: the workspace with the original check inputs, whose writes never reach the
//! workspace.
//!
//! ```text
//!   FOLDER/CLASS/upper   what commands of this owner class wrote, below the overlay; between two
//!                        commands only ignored paths and what the view itself changed stay in it
//!   FOLDER/CLASS/made    the other writes: files that checks look for afterwards
//!   FOLDER/originals     the check inputs of the start
//! ```

use super::copy;
use super::opening::Opening;
use super::originals::Originals;
use super::view_changes::{Changes, same_content};
use super::view_folder::{ViewFolder, make, remove};
use super::{Round, owner_rank};
use crate::snapshot::Snapshots;
use crate::tool::{Folder, ToolContext, ToolError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check::Owner;
use surety_common::domain::check_inputs::Exam;
use surety_common::domain::manifest::Kind;
use surety_common::domain::receipt::Inputs;
use surety_sandbox::View;

/// The file with the paths that a view changed itself.
const PLACED: &str = "placed";

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
    /// The copy that the command runs in, where the sandbox makes no views.
    copied: Option<PathBuf>,
}

impl Round {
    /// The folder of this round's views.
    fn views(&self) -> Result<&ViewFolder, ToolError> {
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
        owner: Owner,
        line: &str,
        inputs: Inputs,
    ) -> Result<Prepared, ToolError> {
        let workspace = context.workspace()?;
        let views = self.views()?;
        let changes = self.changes(line, inputs, workspace.root())?;
        let is_own = matches!(inputs, Inputs::Original) || owner == Owner::Plan;
        // A second run of a check leaves nothing to later ones.
        let class = if is_own { views.class(owner) } else { views.0.join(inputs.as_str()) };
        let failed = |error: io::Error| ToolError::io(class.display(), &error);
        if !is_own {
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
        if self.setup.sandbox.keeps_views() {
            let view = settle(&class, &changes).map_err(failed)?;
            context.view = Some(Arc::new(view));
        } else {
            let to = class.join("copy");
            let made = copy::workspace(workspace.root(), &to, &changes, &class.join("upper"));
            made.map_err(failed)?;
            context.folder = Arc::new(Folder::given(to.clone()));
            copied = Some(to);
        }
        let keeps_ignored = matches!(inputs, Inputs::Original);
        Ok(Prepared { context, changes, class, keeps_ignored, copied })
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
        if let Some(copied) = copied {
            let workspace = self.setup.folder.workspace()?;
            copy::written(copied, workspace.root(), changes, sorting.upper).map_err(failed)?;
            remove(copied).map_err(failed)?;
        }
        sorting.folder(Path::new("")).map(drop).map_err(failed)
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

    fn changes(&self, line: &str, inputs: Inputs, root: &Path) -> Result<Changes, ToolError> {
        let opening = self.opening()?;
        let mut changes = Changes::default();
        let Some(exam) = opening.exams.get(line).filter(|_| inputs != Inputs::AsLeft) else {
            return Ok(changes);
        };
        for path in &opening.changed {
            let path = Path::new(OsStr::from_bytes(path));
            changes.replace.insert(path.to_owned(), root.join(path));
        }
        if inputs == Inputs::Original {
            changes.remove.extend(opening.ignored.iter().cloned());
        }
        if let Some(given) = self.originals.get() {
            let folder = self.views()?.0.join("originals");
            restore(exam, opening, &given.originals, &folder, &mut changes)?;
        }
        let folder = self.views()?.0.join("merged");
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
    let stands = |path: &Path| {
        let entry = opening.now.as_ref()?.get(path.as_os_str().as_bytes())?;
        Some(entry.kind)
    };
    for difference in &exam.put_back {
        let path = Path::new(OsStr::from_bytes(&difference.path));
        let from = folder.join(path);
        let from = if from.symlink_metadata().is_ok() {
            Some(from)
        } else {
            let written = originals.write(&difference.path, folder);
            written.map_err(|error| ToolError::io(folder.display(), &error))?
        };
        let Some(from) = from else { continue };
        // Neither through a link that steps made of a folder, nor below a file.
        let above = path
            .ancestors()
            .skip(1)
            .find(|above| stands(above).is_some_and(|kind| kind != Kind::Folder));
        changes.remove.extend(above.map(Path::to_owned));
        if stands(path).is_some_and(|kind| kind == Kind::Folder) {
            changes.remove.insert(path.to_owned());
        }
        changes.replace.insert(path.to_owned(), from);
    }
    Ok(())
}

/// Brings what is below an overlay to these changes; answers what is left for the sandbox to do.
fn settle(class: &Path, changes: &Changes) -> io::Result<View> {
    let upper = class.join("upper");
    let placed = class.join(PLACED);
    let before = read_placed(&placed);
    for path in before.iter().filter(|path| !changes.has(path)) {
        remove_at(&upper.join(path))?;
    }
    let mut view = View { upper: Some(class.to_owned()), ..View::default() };
    for (path, from) in &changes.replace {
        if !same_content(&upper.join(path), from) {
            view.replace.push((path.clone(), from.clone()));
        }
    }
    // What a command made in the place of an ignored path stays there.
    let is_out = |path: &&PathBuf| {
        before.contains(path.as_path()) && upper.join(path).symlink_metadata().is_ok()
    };
    view.remove = changes.remove.iter().filter(|path| !is_out(path)).cloned().collect();
    let all = changes.replace.keys().chain(&changes.remove);
    let lines: Vec<u8> =
        all.flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    fs::write(placed, lines)?;
    Ok(view)
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
