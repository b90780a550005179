//! The view of one command: the workspace with the original check inputs, whose writes never reach the
//! workspace.
//!
//! ```text
//!   FOLDER/CLASS/upper   what commands of this owner class wrote, below the overlay; between two
//!                        commands only ignored paths and what the view itself changed stay in it
//!   FOLDER/CLASS/layers  the same of the checks before
//!   FOLDER/CLASS/made    the other writes: files that checks look for afterwards
//!   FOLDER/originals     the check inputs of the start
//!   FOLDER/single        what a command wrote whose writes no other one may find
//!   FOLDER/overlay       the files of hidden checks
//!   FOLDER/prepare       what the lines that prepare the views wrote to ignored paths, with the workspace of
//!                        the start in prepare_at_start
//! ```

use super::Round;
use super::additions::ViewOrder;
use super::copy;
use super::view_changes::Changes;
use super::view_folder::ViewFolder;
use super::view_kept;
use super::view_layers::{
    PLACED, Sorting, read_placed, remove_at, settle, undo_placed, write_placed,
};
use crate::scratch::{entries, make};
use crate::tool::{Folder, ToolContext, ToolError};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check::Owner;
use surety_common::domain::receipt::Inputs;
use surety_sandbox::{View, remove_tree};

/// The folder of a command whose writes no other one may find.
const SINGLE: &str = "single";

/// The layers of earlier checks that lie below this command, without what only their views changed: those of its own owner,
/// and below them those of operators for a user, whose checks follow.
fn layers(
    (own, of_operators): (&Path, &Path),
    order: &ViewOrder,
    (root, changes): (&Path, &mut Changes),
) -> io::Result<Vec<PathBuf>> {
    if order.is_kept() {
        view_kept::begin(own, &order.check)?;
    }
    let mut layers = view_kept::below(own, &order.check, order.is_kept())?;
    if order.owner == Owner::User {
        layers.extend(view_kept::below(of_operators, "", false)?);
        layers.truncate(view_kept::MAX_LAYERS);
    }
    undo_placed(&layers, root, changes)?;
    Ok(layers.into_iter().map(|layer| layer.join("upper")).collect())
}

/// What commands of one owner class wrote.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) folder: PathBuf,
    placed: BTreeSet<PathBuf>,
    /// The layers above it, which may have removed what is in this one.
    above: Vec<PathBuf>,
}

impl Made {
    /// Whether a command wrote a path there: a file that the view did not put there itself, or a folder that holds
    /// more than such files. It blocks.
    pub(super) fn is_written(&self, path: &Path) -> Result<bool, ToolError> {
        let at = self.folder.join(path);
        if view_kept::is_removed(path, &self.above) {
            return Ok(false);
        }
        self.writes(path, &at).map_err(|error| ToolError::io(at.display(), &error))
    }

    fn writes(&self, path: &Path, at: &Path) -> io::Result<bool> {
        let found = fs::symlink_metadata(at)?;
        if found.is_dir() {
            let mut is_empty = true;
            for entry in entries(at)? {
                is_empty = false;
                let name = entry.file_name();
                if self.writes(&path.join(&name), &at.join(&name))? {
                    return Ok(true);
                }
            }
            return Ok(is_empty && !self.placed.contains(path));
        }
        // What the overlay marks as removed has this kind.
        let is_removal = found.file_type().is_char_device() && found.rdev() == 0;
        // A link of the view may lead to another file that it put there.
        let real = fs::canonicalize(at).ok();
        let folder = fs::canonicalize(&self.folder)?;
        let real = real.as_deref().and_then(|real| real.strip_prefix(&folder).ok());
        let is_placed = |path: &Path| self.placed.contains(path);
        Ok(!is_removal && !is_placed(path) && !real.is_some_and(is_placed))
    }
}

/// The view of one command that runs.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) context: ToolContext,
    changes: Changes,
    /// The files of a hidden check.
    pub(super) covered: BTreeSet<PathBuf>,
    class: PathBuf,
    keeps_ignored: bool,
    prepares: bool,
    /// Whether all that the command wrote goes away with it.
    dropped: bool,
    /// The copy that the command runs in, where the sandbox keeps no views. It stands at the workspace's own path where
    /// mounts are the command's own.
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
        let mut changes = self.changes(order, workspace.root())?;
        self.let_second_pass(&changes);
        let mut below = Vec::new();
        if order.sees_earlier() && !order.prepares {
            let of_operators = views.class(Owner::Operator);
            below = layers((&own, &of_operators), order, (workspace.root(), &mut changes))
                .map_err(|error| ToolError::io(own.display(), &error))?;
        }
        let prepared = views.prepared(order.inputs).join("upper");
        if !order.prepares && order.owner != Owner::Plan && prepared.is_dir() {
            below.push(prepared);
        }
        self.cover(&order.overlay, workspace.root(), &mut changes)?;
        self.plant(order, workspace.root(), &mut changes)?;
        // A second run of a check, and a hidden one, leave nothing to later ones.
        let class = if order.is_kept() { own } else { views.join(SINGLE) };
        let failed = |error: io::Error| ToolError::io(class.display(), &error);
        if !order.is_kept() {
            remove_tree(&class).map_err(failed)?;
        }
        let upper = class.join("upper");
        if !upper.is_dir() {
            make(&upper).map_err(failed)?;
            // The overlay's root looks like the folder below which it lies.
            copy::like(&upper, workspace.root()).map_err(failed)?;
            copy::own_as(&class, workspace.root()).map_err(failed)?;
        }
        let mut copied = None;
        let is_copied = !context.sandbox.keeps_views()
            || self.setup.copies
            || self.has_foreign_folders(workspace.root());
        if !is_copied {
            let view = settle(&class, &changes, below).map_err(failed)?;
            context.view = Some(Arc::new(view));
        } else {
            let to = class.join("copy");
            // The first is on top, and the copy has the last one on top.
            below.reverse();
            below.push(class.join("upper"));
            let made = copy::workspace(workspace.root(), &to, &changes, &below);
            made.map_err(failed)?;
            if context.sandbox.mounts_copies() {
                context.view = Some(Arc::new(View { copy: Some(to.clone()), ..View::default() }));
            } else {
                let git = context.folder.git()?.to_vec();
                context.folder = Arc::new(Folder::given(to.clone()).with_git(git));
            }
            copied = Some(to);
        }
        let keeps_ignored = order.prepares || matches!(order.inputs, Inputs::Original);
        let dropped = !order.is_kept() && order.sees_earlier();
        let files = self.setup.additions.overlays.get(&order.overlay);
        let covered = files.into_iter().flat_map(|files| files.iter()).map(|(path, _)| path.into());
        let covered = covered.collect();
        let prepares = order.prepares;
        Ok(Prepared { context, changes, covered, class, keeps_ignored, prepares, dropped, copied })
    }

    /// Sorts what a command wrote into its view; answers the files of the view that have another text now. It blocks.
    pub(super) fn collect(&self, prepared: &Prepared) -> Result<Vec<PathBuf>, ToolError> {
        let Prepared { changes, class, keeps_ignored, prepares, copied, .. } = prepared;
        let snapshots = self.start().ok().flatten().map(|start| Arc::clone(&start.snapshots));
        let workspace = self.setup.folder.workspace()?;
        let sorting = Sorting {
            upper: &class.join("upper"),
            root: workspace.root(),
            made: &class.join("made"),
            changes,
            snapshots: snapshots.as_deref(),
            keeps_ignored: *keeps_ignored,
            prepares: *prepares,
        };
        let failed = |error: io::Error| ToolError::io(class.display(), &error);
        if let Some(copied) = copied {
            copy::written(copied, workspace.root(), changes, sorting.upper).map_err(failed)?;
            remove_tree(copied).map_err(failed)?;
        }
        let mut written = Vec::new();
        sorting.whole(&mut written).map_err(failed)?;
        if prepared.dropped {
            remove_tree(class).map_err(failed)?;
        }
        Ok(written)
    }

    /// Takes out of a layer what its own view changed, so that only what the lines wrote to ignored paths stays.
    /// It blocks.
    pub(super) fn keep_prepared(&self, inputs: Inputs) -> Result<(), ToolError> {
        let class = self.views()?.prepared(inputs);
        let upper = class.join("upper");
        let snapshots = self.start()?.map(|start| Arc::clone(&start.snapshots));
        let failed = |error: io::Error| ToolError::io(upper.display(), &error);
        let mut kept = Vec::new();
        for path in read_placed(&class.join(PLACED)).map_err(failed)? {
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
    pub(super) fn made_for(&self, owner: Owner) -> Result<Vec<Made>, ToolError> {
        let Some(views) = self.views.get() else { return Ok(Vec::new()) };
        let classes = [Owner::Plan, Owner::Operator, Owner::User];
        let counts = classes.into_iter().filter(|class| *class >= owner);
        let mut found = Vec::new();
        for class in counts.map(|class| views.class(class)) {
            let placed = read_placed(&class.join(PLACED));
            let placed = placed.map_err(|error| ToolError::io(class.display(), &error))?;
            for folder in ["made", "upper"].map(|kind| class.join(kind)) {
                if folder.is_dir() {
                    found.push(Made { folder, placed: placed.clone(), above: Vec::new() });
                }
            }
            let failed = |error: io::Error| ToolError::io(class.display(), &error);
            let mut above = vec![class.join("upper")];
            for layer in view_kept::all(&class).map_err(failed)? {
                let placed = read_placed(&layer.join(PLACED)).map_err(failed)?;
                let folder = layer.join("upper");
                found.push(Made { folder: folder.clone(), placed, above: above.clone() });
                above.push(folder);
            }
        }
        Ok(found)
    }
}
