//! `workspace_change`: a file under the workspace changed.

use super::evidence::{Content, Seen};
use super::{Evidence, Reason};
use std::collections::HashMap;

/// Compares each file's first known content with its last: a change that was reverted is none. A
/// write without digests counts as a change.
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
