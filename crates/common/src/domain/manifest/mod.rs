//! The manifest of a workspace: what every path was at one moment.
//!
//! ```text
//!   walk (executor) --> Manifest --changes--> what differs between two moments
//!                          |----- digest ---> D, the digest of the whole workspace
//!                          +----- encode ---> the stored form, with the ignore rules of its moment
//! ```
//!
//! Paths are bytes, because a file name need not be UTF-8. Entries are sorted by path, so that two
//! manifests are compared in one pass.

mod codec;
mod difference;
mod digest;

#[cfg(test)]
mod tests;

pub use codec::{DecodeError, decode, encode};
pub use difference::{Aspect, Change, changes, retimed};
pub use digest::digest;

use std::sync::Arc;

/// What every path of a workspace was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The folder itself.
    pub place: Place,
    /// Which paths are ignored: the rules of the first manifest hold for all later ones.
    pub rules: Arc<IgnoreRules>,
    /// Sorted by path, each path once.
    entries: Vec<Entry>,
}

/// Which folder it was, as the operating system names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The boot in which the numbers below and the times of files hold; empty when not known.
    pub boot: String,
    /// The mount it lies on; 0 when not known.
    pub mount: u64,
    /// The device it lies on.
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
}

/// The text of ignore rules, so that a later reader judges paths in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IgnoreRules {
    /// Where the workspace lies in its git work tree; empty at the top, or without git.
    pub prefix: Vec<u8>,
    /// The rule files, the weakest first.
    pub sources: Vec<RuleSource>,
    /// Whether well-known names of build folders and caches count as ignored, because no rule file
    /// says anything.
    pub defaults: bool,
    /// Paths that git tracked and that the rules alone would ignore, or that were not there.
    /// Sorted, relative to the workspace.
    pub tracked: Vec<Vec<u8>>,
    /// Globs of ignored paths whose content counts all the same.
    pub counted: Vec<String>,
}

/// One file of ignore rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSource {
    /// The folder its patterns are relative to, from the top of the git work tree.
    pub base: Vec<u8>,
    /// The patterns, a line each.
    pub text: String,
}

/// What one path was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the workspace's root; any bytes but NUL, never empty.
    pub path: Box<[u8]>,
    /// What stood there.
    pub kind: Kind,
    /// The permission bits, 0..=0o7777.
    pub mode: u32,
    /// Bytes; 0 for what has no content.
    pub size: u64,
    /// Whether the rules ignore the path.
    pub ignored: bool,
    /// What the operating system says about it, to tell without reading whether it changed.
    pub stamp: Stamp,
    /// What was in it.
    pub content: Content,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, wherever it leads.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
}

/// Times and number of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// When its content was last written, nanoseconds since 1970.
    pub modified_ns: i64,
    /// When anything about it last changed, nanoseconds since 1970.
    pub changed_ns: i64,
    /// Its number on its device.
    pub inode: u64,
    /// Whether an equal stamp means an equal file. It does not where the file was written in the
    /// same tick of the clock in which it was read, nor on file systems without trustworthy times.
    pub steady: bool,
}

/// What was in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A regular file's digests.
    File(FileDigest),
    /// Where a link leads, as it is written there.
    Target(Box<[u8]>),
    /// It was not read: an ignored path, or a kind without content.
    None,
    /// The operating system did not let it be read.
    Unreadable,
}

/// The digests of a file's content.
#[derive(Debug, Clone, Copy)]
pub struct FileDigest {
    /// BLAKE3: the one that content is compared by.
    pub blake3: [u8; 32],
    /// SHA-256, as receipts name content; none in a manifest that was stored.
    pub sha256: Option<[u8; 32]>,
}

/// Content is compared by BLAKE3 alone: a stored manifest has no other digest.
impl PartialEq for FileDigest {
    fn eq(&self, other: &Self) -> bool {
        self.blake3 == other.blake3
    }
}

impl Eq for FileDigest {}

impl Manifest {
    /// A manifest of these entries, in any order.
    pub fn new(place: Place, rules: Arc<IgnoreRules>, mut entries: Vec<Entry>) -> Self {
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        Self { place, rules, entries }
    }

    /// Every path, sorted.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Those whose paths begin so, sorted.
    pub fn beginning(&self, with: &[u8]) -> &[Entry] {
        let from = self.entries.partition_point(|entry| entry.path.as_ref() < with);
        let behind = self.entries.get(from..).unwrap_or_default();
        let end = behind.partition_point(|entry| entry.path.starts_with(with));
        behind.get(..end).unwrap_or_default()
    }

    /// What was at a path.
    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.path.as_ref().cmp(path));
        found.ok().and_then(|index| self.entries.get(index))
    }
}

impl Kind {
    /// Every kind; the place of each is its stored number.
    pub const ALL: [Self; 7] = [
        Self::File,
        Self::Folder,
        Self::Link,
        Self::Pipe,
        Self::Socket,
        Self::CharacterDevice,
        Self::BlockDevice,
    ];
}

impl Entry {
    /// Whether its owner, group or all others may execute it: the part of the mode that git keeps.
    pub const fn is_executable(&self) -> bool {
        self.mode & 0o111 != 0
    }
}
