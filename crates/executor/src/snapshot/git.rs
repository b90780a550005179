//! What git says about a folder, read from its files: no git is started, so no hook, filter or
//! configuration of the workspace can run.

use crate::tool::{ErrorCode, ToolError};
use data_encoding::HEXLOWER;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The largest index that is read: some ten million files.
const INDEX_LIMIT: u64 = 1 << 30;
/// The largest other file that is read.
const FILE_LIMIT: u64 = 1 << 20;
/// Submodules inside submodules that are entered.
const MAX_DEPTH: u32 = 8;

/// The parts of an index, in bytes.
const HEADER: usize = 12;
const MODE_AT: usize = 24;
const HASH_AT: usize = 40;
/// Bits of an entry's flags: whether further flags follow, those by which git overlooks its file, and what kind of object it
/// names.
const EXTENDED: u16 = 0x4000;
const ASSUMED_UNCHANGED: u16 = 0x8000;
const SKIPPED: u16 = 0x4000;
const KIND: u32 = 0o170_000;
const SUBMODULE: u32 = 0o160_000;
const FOLDER: u32 = 0o040_000;

/// A folder that git keeps, and where it keeps it.
#[derive(Debug)]
pub(crate) struct WorkTree {
    /// The folder that holds `.git`.
    pub(crate) top: PathBuf,
    /// What belongs to this work tree alone.
    pub(crate) git: PathBuf,
    /// What all work trees of the repository share.
    pub(crate) common: PathBuf,
}

/// One path of an index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tracked {
    pub(super) mode: u32,
    pub(super) path: Vec<u8>,
    /// Whether git is told to overlook what its file is.
    pub(super) overlooked: bool,
}

impl WorkTree {
    /// The work tree that a folder lies in.
    pub(crate) fn around(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::at)
    }

    /// The work tree with this top.
    pub(crate) fn at(top: &Path) -> Option<Self> {
        let dot_git = top.join(".git");
        let git = if dot_git.join("HEAD").is_file() {
            dot_git
        } else {
            let text = read_text(&dot_git).ok()??;
            let path = text.strip_prefix("gitdir:")?.trim();
            // That of a submodule is named by the way up, and would look like one inside the work tree.
            let git = top.join(path).canonicalize().ok()?;
            git.join("HEAD").is_file().then_some(git)?
        };
        let common = match read_text(&git.join("commondir")) {
            Ok(Some(path)) => git.join(path.trim()),
            Ok(None) | Err(_) => git.clone(),
        };
        Some(Self { top: top.to_owned(), git, common })
    }

    /// The rules of this repository that are in no file of the work tree.
    pub(crate) fn exclude(&self) -> Option<String> {
        read_text(&self.common.join("info/exclude")).ok().flatten()
    }

    /// The folders in which this repository borrows objects from others.
    pub(crate) fn borrowed(&self) -> Vec<PathBuf> {
        let objects = self.common.join("objects");
        let named = read_text(&objects.join("info/alternates")).ok().flatten().unwrap_or_default();
        named.lines().filter(|line| !line.is_empty()).map(|line| objects.join(line)).collect()
    }

    /// Every path that the index names, those of submodules too, relative to the top.
    ///
    /// # Errors
    /// `io_failed` for an index that does not read.
    pub(crate) fn tracked(&self) -> Result<Vec<Vec<u8>>, ToolError> {
        let mut paths = Vec::new();
        self.gather(&mut paths, &[], 0)?;
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    fn gather(&self, paths: &mut Vec<Vec<u8>>, prefix: &[u8], depth: u32) -> Result<(), ToolError> {
        for Tracked { mode, path, .. } in self.index()? {
            let inner = joined(prefix, &path);
            if mode & KIND == SUBMODULE && depth < MAX_DEPTH {
                let folder = self.top.join(std::ffi::OsStr::from_bytes(&path));
                if let Some(inside) = Self::at(&folder) {
                    inside.gather(paths, &inner, depth + 1)?;
                }
            }
            if mode & KIND != FOLDER {
                paths.push(inner);
            }
        }
        Ok(())
    }

    /// The paths of the index whose files git is told to overlook.
    ///
    /// # Errors
    /// As [`Self::tracked`].
    pub(crate) fn overlooked(&self) -> Result<Vec<Vec<u8>>, ToolError> {
        let overlooked = self.index()?.into_iter().filter(|tracked| tracked.overlooked);
        Ok(overlooked.map(|tracked| tracked.path).collect())
    }

    fn index(&self) -> Result<Vec<Tracked>, ToolError> {
        let path = self.git.join("index");
        let failed = |error: &io::Error| ToolError::io(path.display(), error);
        let Some(bytes) = read(&path, INDEX_LIMIT).map_err(|error| failed(&error))? else {
            return Ok(Vec::new());
        };
        let hash = self.hash_length();
        let (mut tracked, shared) = parse(&bytes, hash).ok_or_else(|| unread(&path))?;
        // An entry without a path replaces one of the shared index, and which one is not read here: it may mark any of them.
        let may_mark = tracked.iter().any(|tracked| tracked.path.is_empty() && tracked.overlooked);
        if let Some(shared) = shared {
            let path = self.git.join(format!("sharedindex.{}", HEXLOWER.encode(&shared)));
            let bytes = read(&path, INDEX_LIMIT).map_err(|error| failed(&error))?;
            let bytes = bytes.ok_or_else(|| unread(&path))?;
            // Those that were deleted since stay: a path too many is only never ignored.
            let of_shared = parse(&bytes, hash).ok_or_else(|| unread(&path))?.0.into_iter();
            tracked.extend(of_shared.map(|it| {
                let overlooked = it.overlooked || may_mark;
                Tracked { overlooked, ..it }
            }));
        }
        tracked.retain(|tracked| !tracked.path.is_empty());
        Ok(tracked)
    }

    /// The length of the names of objects, in bytes.
    pub(crate) fn hash_length(&self) -> usize {
        let config = read_text(&self.common.join("config")).ok().flatten().unwrap_or_default();
        let says_so = |line: &str| {
            let line = line.trim().to_ascii_lowercase();
            line.starts_with("objectformat") && line.ends_with("sha256")
        };
        if config.lines().any(says_so) { 32 } else { 20 }
    }
}

fn unread(path: &Path) -> ToolError {
    let message = format!(
        "{}: git's index does not read, so it is not known what git tracks; `git status` there says more",
        path.display()
    );
    ToolError::new(ErrorCode::IoFailed, message)
}

pub(super) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        return name.to_vec();
    }
    [folder, b"/", name].concat()
}

/// The text of a small regular file; none when there is none.
pub(super) fn read_text(path: &Path) -> io::Result<Option<String>> {
    let bytes = read(path, FILE_LIMIT)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    // A pipe in its place must not be waited for.
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file: File = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() || found.len() > limit {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The entries of an index of version 2, 3 or 4, and the digest of the index that it builds on.
fn parse(bytes: &[u8], hash: usize) -> Option<(Vec<Tracked>, Option<Vec<u8>>)> {
    let header = bytes.get(..HEADER)?;
    let version = number(header.get(4..8)?)?;
    if !header.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let count = number(header.get(8..12)?)?;
    let mut rest = bytes.get(HEADER..)?;
    let mut tracked: Vec<Tracked> = Vec::new();
    for _ in 0..count {
        let last = tracked.last().map_or(&[][..], |tracked| &tracked.path);
        let (entry, after) = parse_entry(rest, version, hash, last)?;
        tracked.push(entry);
        rest = after;
    }
    Some((tracked, shared(rest, hash)))
}

fn parse_entry<'a>(
    bytes: &'a [u8],
    version: u32,
    hash: usize,
    last: &[u8],
) -> Option<(Tracked, &'a [u8])> {
    let mode = number(bytes.get(MODE_AT..MODE_AT + 4)?)?;
    let flags_at = HASH_AT + hash;
    let flags = u16::from_be_bytes(bytes.get(flags_at..flags_at + 2)?.try_into().ok()?);
    let more = bytes.get(flags_at + 2..flags_at + 4).filter(|_| flags & EXTENDED != 0);
    let more = more.and_then(|more| more.try_into().ok()).map_or(0, u16::from_be_bytes);
    let overlooked = flags & ASSUMED_UNCHANGED != 0 || more & SKIPPED != 0;
    let mut path_at = flags_at + if flags & EXTENDED == 0 { 2 } else { 4 };
    let mut path = Vec::new();
    if version == 4 {
        let (dropped, length) = offset(bytes.get(path_at..)?)?;
        path.extend_from_slice(last.get(..last.len().checked_sub(dropped)?)?);
        path_at += length;
    }
    let tail = bytes.get(path_at..)?;
    let length = tail.iter().position(|byte| *byte == 0)?;
    path.extend_from_slice(tail.get(..length)?);
    // Before version 4 entries are filled up to a multiple of 8 bytes, from their own start.
    let end = path_at + length;
    let next = if version == 4 { end + 1 } else { (end / 8 + 1) * 8 };
    Some((Tracked { mode, path, overlooked }, bytes.get(next..)?))
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// A number in git's own form, and how many bytes it took.
fn offset(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (place, byte) in bytes.iter().enumerate().take(8) {
        if place > 0 {
            value = value.checked_add(1)?;
        }
        value = value.checked_shl(7)? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}

/// The digest of the shared index, from the extension `link` behind the entries.
fn shared(mut rest: &[u8], hash: usize) -> Option<Vec<u8>> {
    // The index ends with a digest of its own.
    while rest.len() > hash + 8 {
        let size = usize::try_from(number(rest.get(4..8)?)?).ok()?;
        let body = rest.get(8..8 + size)?;
        if rest.starts_with(b"link") {
            let digest = body.get(..hash)?;
            return digest.iter().any(|byte| *byte != 0).then(|| digest.to_vec());
        }
        rest = rest.get(8 + size..)?;
    }
    None
}
