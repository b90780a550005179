//! What changed in a workspace, as git's index takes it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use surety_common::domain::manifest::{Change, Content, Entry, Kind, Manifest, changes};

/// The name of no object, of the length of SHA-256; git reads as much as it needs of a removed path.
const REMOVED: &[u8] = b"0 0000000000000000000000000000000000000000";
/// What no path of a repository may be.
const GIT: &[u8] = b".git";

/// The changes between two commits of a workspace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    removed: Vec<Vec<u8>>,
    added: Vec<Added>,
}

/// A path that is in the next commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Added {
    path: Vec<u8>,
    mode: &'static str,
    /// Where a link leads; none for a file.
    pub(crate) target: Option<Vec<u8>>,
}

impl Changed {
    /// What differs between the files of a commit and those of the workspace now. Ignored paths, folders, pipes
    /// and the insides of repositories are no part of a commit.
    pub(crate) fn between(before: &Manifest, after: &Manifest) -> Self {
        let mut changed = Self::default();
        for change in changes(before, after).filter(Change::is_of_content) {
            match change.after.and_then(added) {
                Some(added) => changed.added.push(added),
                None if change.before.and_then(added).is_some() => {
                    changed.removed.push(change.path().to_vec());
                }
                None => {}
            }
        }
        changed
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// The paths that are in the next commit.
    pub(crate) fn added(&self) -> &[Added] {
        &self.added
    }

    /// Lines of quoted paths of the files whose objects are made: those of the workspace, and for each link a file
    /// with its target, by its number.
    pub(crate) fn paths(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (number, added) in self.added.iter().enumerate() {
            let path = match added.target {
                None => PathBuf::from("tree").join(OsStr::from_bytes(&added.path)),
                Some(_) => link_file(number),
            };
            quote(path.as_os_str().as_bytes(), &mut lines);
            lines.push(b'\n');
        }
        lines
    }

    /// What `git update-index -z --index-info` reads, with the objects in the order of [`Changed::paths`]; none when
    /// there is another number of them.
    pub(crate) fn entries(&self, objects: &str) -> Option<Vec<u8>> {
        let objects: Vec<&str> = objects.lines().collect();
        if objects.len() != self.added.len() {
            return None;
        }
        let mut entries = Vec::new();
        // Removed first: a folder may have come where a file was, and the other way round.
        for path in &self.removed {
            entries.extend([REMOVED, b"\t", path, b"\0"].concat());
        }
        for (added, object) in self.added.iter().zip(objects) {
            let head = format!("{} {object}\t", added.mode);
            entries.extend([head.as_bytes(), &added.path, b"\0"].concat());
        }
        Some(entries)
    }
}

/// The file with the target of a link.
pub(crate) fn link_file(number: usize) -> PathBuf {
    PathBuf::from(format!("links/{number}"))
}

fn added(entry: &Entry) -> Option<Added> {
    let inside = entry.path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(GIT));
    if entry.ignored || inside {
        return None;
    }
    let (mode, target) = match (entry.kind, &entry.content) {
        (Kind::File, _) if entry.is_executable() => ("100755", None),
        (Kind::File, _) => ("100644", None),
        (Kind::Link, Content::Target(target)) => ("120000", Some(target.to_vec())),
        (
            Kind::Link
            | Kind::Folder
            | Kind::Pipe
            | Kind::Socket
            | Kind::CharacterDevice
            | Kind::BlockDevice,
            _,
        ) => return None,
    };
    Some(Added { path: entry.path.to_vec(), mode, target })
}

/// A path in quotes as C writes it, which may hold any byte.
fn quote(path: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in path {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            0x20..=0x7e => out.push(*byte),
            byte => out.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use surety_common::domain::manifest::{FileDigest, IgnoreRules, Place, Stamp};

    fn entry(path: &[u8], kind: Kind, mode: u32, content: Content) -> Entry {
        let stamp = Stamp::default();
        Entry { path: path.into(), kind, mode, size: 1, ignored: false, stamp, content }
    }

    fn file(path: &[u8], mode: u32, digest: u8) -> Entry {
        let digest = FileDigest { blake3: [digest; 32], sha256: None };
        entry(path, Kind::File, mode, Content::File(digest))
    }

    fn manifest(entries: Vec<Entry>) -> Manifest {
        Manifest::new(Place::default(), Arc::new(IgnoreRules::default()), entries)
    }

    #[test]
    fn files_links_and_removals_are_what_a_commit_takes() {
        let before = manifest(vec![
            file(b"same", 0o644, 1),
            file(b"gone", 0o644, 1),
            file(b"run", 0o644, 1),
            file(b"only-mode", 0o644, 1),
        ]);
        let link = entry(b"link", Kind::Link, 0o777, Content::Target((*b"same").into()));
        let ignored = Entry { ignored: true, ..file(b"target/x", 0o644, 1) };
        let after = manifest(vec![
            file(b"same", 0o644, 1),
            file(b"run", 0o755, 1),
            file(b"only-mode", 0o600, 1),
            file(b"a\nb\"\xff", 0o644, 2),
            link,
            ignored,
            file(b"sub/.git/config", 0o644, 1),
            entry(b"pipe", Kind::Pipe, 0o644, Content::None),
            entry(b"folder", Kind::Folder, 0o755, Content::None),
        ]);
        let changed = Changed::between(&before, &after);
        assert_eq!(
            String::from_utf8(changed.paths()).unwrap(),
            "\"tree/a\\012b\\\"\\377\"\n\"links/1\"\n\"tree/run\"\n"
        );
        let entries = changed.entries("aa\nbb\ncc\n").unwrap();
        let expected: &[u8] = b"0 0000000000000000000000000000000000000000\tgone\0\
            100644 aa\ta\nb\"\xff\x00120000 bb\tlink\x00100755 cc\trun\0";
        assert_eq!(entries, expected);
        assert_eq!(changed.entries("aa\n"), None);
        assert!(Changed::between(&after, &after).is_empty());
    }
}
