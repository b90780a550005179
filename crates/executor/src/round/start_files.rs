//! Files of the start that the base snapshot did not keep: from the objects of the repository, where a file was
//! tracked and as committed. Each is compared with the manifest of the start, so git's word proves nothing.

use super::{Round, Start};
use crate::blocking::blocking;
use crate::scratch::make;
use crate::snapshot::WorkTree;
use crate::tool::ToolError;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::manifest::{Content, Entry, Kind, changes};

/// The most files that are read, and all of them, in bytes.
const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 256 << 20;
/// The folder of a round's views that they are written to.
const FOLDER: &str = "start-objects";

impl Round {
    /// Reads what a view of the start needs and what was not kept. Where git cannot say, a view goes without.
    pub(super) async fn read_start_files(self: &Arc<Self>) -> Result<(), ToolError> {
        if self.start_files.get().is_some() {
            return Ok(());
        }
        let found = match self.start()? {
            Some(start) => self.written_start_files(start).await?,
            None => BTreeSet::new(),
        };
        self.start_files.get_or_init(|| found);
        Ok(())
    }

    /// The place of a file that was read; none where it was not.
    pub(super) fn start_file(&self, path: &[u8]) -> Result<Option<PathBuf>, ToolError> {
        let is_there = self.start_files.get().is_some_and(|found| found.contains(path));
        let folder = is_there.then(|| self.views().map(|views| views.join(FOLDER))).transpose()?;
        Ok(folder.map(|folder| folder.join(OsStr::from_bytes(path))))
    }

    async fn written_start_files(
        self: &Arc<Self>,
        start: &Start,
    ) -> Result<BTreeSet<Vec<u8>>, ToolError> {
        let wanted = self.lacking(start)?;
        let (links, files): (Vec<Entry>, Vec<Entry>) =
            wanted.into_iter().partition(|entry| entry.kind == Kind::Link);
        let blobs = if files.is_empty() { Vec::new() } else { self.blobs(start, &files).await? };
        let folder = self.views()?.join(FOLDER);
        blocking(move || {
            let mut written = BTreeSet::new();
            let failed = |error: io::Error| ToolError::io(folder.display(), &error);
            for (entry, text) in files.iter().zip(blobs) {
                let Some(text) = text.filter(|text| is_of(entry, text)) else { continue };
                write(&folder, entry, Some(&text)).map_err(failed)?;
                written.insert(entry.path.to_vec());
            }
            for entry in &links {
                write(&folder, entry, None).map_err(failed)?;
                written.insert(entry.path.to_vec());
            }
            Ok(written)
        })
        .await?
    }

    /// Entries of the start that are others now, and whose content was not kept.
    fn lacking(&self, start: &Start) -> Result<Vec<Entry>, ToolError> {
        let Some(now) = &self.opening()?.now else { return Ok(Vec::new()) };
        let kept =
            |path: &[u8]| self.originals.get().is_some_and(|given| given.originals.has_any(path));
        let changed = changes(&start.manifest, now)
            .filter(|change| change.is_of_content() && !change.is_ignored())
            .filter_map(|change| change.before)
            .filter(|entry| matches!(entry.kind, Kind::File | Kind::Link) && !kept(&entry.path));
        let mut left = MAX_BYTES;
        let fits = |entry: &&Entry| {
            let fits = entry.size <= left && !entry.path.contains(&b'\n');
            left = left.saturating_sub(if fits { entry.size } else { 0 });
            fits
        };
        Ok(changed.filter(fits).take(MAX_FILES).cloned().collect())
    }

    async fn blobs(
        &self,
        start: &Start,
        files: &[Entry],
    ) -> Result<Vec<Option<Vec<u8>>>, ToolError> {
        let root = self.setup.folder.workspace()?.root().to_owned();
        let commit = start.commit();
        let (Some(tree), Some(commit)) = (WorkTree::around(&root), commit) else {
            return Ok(Vec::new());
        };
        let prefix = root.strip_prefix(&tree.top).unwrap_or(Path::new(""));
        let names: Vec<Vec<u8>> = files
            .iter()
            .map(|entry| {
                let path = prefix.join(OsStr::from_bytes(&entry.path));
                [commit.as_bytes(), b":", path.as_os_str().as_bytes()].concat()
            })
            .collect();
        match self.git_reader("objects")?.blobs(&tree, &names).await {
            Ok(blobs) => Ok(blobs),
            // A check whose canary is not run says so.
            Err(error) => {
                tracing::warn!(%error, "verify: files of the start could not be read from git's objects");
                Ok(Vec::new())
            }
        }
    }
}

impl Start {
    /// The commit that the start was based on, in hexadecimal; none without a repository.
    fn commit(&self) -> Option<String> {
        self.revision.clone().or_else(|| self.facts.git.commit_name())
    }
}

fn is_of(entry: &Entry, text: &[u8]) -> bool {
    match &entry.content {
        Content::File(digest) => digest.blake3 == *blake3::hash(text).as_bytes(),
        Content::Target(_) | Content::None | Content::Unreadable => false,
    }
}

fn write(folder: &Path, entry: &Entry, text: Option<&[u8]>) -> io::Result<()> {
    let to = folder.join(OsStr::from_bytes(&entry.path));
    if let Some(above) = to.parent() {
        make(above)?;
    }
    match (text, &entry.content) {
        (Some(text), _) => {
            fs::write(&to, text)?;
            fs::set_permissions(&to, Permissions::from_mode(entry.mode & 0o777))
        }
        (None, Content::Target(target)) => symlink(OsStr::from_bytes(target), &to),
        (None, Content::File(_) | Content::None | Content::Unreadable) => Ok(()),
    }
}
