//! What differs between two manifests.

use super::{Content, Entry, Kind, Manifest};
use std::cmp::Ordering;
use std::iter::Peekable;
use std::slice::Iter;

/// One path that is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// What was there; none when nothing was.
    pub before: Option<&'a Entry>,
    /// What is there; none when nothing is.
    pub after: Option<&'a Entry>,
}

/// What about a path changed, the gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aspect {
    /// Nothing was there.
    Added,
    /// Nothing is there any more.
    Removed,
    /// Another kind of thing is there.
    Kind,
    /// Its content.
    Content,
    /// Its permissions only.
    Mode,
}

impl<'a> Change<'a> {
    /// The path; empty for a change that holds no entry, which [`changes`] never gives.
    pub fn path(&self) -> &'a [u8] {
        self.after.or(self.before).map_or(&[], |entry| &entry.path)
    }

    /// What changed; none when both sides are the same.
    pub fn aspect(&self) -> Option<Aspect> {
        match (self.before, self.after) {
            (None, None) => None,
            (None, Some(_)) => Some(Aspect::Added),
            (Some(_), None) => Some(Aspect::Removed),
            (Some(before), Some(after)) => aspect(before, after),
        }
    }

    /// Whether the path is ignored.
    pub fn is_ignored(&self) -> bool {
        self.after.or(self.before).is_some_and(|entry| entry.ignored)
    }

    /// Whether a version control system would show it: a file, a link or a special file that came,
    /// went, or has another kind, content or executable bit. Folders are there for what is in them.
    pub fn is_of_content(&self) -> bool {
        let tangible = |entry: &&Entry| entry.kind != Kind::Folder;
        let before = self.before.filter(tangible);
        let after = self.after.filter(tangible);
        match (before, after) {
            (None, None) => false,
            (None, Some(_)) | (Some(_), None) => true,
            (Some(before), Some(after)) => match aspect(before, after) {
                Some(Aspect::Mode) => before.is_executable() != after.is_executable(),
                Some(Aspect::Added | Aspect::Removed | Aspect::Kind | Aspect::Content) => true,
                None => false,
            },
        }
    }
}

fn aspect(before: &Entry, after: &Entry) -> Option<Aspect> {
    if before.kind != after.kind {
        return Some(Aspect::Kind);
    }
    if before.kind != Kind::Folder && !same_content(before, after) {
        return Some(Aspect::Content);
    }
    if before.kind != Kind::Link && before.mode != after.mode {
        return Some(Aspect::Mode);
    }
    None
}

/// What was read is compared by what was read; what was not, by what the operating system says.
fn same_content(before: &Entry, after: &Entry) -> bool {
    match (&before.content, &after.content) {
        (Content::File(before), Content::File(after)) => before == after,
        (Content::Target(before), Content::Target(after)) => before == after,
        (Content::None, Content::None) if before.kind != Kind::File => true,
        (Content::None | Content::Unreadable, Content::None | Content::Unreadable) => {
            let known = |entry: &Entry| {
                (entry.size, entry.stamp.modified_ns, entry.stamp.changed_ns, entry.stamp.inode)
            };
            known(before) == known(after)
        }
        (Content::File(_) | Content::Target(_) | Content::None | Content::Unreadable, _) => false,
    }
}

/// Every path that differs, sorted.
pub fn changes<'a>(
    before: &'a Manifest,
    after: &'a Manifest,
) -> impl Iterator<Item = Change<'a>> + use<'a> {
    let paired =
        Paired { before: before.entries.iter().peekable(), after: after.entries.iter().peekable() };
    paired.filter(|change| change.aspect().is_some())
}

/// Files and folders that are what they were and have another time of their last write, as they were before and are
/// after, sorted by path. Ignored ones are left out.
pub fn retimed<'a>(
    before: &'a Manifest,
    after: &'a Manifest,
) -> impl Iterator<Item = (&'a Entry, &'a Entry)> + use<'a> {
    let paired =
        Paired { before: before.entries.iter().peekable(), after: after.entries.iter().peekable() };
    paired.filter_map(|Change { before, after }| {
        let (before, after) = (before?, after?);
        let is_one = before.stamp.modified_ns != after.stamp.modified_ns
            && matches!(before.kind, Kind::File | Kind::Folder)
            && !before.ignored
            && aspect(before, after).is_none();
        is_one.then_some((before, after))
    })
}

/// The entries of both, those of one path together.
struct Paired<'a> {
    before: Peekable<Iter<'a, Entry>>,
    after: Peekable<Iter<'a, Entry>>,
}

impl<'a> Iterator for Paired<'a> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        let order = match (self.before.peek(), self.after.peek()) {
            (Some(before), Some(after)) => before.path.cmp(&after.path),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        Some(match order {
            Ordering::Less => Change { before: self.before.next(), after: None },
            Ordering::Greater => Change { before: None, after: self.after.next() },
            Ordering::Equal => Change { before: self.before.next(), after: self.after.next() },
        })
    }
}
