//! The changes of one view: original check inputs, the files of hidden checks, canaries, the workspace of the start.

use super::Round;
use super::additions::{IgnoredAsLeft, ViewOrder, mode_of};
use super::opening::{Opening, Put};
use super::originals::Originals;
use super::view_changes::{Changes, write_reference};
use super::view_layers::remove_at;
use crate::scratch::make;
use crate::tool::{ErrorCode, ToolError};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{Exam, StartInputs, language_of};
use surety_common::domain::manifest::{Change, Kind, changes};
use surety_common::domain::receipt::Inputs;

/// The folder with the files of hidden checks.
const OVERLAY: &str = "overlay";
/// The folder with one folder for each permissions that folders of the start had.
const FOLDERS: &str = ".folders";
/// The folder with test files that have failing tests.
const CANARY: &str = "canary";

impl Round {
    /// Adds the files of a hidden check, over whatever stands there.
    pub(super) fn cover(
        &self,
        overlay: &str,
        root: &Path,
        changes: &mut Changes,
    ) -> Result<(), ToolError> {
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
            changes.remove.remove(path);
            clear_way((self.opening()?, root), path, changes);
            changes.replace.insert(path.to_owned(), from);
        }
        Ok(())
    }

    /// Adds failing tests to the test files of the view.
    pub(super) fn plant(
        &self,
        order: &ViewOrder,
        root: &Path,
        changes: &mut Changes,
    ) -> Result<(), ToolError> {
        let Some(hosts) = &order.canary else { return Ok(()) };
        let folder = self.views()?.join(CANARY).join(order.inputs.as_str());
        for (path, planted) in hosts.iter() {
            let from = changes.replace.get(path).cloned().unwrap_or_else(|| root.join(path));
            if changes.remove.contains(path) || !from.is_file() {
                continue;
            }
            let to = folder.join(path);
            let written = fs::read(&from).and_then(|text| {
                let text = planted.added_to(text);
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
        let workspace = self.setup.folder.workspace()?;
        let (at, imports) = (workspace.root(), &start.facts.imports);
        let root = at.as_os_str().as_bytes();
        let inputs = StartInputs::new(&self.setup.rules, imports, &start.manifest, root);
        for change in changes(&start.manifest, now) {
            let path = Path::new(OsStr::from_bytes(change.path()));
            if !inputs.counts(&change) {
                continue;
            }
            if change.before.is_none_or(|before| before.kind == Kind::Folder) {
                folder_at_start(&change, &folder, &mut view)
                    .map_err(|error| ToolError::io(folder.display(), &error))?;
                continue;
            }
            if !change.is_of_content() {
                continue;
            }
            let given = self.originals.get().map(|given| &given.originals);
            let written = given.map_or(Ok(None), |given| given.write_any(change.path(), &folder));
            let written = written.map_err(|error| ToolError::io(folder.display(), &error))?;
            match written.map_or_else(|| self.start_file(change.path()), |from| Ok(Some(from)))? {
                Some(from) => {
                    clear_way((opening, at), path, &mut view);
                    view.replace.insert(path.to_owned(), from);
                }
                // What was too large to be kept is left out, as other ignored files of the steps are.
                None if change.is_ignored()
                    && !self.setup.rules.protects_ignored(change.path()) =>
                {
                    view.remove.insert(path.to_owned());
                }
                None if !change.is_ignored() && language_of(&path.to_string_lossy()).is_none() => {}
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

    /// Takes added check inputs out, but for what only added tests that stay use.
    fn take_out(&self, exam: &Exam, changes: &mut Changes) -> Result<(), ToolError> {
        let stays = self.data_of_added_tests(exam)?;
        for difference in exam.take_out.iter().filter(|it| !stays.contains(&it.path)) {
            let path = Path::new(OsStr::from_bytes(&difference.path));
            changes.replace.remove(path);
            changes.remove.insert(path.to_owned());
        }
        Ok(())
    }

    pub(super) fn changes(&self, order: &ViewOrder, root: &Path) -> Result<Changes, ToolError> {
        let (line, inputs) = (order.line.as_str(), order.inputs);
        if inputs.is_at_start() {
            return self.at_start();
        }
        let opening = self.opening()?;
        let mut changes = Changes::default();
        let is_as_left = inputs == Inputs::AsLeft;
        let exam = opening.exams.get(line).filter(|_| !is_as_left);
        if exam.is_none() && !is_as_left {
            return Ok(changes);
        }
        for path in &opening.changed {
            let path = Path::new(OsStr::from_bytes(path));
            changes.replace.insert(path.to_owned(), root.join(path));
        }
        // With the packages of a changed manifest a check gets nothing else that steps left.
        let (_, installed) = self.installed();
        let kept: &[PathBuf] = match inputs {
            Inputs::OriginalWithIgnored if installed.is_empty() => &opening.ignored,
            Inputs::OriginalWithIgnored => installed,
            Inputs::AsLeft if order.ignored == IgnoredAsLeft::Installed => installed,
            Inputs::AsLeft => &opening.ignored,
            Inputs::Original
            | Inputs::Unstated
            | Inputs::Canary
            | Inputs::CanaryAtStart
            | Inputs::TestsAtStart
            | Inputs::AtStart => &[],
        };
        let removed = opening.ignored.iter().filter(|path| !kept.contains(path));
        changes.remove.extend(removed.cloned());
        let Some(exam) = exam else { return Ok(changes) };
        if let Some(given) = self.originals.get() {
            let folder = self.views()?.join("originals");
            restore(exam, (opening, root), &given.originals, &folder, &mut changes)?;
            for (path, from) in given.repositories.get(line).into_iter().flatten() {
                clear_way((opening, root), path, &mut changes);
                changes.replace.insert(path.clone(), from.clone());
            }
        } else if let Some(error) = self.not_given.get() {
            return Err(error.clone());
        }
        let folder = self.views()?.join("merged");
        for (path, merged) in self.merged_for(line) {
            let to = folder.join(path);
            let from = match (&merged.put, self.originals.get()) {
                (Put::Text(text), _) => {
                    write_merged(&root.join(path), &to, text).map(|()| Some(to.clone()))
                }
                (Put::Original, Some(given)) => {
                    let folder = self.views()?.join("originals");
                    given.originals.write(path.as_os_str().as_bytes(), &folder)
                }
                (Put::Original | Put::Nothing | Put::Unknown, _) => continue,
            };
            let from = from.map_err(|error| ToolError::io(to.display(), &error))?;
            let Some(from) = from else { continue };
            changes.remove.remove(path);
            clear_way((opening, root), path, &mut changes);
            changes.replace.insert(path.to_owned(), from);
        }
        self.take_out(exam, &mut changes)?;
        let timed = exam.times.iter().map(|(path, at)| (Path::new(OsStr::from_bytes(path)), *at));
        let timed = timed.filter(|(path, _)| !changes.has(path));
        changes.times = timed.map(|(path, at)| (path.to_owned(), at)).collect();
        Ok(changes)
    }
}

/// Writes a merged manifest, with the permissions of the workspace's own.
pub(super) fn write_merged(own: &Path, to: &Path, text: &str) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    if let Some(above) = to.parent() {
        make(above)?;
    }
    fs::write(to, text)?;
    fs::set_permissions(to, fs::metadata(own)?.permissions())
}

/// Adds the originals of an exam. One that was not kept stays as it is, or is left out where it is ignored.
fn restore(
    exam: &Exam,
    (opening, root): (&Opening, &Path),
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
        let Some(from) = from else {
            let entry = opening.now.as_ref().and_then(|now| now.get(&difference.path));
            if entry.is_some_and(|entry| entry.ignored) {
                changes.remove.insert(path.to_owned());
            }
            continue;
        };
        clear_way((opening, root), path, changes);
        // A manifest does not say whether a folder stands there.
        if path.ends_with(".git") {
            changes.remove.insert(path.to_owned());
        }
        changes.replace.insert(path.to_owned(), from);
    }
    Ok(())
}

/// What a view of the start changes where nothing stood, or a folder: what came is taken out, and a folder that went, or
/// has other permissions, is as it was.
fn folder_at_start(change: &Change<'_>, made: &Path, view: &mut Changes) -> io::Result<()> {
    let path = Path::new(OsStr::from_bytes(change.path()));
    if change.after.is_some_and(|now| now.kind != Kind::Folder) || change.before.is_none() {
        view.remove.insert(path.to_owned());
    }
    let Some(before) = change.before else { return Ok(()) };
    let from = made.join(FOLDERS).join(format!("{:o}", before.mode));
    make(&from)?;
    fs::set_permissions(&from, fs::Permissions::from_mode(before.mode))?;
    view.replace.insert(path.to_owned(), from);
    Ok(())
}

/// Makes room for a file: neither through a link that steps made of a folder, nor below a file, nor in the place of a folder.
/// What the view would put there of the workspace as it is now gives way.
fn clear_way((opening, root): (&Opening, &Path), path: &Path, changes: &mut Changes) {
    // A manifest has nothing of `.git`.
    let in_repository = path.components().any(|part| part.as_os_str() == ".git");
    let is_folder = |path: &Path| {
        if in_repository {
            return Some(root.join(path).symlink_metadata().ok()?.is_dir());
        }
        let entry = opening.now.as_ref()?.get(path.as_os_str().as_bytes())?;
        Some(entry.kind == Kind::Folder)
    };
    let above = path.ancestors().skip(1).find(|above| is_folder(above) == Some(false));
    if let Some(above) = above {
        changes.remove.insert(above.to_owned());
        if changes.replace.get(above).is_some_and(|from| !from.is_dir()) {
            changes.replace.remove(above);
        }
    }
    if is_folder(path) == Some(true) {
        changes.remove.insert(path.to_owned());
        changes.replace.retain(|other, _| !other.starts_with(path));
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
