//! What a repository records beside the files: the commit of HEAD and the index may have other check inputs than the work
//! tree, and a line may test a clone, an archive or what is left of it after `git stash`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use surety_common::domain::check_inputs::{
    Difference, Exam, GitChange, InputKind, StartInputs, is_hidden_where_ignored, is_merged,
};
use surety_common::domain::manifest::{Aspect, Change, Entry, Manifest};

/// Paths of check inputs that a view takes out and puts back.
pub(super) type Inputs = [BTreeSet<Vec<u8>>; 2];

/// What one commit of a repository, with the index where it is that of HEAD, has otherwise than the start.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The folder of its work tree. All paths are relative to the workspace.
    pub(super) folder: PathBuf,
    /// The commit of HEAD or of a reference, or the tag that names it, in hexadecimal; none where HEAD has none.
    pub(super) commit: Option<String>,
    /// The file that names this commit; none where no view can have another one in its place.
    pub(super) head: Option<PathBuf>,
    /// The files of references that are new and name the same commit, such as a tag.
    pub(super) beside: Vec<PathBuf>,
    /// The file that shows what is recorded: the index where HEAD names the commit of the start.
    pub(super) shown: PathBuf,
    /// The folder with its objects; none outside of the workspace.
    pub(super) objects: Option<PathBuf>,
    /// What is recorded otherwise.
    pub(super) paths: BTreeSet<Vec<u8>>,
    /// What the index alone has otherwise, or not: HEAD and the file are as at the start.
    pub(super) alone: BTreeSet<Vec<u8>>,
    /// The check inputs of each line among it.
    pub(super) inputs: BTreeMap<String, Inputs>,
    /// The workspace of the start with what is recorded.
    pub(super) manifest: Manifest,
}

impl Recorded {
    /// Finds the check inputs of a line. A difference for the exam where the files do not show them.
    pub(super) fn examine(
        &mut self,
        (line, inputs): (&str, &StartInputs<'_>),
        [start, now]: [&Manifest; 2],
        exam: &Exam,
    ) -> Option<GitChange> {
        let own = Exam::of(inputs, line, start, &self.manifest);
        let paths = |differences: &[Difference]| -> BTreeSet<Vec<u8>> {
            let own = differences.iter().filter(|difference| difference.kind != InputKind::Git);
            own.map(|difference| difference.path.clone()).collect()
        };
        let [take_out, mut put_back] = [paths(&own.take_out), paths(&own.put_back)];
        // Of a manifest that has the text of the start again, all keys are those of the start.
        let is_back = |path: &&Vec<u8>| {
            is_merged(&String::from_utf8_lossy(path)) && is_same(start.get(path), now.get(path))
        };
        if !own.only_reads {
            put_back.extend(self.paths.iter().filter(is_back).cloned());
        }
        put_back
            .extend(self.alone.iter().filter(|path| self.misleads(path, line, inputs)).cloned());
        let [shown_out, shown_back] = [paths(&exam.take_out), paths(&exam.put_back)];
        let is_shown = take_out.is_subset(&shown_out) && put_back.is_subset(&shown_back);
        self.inputs.insert(line.to_owned(), [take_out, put_back]);
        (!is_shown).then(|| GitChange {
            path: self.shown.as_os_str().as_bytes().to_vec(),
            aspect: Aspect::Content,
            content: None,
        })
    }

    /// Whether what the index alone has of a path decides what a line says of the file: a text that is neither that of HEAD
    /// nor the file's, or a source that git no longer tracks. A line that names the file asks for that.
    fn misleads(&self, path: &[u8], line: &str, inputs: &StartInputs<'_>) -> bool {
        let text = String::from_utf8_lossy(path);
        let name = text.rsplit('/').next().unwrap_or_default();
        let is_tracked = self.manifest.get(path).is_some();
        (is_tracked || is_hidden_where_ignored(&text) && !line.contains(name))
            && !inputs.rules().may_change(path)
    }
}

/// Whether a path is what it was, as a version control system sees it.
pub(super) fn is_same(before: Option<&Entry>, after: Option<&Entry>) -> bool {
    !Change { before, after }.is_of_content()
}
