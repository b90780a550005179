//! Repositories in views: the index and the commit of HEAD agree with the check inputs that a view takes out and puts back,
//! so what git says is there, is there, and a check input that was put back is no change of the work tree.

use super::opening::{Merged, Put};
use super::originals::MAX_FILE;
use super::recorded::{Inputs, Recorded};
use super::view_content::write_merged;
use super::{Exam, Originals, Round};
use crate::blocking::blocking;
use crate::git_reader::{CommitChanges, IndexChanges, Reader};
use crate::snapshot::WorkTree;
use crate::tool::{RelPath, ToolError, if_readable};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use surety_common::domain::check_inputs::InputKind;

/// The most sets of check inputs for which a round makes repositories. Checks beyond that have them as the steps left them.
const MAX_SETS: usize = 64;

/// The files of a view, and what stands in their places.
type Placed = Vec<(PathBuf, PathBuf)>;

/// What a view has of check inputs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Set {
    /// In files.
    files: Inputs,
    /// In what repositories record.
    recorded: Inputs,
    /// Recorded files with some parts of the start.
    merged: BTreeSet<Vec<u8>>,
}

/// One repository.
struct Place<'r> {
    tree: Arc<WorkTree>,
    /// The folder of its work tree, relative to the workspace.
    folder: &'r Path,
    /// The folders of all repositories.
    folders: &'r [&'r Path],
}

impl Place<'_> {
    /// The paths that belong to it: it lies nearest to them.
    fn own(&self, paths: &BTreeSet<Vec<u8>>) -> Vec<PathBuf> {
        let paths = paths.iter().map(|path| Path::new(OsStr::from_bytes(path)));
        let nearest = |path: &Path| {
            let above = self.folders.iter().filter(|folder| path.starts_with(folder));
            above.max_by_key(|folder| folder.as_os_str().len()).copied()
        };
        paths.filter(|path| nearest(path) == Some(self.folder)).map(Path::to_owned).collect()
    }

    /// A path as the repository names it.
    fn inside(&self, path: &Path) -> Vec<u8> {
        path.strip_prefix(self.folder).unwrap_or(path).as_os_str().as_bytes().to_vec()
    }

    fn all_inside<'p>(&self, paths: impl IntoIterator<Item = &'p PathBuf>) -> Vec<Vec<u8>> {
        paths.into_iter().map(|path| self.inside(path)).collect()
    }
}

impl Round {
    /// For each line, the files of repositories that its views have.
    ///
    /// # Errors
    /// A file could not be read or written, or git could not make an index or a commit.
    pub(super) async fn repositories(
        &self,
        originals: &Arc<Originals>,
        merged: &BTreeMap<Vec<u8>, Merged>,
    ) -> Result<BTreeMap<String, Placed>, ToolError> {
        let mut made: BTreeMap<Set, Placed> = BTreeMap::new();
        let mut found = BTreeMap::new();
        let Some(start) = self.start()? else { return Ok(found) };
        // A revision says nothing of the repository, which is that of the root then.
        let git = &start.facts.git;
        let pairs = git.pairs(git).into_iter();
        let folders: Vec<&Path> =
            pairs.map(|(folder, _, _)| Path::new(OsStr::from_bytes(folder))).collect();
        let root = self.setup.folder.workspace()?.root().to_owned();
        for (line, exam) in &self.opening()?.exams {
            let set = self.set_of(line, exam, merged)?;
            if set == Set::default() || made.len() >= MAX_SETS {
                continue;
            }
            if !made.contains_key(&set) {
                let mut placed = Vec::new();
                for (number, folder) in folders.iter().enumerate() {
                    let Some(tree) = WorkTree::at(&root.join(folder)) else { continue };
                    let place = Place { tree: Arc::new(tree), folder, folders: &folders };
                    let reader = self.git_reader(&format!("git-{}-{number}", made.len()))?;
                    placed.extend(self.index(&reader, &place, &set, originals).await?);
                    let all = self.opening()?.recorded.iter().filter(|it| it.folder == *folder);
                    for (nth, recorded) in all.enumerate() {
                        let reader =
                            self.git_reader(&format!("git-{}-{number}-{nth}", made.len()))?;
                        placed.extend(
                            self.head(&reader, &place, &set, (originals, merged, recorded)).await?,
                        );
                    }
                }
                made.insert(set.clone(), placed);
            }
            found.insert(line.clone(), made.get(&set).cloned().unwrap_or_default());
        }
        Ok(found)
    }

    fn set_of(
        &self,
        line: &str,
        exam: &Exam,
        merged: &BTreeMap<Vec<u8>, Merged>,
    ) -> Result<Set, ToolError> {
        let files = [&exam.take_out, &exam.put_back].map(|differences| {
            let own = differences.iter().filter(|difference| difference.kind != InputKind::Git);
            own.map(|difference| difference.path.clone()).collect()
        });
        let mut set = Set { files, ..Set::default() };
        for recorded in &self.opening()?.recorded {
            for (all, own) in
                set.recorded.iter_mut().zip(recorded.inputs.get(line).into_iter().flatten())
            {
                all.extend(own.iter().cloned());
            }
            let is_merged = |path: &&Vec<u8>| {
                !exam.only_reads && merged.get(*path).is_some_and(Merged::differs)
            };
            set.merged.extend(recorded.paths.iter().filter(is_merged).cloned());
        }
        Ok(set)
    }

    /// The place of the index of a repository, and what stands there in a view.
    async fn index(
        &self,
        reader: &Reader,
        place: &Place<'_>,
        set: &Set,
        originals: &Arc<Originals>,
    ) -> Result<Option<(PathBuf, PathBuf)>, ToolError> {
        let root = self.setup.folder.workspace()?.root().to_owned();
        let Ok(file) = place.tree.git.strip_prefix(&root).map(|git| git.join("index")) else {
            return Ok(None);
        };
        let both =
            |at: usize| [&set.files, &set.recorded].map(|it| it.get(at)).into_iter().flatten();
        let all = |at: usize| both(at).flatten().cloned().collect::<BTreeSet<Vec<u8>>>();
        let (removed, original) = (place.own(&all(0)), place.own(&all(1)));
        if removed.is_empty() && original.is_empty() || !root.join(&file).is_file() {
            return Ok(None);
        }
        let now = self.opening()?.now.clone();
        let (tree, recorded) = (Arc::clone(&place.tree), set.recorded[1].clone());
        let tracked = blocking(move || tree.tracked()).await??;
        let is_tracked = |path: &Path| tracked.binary_search(&place.inside(path)).is_ok();
        let is_recorded = |path: &Path| {
            let path = path.as_os_str().as_bytes();
            recorded.contains(path) || now.as_ref().is_some_and(|now| now.get(path).is_none())
        };
        let removed: Vec<PathBuf> = removed.into_iter().filter(|it| is_tracked(it)).collect();
        let original: Vec<PathBuf> =
            original.into_iter().filter(|it| is_tracked(it) || is_recorded(it)).collect();
        let written = reader.folder.join("originals");
        let alone = self.write_alone(&original, &written).await?;
        let mut original = write_kept(originals, original, &written).await?;
        original.extend(alone);
        if removed.is_empty() && original.is_empty() {
            return Ok(None);
        }
        let marked = self.opening()?.git.iter().find(|it| it.path == file.as_os_str().as_bytes());
        let changes = IndexChanges {
            base: marked.and_then(|change| change.content.clone()),
            removed: place.all_inside(&removed),
            original: place.all_inside(&original),
            originals: (!original.is_empty()).then(|| written.join(place.folder)),
            ..IndexChanges::default()
        };
        let index = reader.index(&place.tree, &changes).await?;
        let from = reader.folder.join("view");
        fs::write(&from, index).map_err(|error| ToolError::io(from.display(), &error))?;
        Ok(Some((file, from)))
    }

    /// Writes the files that an index alone has otherwise, which are as at the start, to a folder; answers those.
    async fn write_alone(&self, paths: &[PathBuf], to: &Path) -> Result<Vec<PathBuf>, ToolError> {
        let opening = self.opening()?;
        let is_alone = |path: &&PathBuf| {
            let path = path.as_os_str().as_bytes();
            opening.recorded.iter().any(|recorded| recorded.alone.contains(path))
        };
        let mode = |path: &Path| {
            let entry = opening.now.as_ref().and_then(|now| now.get(path.as_os_str().as_bytes()));
            entry.map_or(0o644, |entry| entry.mode)
        };
        let files: Vec<(PathBuf, u32)> =
            paths.iter().filter(is_alone).map(|path| (path.clone(), mode(path))).collect();
        let (workspace, to) = (self.setup.folder.workspace()?, to.to_owned());
        blocking(move || {
            let mut written = Vec::with_capacity(files.len());
            for (path, mode) in files {
                let place = RelPath::root().join(path.as_os_str());
                let Some(text) = if_readable(workspace.read(&place, MAX_FILE))? else { continue };
                let file = to.join(&path);
                let failed = |error: io::Error| ToolError::io(file.display(), &error);
                file.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
                fs::write(&file, text).map_err(failed)?;
                fs::set_permissions(&file, fs::Permissions::from_mode(mode)).map_err(failed)?;
                written.push(path);
            }
            Ok(written)
        })
        .await?
    }

    /// The places that name a commit of HEAD or of references, and what stands there in a view, with the objects that this needs.
    async fn head(
        &self,
        reader: &Reader,
        place: &Place<'_>,
        set: &Set,
        (originals, merged, recorded): (&Arc<Originals>, &BTreeMap<Vec<u8>, Merged>, &Recorded),
    ) -> Result<Placed, ToolError> {
        let (Some(base), Some(file), Some(objects)) =
            (recorded.commit.clone(), &recorded.head, &recorded.objects)
        else {
            return Ok(Vec::new());
        };
        let root = self.setup.folder.workspace()?.root().to_owned();
        let [removed, original] = [&set.recorded[0], &set.recorded[1]].map(|it| place.own(it));
        let written = reader.folder.join("recorded");
        let mut original = write_kept(originals, original, &written).await?;
        for path in place.own(&set.merged) {
            match merged.get(path.as_os_str().as_bytes()).map(|merged| &merged.put) {
                Some(Put::Text(text)) => {
                    let to = written.join(&path);
                    write_merged(&root.join(&path), &to, text)
                        .map_err(|error| ToolError::io(to.display(), &error))?;
                    original.push(path);
                }
                Some(Put::Original) => {
                    original.extend(write_kept(originals, vec![path], &written).await?);
                }
                Some(Put::Nothing | Put::Unknown) | None => {}
            }
        }
        if removed.is_empty() && original.is_empty() {
            return Ok(Vec::new());
        }
        let changes = CommitChanges {
            base,
            removed: place.all_inside(&removed),
            original: place.all_inside(&original),
            originals: written.join(place.folder),
        };
        let Some(commit) = reader.commit(&place.tree, &changes).await? else {
            return Ok(Vec::new());
        };
        let from = reader.folder.join("head");
        let failed = |error: std::io::Error| ToolError::io(from.display(), &error);
        fs::write(&from, format!("{}\n", commit.name)).map_err(failed)?;
        let packs = commit.pack.into_iter().filter_map(|from| {
            let name = from.file_name()?.to_owned();
            Some((objects.join("pack").join(name), from))
        });
        let names = std::iter::once(file).chain(&recorded.beside);
        let names = names.map(|place| (place.clone(), from.clone()));
        Ok(packs.chain(names).collect())
    }
}

/// Writes the originals to a folder; answers those that were kept. The others are in a view as they are.
async fn write_kept(
    originals: &Arc<Originals>,
    paths: Vec<PathBuf>,
    to: &Path,
) -> Result<Vec<PathBuf>, ToolError> {
    let (originals, to) = (Arc::clone(originals), to.to_owned());
    blocking(move || {
        fs::create_dir_all(&to).map_err(|error| ToolError::io(to.display(), &error))?;
        let mut kept = Vec::with_capacity(paths.len());
        for path in paths {
            let written = originals.write(path.as_os_str().as_bytes(), &to);
            if written.map_err(|error| ToolError::io(path.display(), &error))?.is_some() {
                kept.push(path);
            }
        }
        Ok(kept)
    })
    .await?
}
