//! What a run changed in all: purely, from the manifests of its start and of now.

use crate::tool::WriteScope;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use surety_common::domain::json::sha256_hex;
use surety_common::domain::manifest::{Aspect, Content, Entry, Manifest, changes};
use surety_common::domain::receipt::{EvidenceReceipt, EvidenceSource, Fact};

/// Paths that are listed; the rest is counted.
const MAX_LISTED: usize = 100;
/// Paths that checks made which are remembered; further ones count as the run's in a later round.
const MAX_MADE: usize = 2_000;
/// The names of the outputs by which the runner records what it found.
const CHANGED_PATH: &str = "changed_path";
const CHANGED_PATHS: &str = "changed_paths";
const MADE_BY_CHECK: &str = "made_by_check";
/// What stands for a path at which nothing is.
const NOTHING: &str = "-";

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

/// What is another than at the start, at the paths asked for, or at all that are not ignored. What the
/// checks' own commands made of a path that the run had left alone is not the run's, as long as it is
/// still that.
pub fn net_changes(
    base: &Manifest,
    now: &Manifest,
    asked: Option<&WriteScope>,
    receipts: &[EvidenceReceipt],
) -> NetChanges {
    let made = made(receipts);
    let mut net = NetChanges::default();
    for change in changes(base, now).filter(|change| change.is_of_content()) {
        let path = Path::new(OsStr::from_bytes(change.path()));
        let counts = match asked {
            Some(asked) => asked.allows(path),
            None => !change.is_ignored(),
        };
        let path = path.to_string_lossy();
        if !counts || made.get(path.as_ref()).is_some_and(|mark| *mark == mark_of(change.after)) {
            continue;
        }
        net.count += 1;
        if let Some(aspect) = change.aspect().filter(|_| net.listed.len() < MAX_LISTED) {
            net.listed.push((aspect, path.into_owned()));
        }
    }
    net
}

/// What commands wrote between two moments, at paths that until then were as at the start.
pub fn made_by_checks(base: &Manifest, before: &Manifest, after: &Manifest) -> Vec<Fact> {
    let changed = changes(before, after).filter(|change| {
        let untouched = match (base.get(change.path()), change.before) {
            (None, None) => true,
            (Some(base), Some(before)) => mark_of(Some(base)) == mark_of(Some(before)),
            (None, Some(_)) | (Some(_), None) => false,
        };
        untouched && change.is_of_content() && !change.is_ignored()
    });
    changed
        .take(MAX_MADE)
        .map(|change| {
            let path = String::from_utf8_lossy(change.path()).into_owned();
            let value = format!("{} {path}", mark_of(change.after));
            Fact::Output { key: MADE_BY_CHECK.to_owned(), value }
        })
        .collect()
}

/// What checks made, by path, the latest last.
fn made(receipts: &[EvidenceReceipt]) -> HashMap<&str, &str> {
    let own = receipts.iter().filter(|receipt| receipt.source == EvidenceSource::Probe);
    let facts = own.flat_map(|receipt| &receipt.facts);
    facts
        .filter_map(|fact| match fact {
            Fact::Output { key, value } if key == MADE_BY_CHECK => value.split_once(' '),
            Fact::FileWritten { .. }
            | Fact::FileObserved { .. }
            | Fact::Command { .. }
            | Fact::Content { .. }
            | Fact::Verification { .. }
            | Fact::Output { .. }
            | Fact::Tests { .. } => None,
        })
        .map(|(mark, path)| (path, mark))
        .collect()
}

/// Tells what is at a path from anything else that could be there.
fn mark_of(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else { return NOTHING.to_owned() };
    let content = match &entry.content {
        Content::File(digest) => hex::encode(digest.blake3),
        Content::Target(target) => hex::encode(target),
        Content::None | Content::Unreadable => format!("{:?} {}", entry.stamp, entry.size),
    };
    sha256_hex(format!("{:?} {} {content}", entry.kind, entry.is_executable()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use surety_common::domain::manifest::{FileDigest, Kind, Place, Stamp};

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

    fn probe(facts: Vec<Fact>) -> EvidenceReceipt {
        let text = r#"{"step_index": 0, "source": "probe", "success": true}"#;
        let value = surety_common::domain::json::parse(text).unwrap().value;
        let receipt = surety_common::domain::receipt::read_receipt(&value).unwrap();
        EvidenceReceipt { facts, ..receipt }
    }

    #[test]
    fn what_is_not_ignored_counts_or_what_is_asked_for() {
        let base = manifest(&[("a", 1), ("dist/x", 1)]);
        let now = manifest(&[("a", 2), ("dist/x", 2)]);
        assert_eq!(paths(&net_changes(&base, &now, None, &[])), ["a"]);
        let asked = WriteScope::new(&["dist/**".to_owned()]).unwrap();
        assert_eq!(paths(&net_changes(&base, &now, Some(&asked), &[])), ["dist/x"]);
        assert_eq!(net_changes(&base, &base, None, &[]), NetChanges::default());
    }

    #[test]
    fn what_checks_made_is_not_the_runs_until_the_run_changes_it() {
        let base = manifest(&[("a", 1), ("b", 1)]);
        let before = manifest(&[("a", 1), ("b", 2)]);
        let after = manifest(&[("a", 9), ("b", 9), ("log", 9)]);
        let receipts = [probe(made_by_checks(&base, &before, &after))];
        assert_eq!(receipts[0].facts.len(), 2, "the run had changed b before");
        assert_eq!(paths(&net_changes(&base, &after, None, &receipts)), ["b"]);
        let later = manifest(&[("a", 9), ("b", 9), ("log", 8)]);
        assert_eq!(paths(&net_changes(&base, &later, None, &receipts)), ["b", "log"]);
    }
}
