//! What a call came to, as a driver is shown it: what was done, the exit code, the facts, and of a long output
//! the first, the last and the telling lines. The whole output is stored, and the call's id is its handle.

use std::fmt::Write;
use surety_common::domain::journal::Output;
use surety_common::domain::receipt::{EvidenceReceipt, Fact};

/// An output up to this size is shown whole.
pub(crate) const WHOLE_BYTES: usize = 6 * 1024;
/// The lines that are shown of the beginning and of the end of a longer one.
const FIRST_LINES: usize = 20;
const LAST_LINES: usize = 30;
/// The telling lines that are shown between them.
const MATCHING_LINES: usize = 20;
/// The bytes that are shown of one line.
const LINE_BYTES: usize = 300;
/// The facts that are shown; the others are counted.
const FACTS: usize = 20;

/// What tells most in the output of a command, in lower case.
const TELLING: [&str; 10] = [
    "error",
    "fail",
    "panicked",
    "exception",
    "traceback",
    "assert",
    "warning",
    "not found",
    "undefined",
    "denied",
];

/// An observation, and whether it shows all of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The text.
    pub text: String,
    /// Whether a part of the output is left out.
    pub is_cut: bool,
}

/// The observation of a call. `text` is its output, where it is text.
pub fn observation(
    receipt: &EvidenceReceipt,
    output: Option<&Output>,
    text: Option<&str>,
) -> Shown {
    let outcome = if receipt.success { "succeeded" } else { "failed" };
    let mut lines = vec![format!("{} {outcome}: {}", receipt.name, receipt.summary)];
    lines.extend(facts(&receipt.facts));
    let Some(output) = output else {
        lines.push("output: none".to_owned());
        return Shown { text: lines.join("\n"), is_cut: false };
    };
    let Some(text) = text else {
        let Output { bytes, call_id, .. } = output;
        lines.push(format!("output: {bytes} bytes that are no text; handle {call_id}"));
        return Shown { text: lines.join("\n"), is_cut: true };
    };
    let count = text.lines().count();
    if text.len() <= WHOLE_BYTES {
        lines.push(format!("output: {count} lines, {} bytes, whole:", text.len()));
        lines.push(text.trim_end().to_owned());
        return Shown { text: lines.join("\n"), is_cut: false };
    }
    lines.push(format!(
        "output: {count} lines, {} bytes, shown in part; whole under the handle {}",
        text.len(),
        output.call_id
    ));
    lines.push(parts(text));
    Shown { text: lines.join("\n"), is_cut: true }
}

/// An older observation: one line.
pub fn placeholder(receipt: &EvidenceReceipt) -> String {
    let outcome = if receipt.success { "succeeded" } else { "failed" };
    let summary = shortened(&receipt.summary);
    format!(
        "[older observation of {}: {outcome}: {summary}; handle {}]",
        receipt.name, receipt.call_id
    )
}

/// A worker's report beside the calls of the driver, on one line.
pub fn report_line(receipt: &EvidenceReceipt) -> String {
    let outcome = if receipt.success { "success" } else { "failure" };
    let by = receipt.reporter().unwrap_or_default();
    format!("Report of {by} on {}: {outcome}: {}", receipt.name, shortened(&receipt.summary))
}

fn facts(facts: &[Fact]) -> Vec<String> {
    let mut lines: Vec<String> = facts.iter().take(FACTS).map(fact).collect();
    let more = facts.len().saturating_sub(FACTS);
    if more > 0 {
        lines.push(format!("and {more} facts more"));
    }
    lines
}

fn fact(fact: &Fact) -> String {
    match fact {
        Fact::FileWritten { path, before_digest, after_digest } => {
            match (before_digest, after_digest) {
                (Some(_), None) => format!("deleted: {path}"),
                (None, Some(_)) => format!("created: {path}"),
                (Some(before), Some(after)) if before == after => {
                    format!("written without a change: {path}")
                }
                (Some(_), Some(_)) | (None, None) => format!("changed: {path}"),
            }
        }
        Fact::FileObserved { path, exists: true } => format!("exists: {path}"),
        Fact::FileObserved { path, exists: false } => format!("does not exist: {path}"),
        Fact::Command { exit_code, .. } => format!("exit code: {exit_code}"),
        Fact::Content { path, found: true, .. } => format!("the text was found in {path}"),
        Fact::Content { path, found: false, .. } => format!("the text was not found in {path}"),
        Fact::Verification { tool, scope, passed } => {
            format!("{tool} {} for {scope}", if *passed { "passed" } else { "did not pass" })
        }
        Fact::Output { key, value } => format!("{key}: {}", shortened(value)),
        Fact::Tests { runner, counts } => format!("tests of {runner}: {counts:?}"),
    }
}

/// The first, the telling and the last lines of a long text, each with its number.
fn parts(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len().min(FIRST_LINES);
    let last = lines.len().saturating_sub(LAST_LINES).max(first);
    let mut shown = String::new();
    section(&mut shown, "first lines", numbered(&lines, 0, first));
    let tells = |(_, line): &(usize, &str)| {
        let line = line.to_lowercase();
        TELLING.iter().any(|word| line.contains(word))
    };
    let matching: Vec<(usize, &str)> =
        numbered(&lines, first, last).filter(tells).take(MATCHING_LINES + 1).collect();
    if !matching.is_empty() {
        let more = if matching.len() > MATCHING_LINES { ", the first of more" } else { "" };
        let title = format!("lines that name a problem{more}");
        section(&mut shown, &title, matching.into_iter().take(MATCHING_LINES));
    }
    section(&mut shown, "last lines", numbered(&lines, last, lines.len()));
    shown.trim_end().to_owned()
}

fn numbered<'a>(
    lines: &'a [&'a str],
    from: usize,
    until: usize,
) -> impl Iterator<Item = (usize, &'a str)> {
    let range = lines.iter().enumerate().skip(from).take(until.saturating_sub(from));
    range.map(|(index, line)| (index.saturating_add(1), *line))
}

fn section<'a>(shown: &mut String, title: &str, lines: impl Iterator<Item = (usize, &'a str)>) {
    // Writing to a String cannot fail, so there is no error to hand on.
    writeln!(shown, "-- {title}").unwrap_or_default();
    for (number, line) in lines {
        writeln!(shown, "{number}: {}", shortened(line)).unwrap_or_default();
    }
}

fn shortened(line: &str) -> String {
    if line.len() <= LINE_BYTES {
        return line.to_owned();
    }
    let end = line.floor_char_boundary(LINE_BYTES);
    format!("{}… ({} bytes)", line.get(..end).unwrap_or_default(), line.len())
}
