//! The indexes of repositories in views: what git says is there, is there, and a check input that was put back is no
//! change of the work tree.

use super::{Exam, Originals, Round};
use crate::blocking::blocking;
use crate::git_reader::IndexChanges;
use crate::snapshot::WorkTree;
use crate::tool::ToolError;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::check_inputs::InputKind;

/// The most sets of check inputs for which a round makes indexes. Checks beyond that have the index as the steps left it.
const MAX_SETS: usize = 8;

/// Paths of check inputs that a view takes out and puts back.
type Inputs = [BTreeSet<Vec<u8>>; 2];

impl Round {
    /// For each line, the files that stand in the places of the indexes. Where git cannot make one, the view has the index
    /// as the steps left it.
    pub(super) async fn indexes(
        &self,
        originals: &Arc<Originals>,
    ) -> Result<BTreeMap<String, Vec<(PathBuf, PathBuf)>>, ToolError> {
        let mut made: BTreeMap<Inputs, Vec<(PathBuf, PathBuf)>> = BTreeMap::new();
        let mut found = BTreeMap::new();
        let Some(start) = self.start()? else { return Ok(found) };
        // A revision says nothing of the repository, which is that of the root then.
        let git = &start.facts.git;
        let folders: Vec<&Path> = git
            .pairs(git)
            .into_iter()
            .map(|(folder, _, _)| Path::new(OsStr::from_bytes(folder)))
            .collect();
        for (line, exam) in &self.opening()?.exams {
            let inputs = inputs_of(exam);
            if inputs.iter().all(BTreeSet::is_empty) || made.len() >= MAX_SETS {
                continue;
            }
            if !made.contains_key(&inputs) {
                let mut files = Vec::new();
                for folder in &folders {
                    let name = format!("index-{}-{}", made.len(), files.len());
                    files.extend(self.index(folder, (&folders, &name), &inputs, originals).await?);
                }
                made.insert(inputs.clone(), files);
            }
            found.insert(line.clone(), made.get(&inputs).cloned().unwrap_or_default());
        }
        Ok(found)
    }

    /// The place of the index of the repository in a folder, and what stands there in a view.
    async fn index(
        &self,
        folder: &Path,
        (folders, name): (&[&Path], &str),
        [removed, original]: &Inputs,
        originals: &Arc<Originals>,
    ) -> Result<Option<(PathBuf, PathBuf)>, ToolError> {
        let root = self.setup.folder.workspace()?.root().to_owned();
        let Some(tree) = WorkTree::at(&root.join(folder)) else { return Ok(None) };
        let Ok(place) = tree.git.strip_prefix(&root).map(|git| git.join("index")) else {
            return Ok(None);
        };
        // A path belongs to the repository that lies nearest to it.
        let own = |paths: &BTreeSet<Vec<u8>>| -> Vec<PathBuf> {
            let paths = paths.iter().map(|path| Path::new(OsStr::from_bytes(path)));
            let nearest = |path: &Path| {
                let above = folders.iter().filter(|folder| path.starts_with(folder));
                above.max_by_key(|folder| folder.as_os_str().len()).copied()
            };
            paths.filter(|path| nearest(path) == Some(folder)).map(Path::to_owned).collect()
        };
        let (removed, original) = (own(removed), own(original));
        if removed.is_empty() && original.is_empty() || !root.join(&place).is_file() {
            return Ok(None);
        }
        let inside =
            |path: &Path| path.strip_prefix(folder).unwrap_or(path).as_os_str().as_bytes().to_vec();
        let reader = self.git_reader(name)?;
        let (written, kept) = (reader.folder.join("originals"), Arc::clone(originals));
        let now = self.opening()?.now.clone();
        let is_gone = |path: &Path| {
            now.as_ref().is_some_and(|now| now.get(path.as_os_str().as_bytes()).is_none())
        };
        let gone: Vec<PathBuf> = original.iter().filter(|path| is_gone(path)).cloned().collect();
        let (tree, to) = (Arc::new(tree), written.clone());
        let tracked = Arc::clone(&tree);
        let tracked = blocking(move || tracked.tracked()).await??;
        let is_tracked = |path: &Path| tracked.binary_search(&inside(path)).is_ok();
        let removed: Vec<_> =
            removed.iter().filter(|it| is_tracked(it)).map(|it| inside(it)).collect();
        let original: Vec<PathBuf> =
            original.into_iter().filter(|it| is_tracked(it) || gone.contains(it)).collect();
        // What was not kept is in the view as it is.
        let original = blocking(move || {
            let is_kept = |path: &PathBuf| {
                kept.write(path.as_os_str().as_bytes(), &to).is_ok_and(|it| it.is_some())
            };
            original.into_iter().filter(is_kept).collect::<Vec<PathBuf>>()
        })
        .await?;
        if removed.is_empty() && original.is_empty() {
            return Ok(None);
        }
        let marked = self.opening()?.git.iter().find(|it| it.path == place.as_os_str().as_bytes());
        let changes = IndexChanges {
            base: marked.and_then(|change| change.content.clone()),
            removed,
            original: original.iter().map(|path| inside(path)).collect(),
            originals: (!original.is_empty()).then(|| written.join(folder)),
            ..IndexChanges::default()
        };
        let index = match reader.index(&tree, &changes).await {
            Ok(index) => index,
            Err(error) => {
                tracing::warn!(%error, "verify: git could not make an index for a view");
                return Ok(None);
            }
        };
        let from = reader.folder.join("view");
        fs::write(&from, index).map_err(|error| ToolError::io(from.display(), &error))?;
        Ok(Some((place, from)))
    }
}

fn inputs_of(exam: &Exam) -> Inputs {
    [&exam.take_out, &exam.put_back].map(|differences| {
        let own = differences.iter().filter(|difference| difference.kind != InputKind::Git);
        own.map(|difference| difference.path.clone()).collect()
    })
}
