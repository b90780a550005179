//! What a verification reads of a revision, and where its verdict goes.

use std::path::{Path, PathBuf};

use surety_common::clock;
use surety_common::config::DataDirConfig;
use surety_common::domain::manifest::digest;
use surety_executor::revision::{Revision, git_folder};
use surety_executor::round::Start;
use surety_executor::tool::Workspace;

use super::file::{Caution, Origin, StartKind};
use super::scene::StartFrom;
use crate::failure::{Code, Failure};
use crate::folder::DataFolder;
use crate::plan_file::{read_beside, read_text};

/// Where the checks are, below the workspace.
pub const DEFAULT_PLAN: &str = ".surety/checks.yaml";
/// The caution about hidden checks whose files a participant could read.
pub const OVERLAY_READABLE: &str = "overlay_readable";
/// The largest checks file in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// An absolute path without links in its folder; the file itself need not be there.
///
/// # Errors
/// The current folder is unknown.
pub fn real(named: &Path) -> Result<PathBuf, Failure> {
    let whole = std::path::absolute(named).map_err(Failure::file(named))?;
    let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else { return Ok(whole) };
    Ok(folder.canonicalize().map_or_else(|_| whole.clone(), |folder| folder.join(name)))
}

/// The content of a file in a revision; none for a path outside its work tree.
///
/// # Errors
/// `plan_missing`: the revision has no such file, or no usable one.
fn in_revision(named: &Path, revision: &Revision) -> Result<Option<Vec<u8>>, Failure> {
    let whole = real(named)?;
    let Ok(inner) = whole.strip_prefix(revision.top()) else { return Ok(None) };
    let missing = |why: String| {
        let message = format!(
            "the commit {} has no usable checks file {}: {why}",
            revision.commit(),
            inner.display()
        );
        let advice =
            "Commit the file, name one outside the work tree, or run a command after `--`.";
        Failure::new(Code::PlanMissing, message, advice)
    };
    let read = || {
        let folder = Workspace::open(revision.folder())?;
        folder.read(&folder.locate(&inner.to_string_lossy())?, MOST_BYTES)
    };
    read().map(Some).map_err(|error| missing(error.code.meaning().to_owned()))
}

/// The text of a checks file at a start: of its revision, and as it is now outside of that or for another start.
///
/// # Errors
/// `plan_missing`: the revision has no such file, or no usable one; the file cannot be read.
pub fn text_at(named: &Path, from: &StartFrom) -> Result<String, Failure> {
    let bytes = bytes_at(named, from, || read_text(named).map(String::into_bytes))?;
    String::from_utf8(bytes).map_err(|error| {
        let message = format!("{} is not UTF-8 text: {error}", named.display());
        Failure::new(Code::PlanMissing, message, "Check that it is the right file.")
    })
}

/// The content of a file that a checks file in `folder` names, at a start.
///
/// # Errors
/// As [`text_at`].
pub fn beside_at(folder: &Path, path: &Path, from: &StartFrom) -> Result<Vec<u8>, Failure> {
    bytes_at(&folder.join(path), from, || read_beside(folder, path))
}

fn bytes_at(
    named: &Path,
    from: &StartFrom,
    now: impl FnOnce() -> Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    match from {
        StartFrom::Revision(revision) => in_revision(named, revision)?.map_or_else(now, Ok),
        StartFrom::Now | StartFrom::Kept(_) => now(),
    }
}

/// Where the verdict about a workspace is by default: in git's own folder, and without git in the data folder.
///
/// # Errors
/// There is no data folder.
pub fn default_verdict_file(root: &Path, data: &DataDirConfig) -> Result<PathBuf, Failure> {
    if let Some(git) = git_folder(root) {
        return Ok(git.join("surety/verdict.json"));
    }
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
    let at = clock::now().format("%Y%m%dT%H%M%S%3fZ");
    let name = format!("{}-{at}.json", name.unwrap_or_default());
    Ok(DataFolder::choose(data)?.path().join("verdicts").join(name))
}

/// What a workspace is compared with. `base` is the revision as it was named.
#[must_use]
pub fn origin_of(from: &StartFrom, base: &str, start: &Start) -> Origin {
    let digest = digest(&start.manifest);
    let (kind, commit) = match from {
        StartFrom::Now => (StartKind::Command, None),
        StartFrom::Kept(_) => (StartKind::Opening, None),
        StartFrom::Revision(revision) => (StartKind::Revision, Some(revision.commit().to_owned())),
    };
    Origin { kind, digest, revision: commit.is_some().then(|| base.to_owned()), commit }
}

/// The caution that ignored files are those of now; none where there are none.
#[must_use]
pub fn as_left(start: &Start) -> Option<Caution> {
    let ignored = start.manifest.entries().iter().filter(|entry| entry.ignored).count();
    (ignored > 0).then(|| Caution {
        code: "ignored_inputs_as_left".to_owned(),
        check: String::new(),
        detail: "a revision holds no ignored files: the checks used those that were there"
            .to_owned(),
    })
}
