//! `file_exists`: the last fact about a path states that the file exists.

use super::evidence::{FileFact, Seen, Write};
use super::{AcceptCheck, Evidence, Reason};

pub(super) fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let path = evidence.target(check)?;
    let last = evidence.files().iter().rev().filter(|file| file.path == path).find_map(says_there);
    match last {
        Some(true) => Ok(()),
        Some(false) => Err(Reason::FileGone),
        None => Err(Reason::NoFileEvidence),
    }
}

/// Whether the fact states that the file exists; none when it states nothing about it, such as a
/// text that was not found.
fn says_there(file: &FileFact<'_>) -> Option<bool> {
    let there = match file.seen {
        Seen::Written { write, .. } => !matches!(write, Write::Deleted { .. }),
        Seen::Observed { exists } => exists,
        Seen::Content { found: true, .. } => true,
        Seen::Content { found: false, .. } => return None,
    };
    (file.origin.proves || !there).then_some(there)
}
