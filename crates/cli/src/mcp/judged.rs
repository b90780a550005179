//! What an agent reads of a round. Some clients give their model the text alone, and some the value alone: each has all
//! that the agent acts on.

use std::path::Path;

use serde_json::{Value, json};

use crate::contract::LastRound;
use crate::text::one_line;
use crate::verify::{VerdictFile, as_text};

/// What the agent does after a round.
pub(super) fn next_of(verdict: &VerdictFile, file: Option<&Path>) -> &'static str {
    match (file.is_some(), verdict.accepted) {
        (true, true) => "The verdict accepts the work.",
        (true, false) => {
            "The verdict refuses the work. Repair what failed, then call surety_verdict again."
        }
        (false, true) => "Every check holds now. Call surety_verdict for the verdict.",
        (false, false) => "Some checks fail. Repair them, then call surety_check again.",
    }
}

/// A round as text.
pub(super) fn judged_text(verdict: &VerdictFile, file: Option<&Path>) -> String {
    let written = file.map(|file| format!("\n  written  {}", one_line(&file.to_string_lossy())));
    let written = written.unwrap_or_default();
    format!("{}\n{}{written}", next_of(verdict, file), as_text(verdict))
}

/// An earlier round as text; `still` says whether the workspace is still what it saw, where that is known.
pub(super) fn said_again(round: &LastRound, still: Option<bool>) -> String {
    let tool = if round.file.is_some() { "surety_verdict" } else { "surety_check" };
    let since = match still {
        Some(true) => "the workspace is still what it saw",
        Some(false) => "the workspace changed since",
        None => "the workspace could not be compared with it",
    };
    format!("the last round ({tool}) ended at {}; {since}:\n{}", round.at, as_text(&round.verdict))
}

/// A round as a value, without what only a comparison needs.
pub(super) fn summary(verdict: &VerdictFile, file: Option<&Path>) -> Value {
    let failed: Vec<_> =
        verdict.results.iter().filter(|result| !result.passed && !result.optional).collect();
    let passed: Vec<_> = verdict.results.iter().filter(|it| it.passed).map(|it| &it.name).collect();
    let optional: Vec<_> =
        verdict.results.iter().filter(|result| !result.passed && result.optional).collect();
    json!({
        "accepted": verdict.accepted,
        "stop_reason": verdict.stop_reason,
        "needed": verdict.needed,
        "strength": verdict.strength,
        "digest": verdict.workspace.digest,
        "changed": verdict.changed,
        "prepared": verdict.prepared,
        "failed": failed,
        "failed_optional": optional,
        "passed": passed,
        "cautions": verdict.cautions,
        "approvals": verdict.approvals,
        "round": verdict.round,
        "verdict_file": file,
    })
}
