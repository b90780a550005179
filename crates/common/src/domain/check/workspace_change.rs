//! `workspace_change`: the workspace is another than it was.

use super::evidence::{Content, Seen};
use super::{Evidence, Reason};
use std::collections::HashMap;

/// Compares each file's first known content with its last: what was written and put back again is
/// no change. A write that nobody looked at is one.
pub(super) fn evaluate(evidence: &Evidence<'_>) -> Result<(), Reason> {
    let mut files: HashMap<&str, (Content<'_>, Content<'_>)> = HashMap::new();
    for file in evidence.files().iter().filter(|file| file.origin.proves) {
        let Seen::Written { write, .. } = file.seen else {
            continue;
        };
        let (Some(before), Some(after)) = (write.before(), write.after()) else {
            return Ok(());
        };
        let (_, last) = files.entry(&file.path).or_insert((before, after));
        *last = after;
    }
    if files.values().any(|(first, last)| first != last) {
        return Ok(());
    }
    Err(Reason::NoWorkspaceChange)
}
