//! `content_contains`: the text was found in the file, and no later call wrote the file.

use super::evidence::Seen;
use super::{AcceptCheck, Evidence, Reason};

pub(super) fn evaluate(check: &AcceptCheck, evidence: &Evidence<'_>) -> Result<(), Reason> {
    let path = evidence.target(check)?;
    let needle = check.params.get("contains").ok_or(Reason::NoContentEvidence)?;
    let about = || evidence.files().iter().rev().filter(|file| file.path == path);
    let (last, found) = about()
        .find_map(|file| match file.seen {
            // A text found by a call that failed does not count as found.
            Seen::Content { contains, found } if contains == needle => {
                (file.origin.proves || !found).then_some((file.origin, found))
            }
            Seen::Content { .. } | Seen::Written { .. } | Seen::Observed { .. } => None,
        })
        .ok_or(Reason::NoContentEvidence)?;
    if !found {
        return Err(Reason::NoContentEvidence);
    }
    // Every write counts, even one without a change: reading again is cheap, and an older
    // observation is no proof.
    let stale = about()
        .take_while(|file| file.origin.at > last.at)
        .any(|file| matches!(file.seen, Seen::Written { .. }) && file.origin.call != last.call);
    if stale {
        return Err(Reason::StaleAfterWrite);
    }
    Ok(())
}
