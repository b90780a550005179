//! What a run changed in all: purely, from the manifests of its start and of now.

use crate::tool::WriteScope;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use surety_common::domain::manifest::{Aspect, Manifest, changes};
use surety_common::domain::receipt::Fact;

/// Paths that are listed; the rest is counted.
const MAX_LISTED: usize = 100;
/// The names of the outputs by which the runner records what it found.
const CHANGED_PATH: &str = "changed_path";
const CHANGED_PATHS: &str = "changed_paths";

/// What a run changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetChanges {
    /// The first of the paths, each with what changed.
    pub listed: Vec<(Aspect, String)>,
    /// How many there are in all.
    pub count: usize,
}

impl NetChanges {
    /// The paths and their number, for the record.
    pub fn facts(&self) -> Vec<Fact> {
        let output = |key: &str, value| Fact::Output { key: key.to_owned(), value };
        let listed = self.listed.iter().map(|(aspect, path)| {
            let word = match aspect {
                Aspect::Added => "added",
                Aspect::Removed => "removed",
                Aspect::Kind => "replaced",
                Aspect::Content => "changed",
                Aspect::Mode => "mode",
            };
            output(CHANGED_PATH, format!("{word} {path}"))
        });
        listed.chain([output(CHANGED_PATHS, self.count.to_string())]).collect()
    }
}

/// What is another than at the start, at the paths asked for, or at all that are not ignored. The commands of
/// checks write in views, so nothing of this is theirs.
pub fn net_changes(base: &Manifest, now: &Manifest, asked: Option<&WriteScope>) -> NetChanges {
    let mut net = NetChanges::default();
    for change in changes(base, now).filter(|change| change.is_of_content()) {
        let path = Path::new(OsStr::from_bytes(change.path()));
        let counts = match asked {
            Some(asked) => asked.allows(path),
            None => !change.is_ignored(),
        };
        let path = path.to_string_lossy();
        if !counts {
            continue;
        }
        net.count += 1;
        if let Some(aspect) = change.aspect().filter(|_| net.listed.len() < MAX_LISTED) {
            net.listed.push((aspect, path.into_owned()));
        }
    }
    net
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use surety_common::domain::manifest::{Content, Entry, FileDigest, Kind, Place, Stamp};

    fn manifest(files: &[(&str, u8)]) -> Manifest {
        let entry = |(path, content): &(&str, u8)| Entry {
            path: path.as_bytes().into(),
            kind: Kind::File,
            mode: 0o644,
            size: 1,
            ignored: path.starts_with("dist/"),
            stamp: Stamp::default(),
            content: Content::File(FileDigest { blake3: [*content; 32], sha256: None }),
        };
        Manifest::new(Place::default(), Arc::default(), files.iter().map(entry).collect())
    }

    fn paths(net: &NetChanges) -> Vec<&str> {
        net.listed.iter().map(|(_, path)| path.as_str()).collect()
    }

    #[test]
    fn what_is_not_ignored_counts_or_what_is_asked_for() {
        let base = manifest(&[("a", 1), ("dist/x", 1)]);
        let now = manifest(&[("a", 2), ("dist/x", 2)]);
        assert_eq!(paths(&net_changes(&base, &now, None)), ["a"]);
        let asked = WriteScope::new(&["dist/**".to_owned()]).unwrap();
        assert_eq!(paths(&net_changes(&base, &now, Some(&asked))), ["dist/x"]);
        assert_eq!(net_changes(&base, &base, None), NetChanges::default());
    }
}
