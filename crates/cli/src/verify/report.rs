//! A verdict file as text.

use std::collections::BTreeSet;

use crate::text::{harmless, one_line, strength};

use super::file::{Checked, PreparedBy, Probed, StartKind, Tests, VerdictFile};

/// Lines of output that are shown of a failed check.
const SHOWN: usize = 8;

/// The verdict for people, with what would make a failed check pass.
#[must_use]
pub fn as_text(file: &VerdictFile) -> String {
    let mut lines = vec![if file.accepted {
        "accepted".to_owned()
    } else {
        format!("refused: {}", one_line(&file.stop_reason))
    }];
    lines.push(format!("  strength {}", one_line(strength(&file.strength))));
    lines.push(format!("  digest   {}", one_line(&file.workspace.digest)));
    lines.push(format!("  round    {}{}", file.round, sandboxes(file)));
    lines.push(format!("  changed  {}", changed(file)));
    for caution in &file.cautions {
        let parts = [&caution.code, &caution.check, &caution.detail].map(|part| one_line(part));
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        lines.push(format!("  caution  {}", parts.join("  ")));
    }
    for approved in &file.approvals {
        lines.push(format!("  approved by {}", one_line(&approved.by)));
    }
    lines.extend(file.prepared.iter().flat_map(prepared));
    for result in &file.results {
        lines.extend(check(result));
    }
    if !file.needed.is_empty() {
        lines.push(format!("  {}", one_line(&file.needed)));
    }
    lines.join("\n")
}

/// The levels of the sandbox at which the commands of checks ran.
fn sandboxes(file: &VerdictFile) -> String {
    let probes = file.results.iter().filter_map(|result| result.probe.as_ref());
    let levels: BTreeSet<String> =
        probes.filter(|it| !it.sandbox.is_empty()).map(|it| one_line(&it.sandbox)).collect();
    let levels: Vec<String> = levels.into_iter().collect();
    if levels.is_empty() { String::new() } else { format!(", sandbox {}", levels.join(" and ")) }
}

fn changed(file: &VerdictFile) -> String {
    let since = match (&file.start.revision, &file.start.commit) {
        (Some(revision), Some(commit)) => {
            let short: String = commit.chars().take(12).collect();
            format!("since {} ({short})", one_line(revision))
        }
        _ if file.start.kind == StartKind::Opening => "since the contract was opened".to_owned(),
        _ => "since the command began".to_owned(),
    };
    match file.changed.count {
        0 => format!("nothing {since}"),
        1 => format!("1 path {since}"),
        count => format!("{count} paths {since}"),
    }
}

fn prepared(by: &PreparedBy) -> Vec<String> {
    let mark = if by.passed { "prepared" } else { "FAILED  prepare" };
    let mut lines = vec![format!("  {mark}  {}{}", one_line(&by.line), took(&by.probe))];
    if !by.passed {
        lines.extend(observed(&by.probe));
    }
    lines
}

/// How long a command took.
fn took(probe: &Probed) -> String {
    let Probed { duration_ms, .. } = probe;
    format!("  {}.{} s", duration_ms / 1000, duration_ms % 1000 / 100)
}

/// What was observed, with the last lines of the output.
fn observed(probe: &Probed) -> Vec<String> {
    let mut lines = vec![format!("          {}", one_line(&probe.summary))];
    let skipped = probe.last_lines.len().saturating_sub(SHOWN);
    let shown = probe.last_lines.iter().skip(skipped);
    lines.extend(shown.map(|line| format!("          | {}", harmless(line))));
    lines
}

/// The counts of a runner, as it reported them.
fn counted(tests: &Tests) -> String {
    let of = |number: u64, word: &str| (number > 0).then(|| format!(", {number} {word}"));
    let others = [of(tests.failed, "failed"), of(tests.skipped, "skipped")];
    let others: String = others.into_iter().flatten().collect();
    let word = if tests.ran == 1 { "test" } else { "tests" };
    format!("  {}: {} {word}{others}", one_line(&tests.runner), tests.ran)
}

fn check(result: &Checked) -> Vec<String> {
    let mark = if result.passed { "passed" } else { "FAILED" };
    let optional = if result.optional { " (optional)" } else { "" };
    let target = result.target.as_deref().filter(|target| !target.is_empty());
    let target = target.map(|target| format!("  {}", one_line(target)));
    let took = result.probe.as_ref().filter(|probe| !probe.sandbox.is_empty()).map(took);
    let head = [
        format!("  {mark}  {}{optional}", one_line(&result.name)),
        target.unwrap_or_default(),
        took.unwrap_or_default(),
        result.probe.iter().flat_map(|probe| &probe.tests).map(counted).collect(),
    ];
    let mut lines = vec![head.concat()];
    if result.passed {
        return lines;
    }
    lines.push(format!("          {}", one_line(&result.reason)));
    lines.extend(result.probe.iter().flat_map(observed));
    lines
}
