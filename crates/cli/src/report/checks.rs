//! The probes of a verdict's round as text: for each check the line that was run, under what, how long,
//! how it ended, and its last lines.

use surety_common::domain::verification::WORKSPACE_CHECK;
use surety_common::wire::v1;
use surety_common::wire::v1::event::Kind;

use super::Journal;
use crate::lines::fact_line;
use crate::text::{between, harmless, one_line, shortened};

/// The most facts of a probe that are shown: a canary has many.
const MOST_FACTS: usize = 12;
/// The last lines of an output that are shown.
const LAST_LINES: usize = 5;
/// The most characters of one of them.
const LONGEST_LINE: usize = 120;

/// The probes of one round, in their order; empty where the steps' receipts decided.
pub(super) fn probes(journal: &Journal<'_>, round: u32) -> String {
    let of_round = |event: &v1::Event| match &event.kind {
        Some(Kind::Receipt(receipt))
            if round > 0
                && receipt.round == round
                && receipt.step_id.is_empty()
                && !(receipt.success && receipt.check_id == WORKSPACE_CHECK) =>
        {
            Some(probe(journal, receipt))
        }
        Some(_) | None => None,
    };
    journal.0.iter().filter_map(of_round).collect::<Vec<_>>().join("\n")
}

fn probe(journal: &Journal<'_>, receipt: &v1::EvidenceReceipt) -> String {
    let took = between(receipt.started_at.as_ref(), receipt.finished_at.as_ref());
    let mut head = format!("{}  {took}", one_line(&receipt.check_id));
    if !receipt.sandbox.is_empty() {
        head.push_str(&format!(", sandbox {}", one_line(&receipt.sandbox)));
    }
    if let Some(place) = place(receipt.inputs()) {
        head.push_str(&format!(", in {place}"));
    }
    let mut lines = vec![head];
    if receipt.facts.is_empty() {
        lines.push(format!("    {}", shortened(&receipt.summary, LONGEST_LINE)));
    }
    lines.extend(
        receipt.facts.iter().take(MOST_FACTS).map(|fact| format!("    {}", fact_line(fact))),
    );
    if let Some(more) = receipt.facts.len().checked_sub(MOST_FACTS).filter(|more| *more > 0) {
        lines.push(format!("    and {more} more; `surety receipts export` has all"));
    }
    // The output of that one is for programs.
    if receipt.check_id != WORKSPACE_CHECK {
        lines.extend(last_lines(journal, &receipt.call_id));
    }
    lines.join("\n")
}

/// The workspace that a command ran in; none where it ran none.
const fn place(inputs: v1::ProbeInputs) -> Option<&'static str> {
    match inputs {
        v1::ProbeInputs::Unspecified => None,
        v1::ProbeInputs::Original => Some("the workspace with the original check inputs"),
        v1::ProbeInputs::OriginalWithIgnored => {
            Some("the workspace with the original check inputs and the ignored files of steps")
        }
        v1::ProbeInputs::AsLeft => Some("the workspace as the steps left it"),
        v1::ProbeInputs::Canary => Some("the workspace with failing tests"),
        v1::ProbeInputs::CanaryAtStart => Some("the workspace of the start with failing tests"),
        v1::ProbeInputs::TestsAtStart | v1::ProbeInputs::AtStart => {
            Some("the workspace of the start")
        }
    }
}

fn last_lines(journal: &Journal<'_>, call_id: &str) -> Vec<String> {
    let output = journal.0.iter().rev().find_map(|event| match &event.kind {
        Some(Kind::Output(output)) if output.call_id == call_id => output.text.as_deref(),
        Some(_) | None => None,
    });
    let text = harmless(output.unwrap_or_default());
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let last = lines.get(from..).unwrap_or_default();
    last.iter().map(|line| format!("    | {}", shortened(line, LONGEST_LINE))).collect()
}
