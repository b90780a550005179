//! `workspace_change`: a file under the workspace changed.

use super::evidence::{Content, Seen};
use super::{AcceptCheck, Evidence, Reason};
use crate::domain::receipt::{EvidenceReceipt, EvidenceSource, Fact};
use crate::domain::scope::{glob_set, with_folders_and_root};
use std::collections::HashMap;

/// The name of the output by which the runner records that it compared the workspace with what it was
/// before the run; the paths that a check asks about follow it.
const OBSERVED: &str = "workspace_change";
/// The values of that output.
const CHANGED: &str = "changed";
const UNCHANGED: &str = "unchanged";
/// The globs of the paths that a check asks about, separated by commas; all that are not ignored when
/// not given.
pub const PATHS: &str = "paths";

/// The globs of the paths that a check asks about; none for all that are not ignored.
pub fn changed_paths(check: &AcceptCheck) -> Vec<String> {
    let paths = check.params.get(PATHS).map(String::as_str).unwrap_or_default();
    let mut depth = 0u32;
    let separates = |letter: char| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == '\n' || letter == ',' && depth == 0
    };
    paths
        .split(separates)
        .map(str::trim)
        .filter(|glob| !glob.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The fact by which the runner records what it found for a check that asks about these globs.
pub fn changed_fact(globs: &[String], changed: bool) -> Fact {
    let value = if changed { CHANGED } else { UNCHANGED };
    Fact::Output { key: key(globs), value: value.to_owned() }
}

fn key(globs: &[String]) -> String {
    if globs.is_empty() { OBSERVED.to_owned() } else { format!("{OBSERVED}:{}", globs.join(",")) }
}

/// The runner's last comparison of the workspace decides. Without one, each file's first known content
/// is compared with its last: a change that was reverted is none. A write without digests counts as a
/// change.
pub(super) fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let globs = changed_paths(check);
    let changed = match observed(evidence.receipts(), &key(&globs)) {
        Some(value) => value == CHANGED,
        None => is_written(evidence, &globs),
    };
    if changed { Ok(()) } else { Err(Reason::NoWorkspaceChange) }
}

fn observed<'a>(receipts: &'a [EvidenceReceipt], key: &str) -> Option<&'a str> {
    let own = receipts.iter().rev().filter(|receipt| receipt.source == EvidenceSource::Probe);
    own.flat_map(|receipt| receipt.facts.iter().rev()).find_map(|fact| match fact {
        Fact::Output { key: found, value } if found == key => Some(value.as_str()),
        Fact::FileWritten { .. }
        | Fact::FileObserved { .. }
        | Fact::Command { .. }
        | Fact::Content { .. }
        | Fact::Verification { .. }
        | Fact::Output { .. }
        | Fact::Tests { .. } => None,
    })
}

fn is_written(evidence: &Evidence<'_>, globs: &[String]) -> bool {
    let asked = match globs {
        [] => None,
        globs => match glob_set(&with_folders_and_root(globs)) {
            Ok(asked) => Some(asked),
            // A glob that does not read matches nothing.
            Err(_) => return false,
        },
    };
    let mut files: HashMap<&str, (Content<'_>, Content<'_>)> = HashMap::new();
    for file in evidence.files().iter().filter(|file| file.origin.proves) {
        let Seen::Written { write, .. } = file.seen else {
            continue;
        };
        if asked.as_ref().is_some_and(|asked| !asked.is_match(file.path.as_ref())) {
            continue;
        }
        let (Some(before), Some(after)) = (write.before(), write.after()) else {
            return true;
        };
        let (_, last) = files.entry(&file.path).or_insert((before, after));
        *last = after;
    }
    files.values().any(|(first, last)| first != last)
}
