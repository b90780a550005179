//! The files of a revision, compared with those of the workspace: what git would call unchanged is the same
//! entry, so that a later comparison of two manifests names what git would name.

use super::list::{LineEnds, Listed};
use crate::tool::{RelPath, ToolError, Workspace};
use data_encoding::HEXLOWER;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::manifest::{
    Content, Entry, FileDigest, IgnoreRules, Kind, Manifest, Place,
};

/// Larger texts are compared by their bytes alone.
const TEXT_LIMIT: u64 = 64 << 20;
/// How the pointer to a large file begins, and the longest one.
const POINTER: &str = "version https://git-lfs.github.com/spec/";
const POINTER_LIMIT: u64 = 1024;
/// What stands in a pointer before the digest of the file.
const POINTER_DIGEST: &str = "oid sha256:";

/// The entries of the revision. Those that git would call unchanged are as the workspace has them.
pub(super) fn adopt(
    revision: &[Entry],
    now: &Manifest,
    listed: &Listed,
    (files, workspace): (&Path, &Workspace),
) -> Result<Vec<Entry>, ToolError> {
    let prefix = now.rules.prefix.as_slice();
    let checkout = Workspace::open(files)?;
    let mut entries = Vec::with_capacity(revision.len());
    for entry in revision {
        let Some(present) = now.get(&entry.path).filter(|present| present.kind == entry.kind)
        else {
            entries.push(entry.clone());
            continue;
        };
        let from_top = match prefix {
            [] => entry.path.to_vec(),
            prefix => [prefix, b"/", &entry.path].concat(),
        };
        let ends = listed.line_ends(&from_top);
        let is_same = present.content == entry.content
            || entry.kind == Kind::Folder
            || entry.kind == Kind::File
                && (is_text_of(entry, present, ends, (&checkout, workspace))?
                    || is_pointer_to(entry, present, &checkout)?);
        entries.push(match (is_same, present.is_executable() == entry.is_executable()) {
            (true, true) => present.clone(),
            (true, false) => Entry { mode: entry.mode, ..present.clone() },
            (false, true) => Entry { mode: present.mode, ..entry.clone() },
            (false, false) => entry.clone(),
        });
    }
    Ok(entries)
}

/// The workspace at the revision. Ignored paths are no part of a revision: they come from elsewhere.
pub(super) fn manifest(
    place: Place,
    rules: Arc<IgnoreRules>,
    mut entries: Vec<Entry>,
    ignored: Vec<Entry>,
) -> Manifest {
    let known: std::collections::HashSet<_> =
        entries.iter().map(|entry| entry.path.clone()).collect();
    entries.extend(ignored.into_iter().filter(|entry| !known.contains(&entry.path)));
    Manifest::new(place, rules, entries)
}

/// Whether two texts differ in their line ends only, where git changes these.
fn is_text_of(
    entry: &Entry,
    present: &Entry,
    ends: LineEnds,
    (checkout, workspace): (&Workspace, &Workspace),
) -> Result<bool, ToolError> {
    if ends == LineEnds::Kept || entry.size.max(present.size) > TEXT_LIMIT {
        return Ok(false);
    }
    let stored = read(checkout, &entry.path)?;
    // What the workspace does not let be read is not the same.
    let Ok(found) = read(workspace, &entry.path) else { return Ok(false) };
    Ok(normalised(&stored) == normalised(&found))
}

/// Whether the revision holds the pointer of git LFS to the file that is there.
fn is_pointer_to(entry: &Entry, present: &Entry, checkout: &Workspace) -> Result<bool, ToolError> {
    let Content::File(FileDigest { sha256: Some(digest), .. }) = &present.content else {
        return Ok(false);
    };
    if entry.size > POINTER_LIMIT {
        return Ok(false);
    }
    let text = read(checkout, &entry.path)?;
    let text = String::from_utf8_lossy(&text);
    let named = text.lines().find_map(|line| line.strip_prefix(POINTER_DIGEST));
    Ok(text.starts_with(POINTER) && named == Some(HEXLOWER.encode(digest).as_str()))
}

fn read(folder: &Workspace, path: &[u8]) -> Result<Vec<u8>, ToolError> {
    folder.read(&RelPath::real(PathBuf::from(OsStr::from_bytes(path))), TEXT_LIMIT)
}

fn normalised(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (place, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(place + 1) != Some(&b'\n') {
            out.push(*byte);
        }
    }
    out
}
