//! What a call wrote, as the difference of two manifests shows it: purely, from the manifests and the
//! write scopes.

use crate::tool::WriteScope;
use data_encoding::HEXLOWER;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::manifest::{Aspect, Change, Content, Entry, Kind, Manifest, changes};
use surety_common::domain::receipt::Fact;

/// Paths that are listed as facts; the rest is counted.
const MAX_FACTS: usize = 500;
/// Paths outside the write scope that are named.
const MAX_NAMED: usize = 5;
/// The name of the output that counts the paths that are not listed.
const NOT_LISTED: &str = "files_written_not_listed";

/// What a call wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// A `file_written` for each path, and the number of those that are not listed.
    pub facts: Vec<Fact>,
    /// The first paths that it had no right to write.
    pub outside: Vec<String>,
    /// How many these are in all.
    pub outside_count: usize,
}

impl Written {
    /// The changes between the manifests from before and after a call. Ignored paths are not
    /// attributed. A change outside the call's scope and inside one of `others`, the scopes of
    /// concurrent steps, belongs to that step.
    pub fn between(
        before: &Manifest,
        after: &Manifest,
        scope: &WriteScope,
        others: &[WriteScope],
    ) -> Self {
        let mut written = Self::default();
        let mut count = 0usize;
        for change in changes(before, after) {
            if change.is_ignored() || !change.is_of_content() {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(change.path()));
            let allowed = scope.allows(path);
            if !allowed && others.iter().any(|other| other.allows(path)) {
                continue;
            }
            if !allowed {
                written.outside_count += 1;
                if written.outside.len() < MAX_NAMED {
                    written.outside.push(path.to_string_lossy().into_owned());
                }
            }
            count += 1;
            if count <= MAX_FACTS {
                written.facts.push(fact(&change));
            }
        }
        if count > MAX_FACTS {
            let value = (count - MAX_FACTS).to_string();
            written.facts.push(Fact::Output { key: NOT_LISTED.to_owned(), value });
        }
        written
    }

    /// The paths outside the scope in words.
    pub fn outside_in_words(&self) -> String {
        let named = self.outside.join(", ");
        match self.outside_count - self.outside.len() {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

/// A change of permissions alone has no digests: what is written has the same content.
fn fact(change: &Change<'_>) -> Fact {
    let is_mode = change.aspect() == Some(Aspect::Mode);
    let digest = |entry: Option<&Entry>| entry.filter(|_| !is_mode).and_then(digest_of);
    Fact::FileWritten {
        path: String::from_utf8_lossy(change.path()).into_owned(),
        before_digest: digest(change.before),
        after_digest: digest(change.after),
    }
}

/// The digest by which a receipt names what is there; none for a folder.
fn digest_of(entry: &Entry) -> Option<String> {
    match (&entry.content, entry.kind) {
        (_, Kind::Folder) => None,
        (Content::File(digest), _) => {
            Some(HEXLOWER.encode(&digest.sha256.unwrap_or(digest.blake3)))
        }
        (Content::Target(target), _) => Some(sha256_hex(target)),
        // Never read, so it is told by all that is known of it.
        (Content::None | Content::Unreadable, kind) => {
            let known = format!("{kind:?} {} {:?}", entry.size, entry.stamp);
            Some(sha256_hex(known.as_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use surety_common::domain::manifest::{FileDigest, Place, Stamp};

    fn file(path: &str, content: u8) -> Entry {
        let digest = FileDigest { blake3: [content; 32], sha256: Some([content; 32]) };
        Entry {
            path: path.as_bytes().into(),
            kind: Kind::File,
            mode: 0o644,
            size: 1,
            ignored: path.starts_with("target/"),
            stamp: Stamp::default(),
            content: Content::File(digest),
        }
    }

    fn manifest(entries: Vec<Entry>) -> Manifest {
        Manifest::new(Place::default(), Arc::default(), entries)
    }

    fn scope(globs: &[&str]) -> WriteScope {
        WriteScope::new(&globs.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    fn digest(content: u8) -> Option<String> {
        Some(HEXLOWER.encode(&[content; 32]))
    }

    fn wrote(path: &str, before_digest: Option<String>, after_digest: Option<String>) -> Fact {
        Fact::FileWritten { path: path.to_owned(), before_digest, after_digest }
    }

    #[test]
    fn every_path_that_changed_is_a_fact_and_ignored_ones_are_none() {
        let executable = Entry { mode: 0o755, ..file("run", 1) };
        let folder = Entry { kind: Kind::Folder, content: Content::None, ..file("docs", 0) };
        let before = manifest(vec![file("a", 1), file("b", 1), file("run", 1), file("same", 1)]);
        let after = manifest(vec![
            file("b", 2),
            file("c", 3),
            executable,
            file("same", 1),
            file("target/x", 1),
            folder,
        ]);
        let written = Written::between(&before, &after, &WriteScope::whole(), &[]);
        let facts = vec![
            wrote("a", digest(1), None),
            wrote("b", digest(1), digest(2)),
            wrote("c", None, digest(3)),
            wrote("run", None, None),
        ];
        assert_eq!(written, Written { facts, outside: Vec::new(), outside_count: 0 });
    }

    #[test]
    fn a_path_outside_the_scope_is_told_unless_a_step_at_work_may_write_it() {
        let before = manifest(vec![]);
        let names = ["docs/a", "src/b", "x/1", "x/2", "x/3", "x/4", "x/5", "x/6", "target/y"];
        let after = manifest(names.iter().map(|name| file(name, 1)).collect());
        let written = Written::between(&before, &after, &scope(&["src/**"]), &[scope(&["docs/"])]);
        assert!(!written.facts.contains(&wrote("docs/a", None, digest(1))));
        assert!(written.facts.contains(&wrote("src/b", None, digest(1))));
        assert_eq!((written.facts.len(), written.outside_count), (7, 6));
        assert_eq!(written.outside_in_words(), "x/1, x/2, x/3, x/4, x/5 and 1 more");
    }

    #[test]
    fn of_many_paths_the_rest_is_counted() {
        let after = manifest((0..MAX_FACTS + 7).map(|n| file(&n.to_string(), 1)).collect());
        let written = Written::between(&manifest(vec![]), &after, &WriteScope::whole(), &[]);
        assert_eq!(written.facts.len(), MAX_FACTS + 1);
        let rest = Fact::Output { key: NOT_LISTED.to_owned(), value: "7".to_owned() };
        assert_eq!(written.facts.last(), Some(&rest));
    }
}
