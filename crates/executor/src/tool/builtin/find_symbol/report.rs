//! What a call says: a line for each place, definitions first, then what was not parsed.

use super::answers::Answers;
use super::candidates::Candidates;
use super::question::{Question, Wanted};
use crate::tool::ToolOutcome;
use crate::tool::builtin::support::{count, unread_note};
use std::collections::BTreeMap;
use surety_common::domain::receipt::Fact;
use surety_symbols::{Reason, Role, Symbol};

/// The most files for which one search records content facts, as for `grep`.
const FACTS_LIMIT: usize = 100;

/// The files that are named for one reason.
const NAMED: usize = 10;

pub(super) fn outcome(
    question: &Question,
    candidates: &Candidates,
    answers: Answers,
) -> ToolOutcome {
    let summary = summary(question, candidates, &answers);
    let Answers { mut symbols, matched, not_parsed, .. } = answers;
    // Definitions are declared before uses.
    symbols.sort_by(|a, b| {
        (a.role, &a.path, a.line, a.column).cmp(&(b.role, &b.path, b.line, b.column))
    });
    symbols.truncate(question.limit);
    let mut output = String::new();
    for symbol in &symbols {
        output.push_str(&line(symbol));
    }
    let mut reasons: BTreeMap<Reason, Vec<&str>> = BTreeMap::new();
    for (path, reason) in candidates.not_parsed.iter().chain(&not_parsed) {
        reasons.entry(*reason).or_default().push(path);
    }
    for (reason, paths) in reasons {
        let named = paths.get(..NAMED).unwrap_or(&paths).join(", ");
        let more = match paths.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        output.push_str(&format!("files_not_parsed: {}: {named}{more}\n", reason.as_str()));
    }
    if candidates.others > 0 {
        output.push_str(&format!(
            "other_files_with_the_word: {}, such as {}; search them with grep\n",
            candidates.others,
            candidates.examples.join(", ")
        ));
    }
    // The executor's own search found the word in these files; the parser only says which of them to name.
    let facts = matched.into_iter().take(FACTS_LIMIT).map(|path| Fact::Content {
        path,
        contains: question.name.last.clone(),
        found: true,
    });
    ToolOutcome::done(summary, output.into_bytes(), facts.collect())
}

fn line(symbol: &Symbol) -> String {
    let Symbol { path, line, column, role, kind, container, text } = symbol;
    let role = match role {
        Role::Definition => "definition",
        Role::Use => "use",
    };
    let of = container.as_ref().map(|container| format!(" of {container}")).unwrap_or_default();
    format!("{path}:{line}:{column}: {role}, {kind}{of}: {text}\n")
}

fn summary(question: &Question, candidates: &Candidates, answers: &Answers) -> String {
    let Answers { definitions, uses, matched, not_parsed, .. } = answers;
    let mut summary = format!(
        "{} and {} in {}",
        count(*definitions, "definition"),
        count(*uses, "use"),
        count(matched.len() as u64, "file"),
    );
    let wanted = match question.wanted {
        Wanted::Definitions => *definitions,
        Wanted::Uses => *uses,
        Wanted::All => definitions.saturating_add(*uses),
    };
    if wanted > question.limit as u64 {
        summary.push_str(&format!("; {} are shown, narrow the path for others", question.limit));
    }
    if let Some(container) = question.name.container.as_ref().filter(|_| *uses > 0) {
        let last = &question.name.last;
        summary.push_str(&format!("; the uses are of any {last}, not only of {container}"));
    }
    let left_out = candidates.not_parsed.len() + not_parsed.len();
    if left_out > 0 {
        summary.push_str(&format!("; {} not parsed", count(left_out as u64, "file")));
    }
    if candidates.others > 0 {
        let others = count(candidates.others, "other file");
        summary.push_str(&format!("; {others} with the word, see grep"));
    }
    summary.push_str(&unread_note(candidates.unread));
    if wanted == 0 {
        summary.push_str(next(question, candidates, answers));
    }
    summary
}

/// What to try after a call without a result.
fn next(question: &Question, candidates: &Candidates, answers: &Answers) -> &'static str {
    if answers.definitions > 0 || answers.uses > 0 {
        "; try the role all"
    } else if question.name.container.is_some() && !candidates.files.is_empty() {
        "; try the name without its container"
    } else if !candidates.files.is_empty() {
        "; the word stands in comments or texts only: search it with grep"
    } else if candidates.others > 0 {
        "; no file of a parsed language has the word: search it with grep"
    } else {
        "; no file has the word: try grep with a part of it, or another path"
    }
}
