//! What was taken of a run earlier, and is missing later: a run's rows are only added to, so the later state was rolled
//! back or its tail was deleted.
//!
//! ```text
//!   an earlier export       each of its rows, statements and anchors must be there
//!   verdicts of the run     `surety receipts export --verdicts`: each envelope must be there. The last line has their number
//!   an anchor               each verdict of the run that it names must be there
//! ```

use super::anchor::AnchorFile;
use super::envelope::{Envelope, instant, message_of, number, object, text};
use super::export::form_of;
use super::summary::{SUMMARY, SignedVerdict, TEST_RESULT};
use super::trust::{Service, TrustedKeys};
use crate::domain::json::{Value, parse_stored};
use chrono::{DateTime, Utc};
use std::borrow::Cow;
use std::collections::HashSet;

/// Names the form of a verdict file of `surety verify`, which is about a workspace.
const WORKSPACE_VERDICT: &str = "surety verdict 1";

/// The member of the last line of the verdicts of a run.
const VERDICTS_END: &str = "verdicts_end";

/// What the file `since` has of a run and its later export lacks. Both files must be of the same run. With keys, the
/// signatures of verdicts and, where an authority is among them, that of an anchor are checked; those of an earlier
/// export must have been checked before.
///
/// # Errors
/// The earlier file does not read, does not hold, or says nothing about the run; in words.
pub fn missing_since(
    later: &str,
    since: &str,
    keys: Option<&TrustedKeys>,
) -> Result<Vec<String>, String> {
    let first = |text: &str| {
        let line = text.split_terminator('\n').next()?;
        parse_stored(line).ok().map(|parsed| parsed.value)
    };
    let run_id = first(later).and_then(|line| run_of_export(&line));
    let run_id = run_id.ok_or("the later file is no signed export of a run")?;
    let Some(line) = first(since) else { return Err(unknown(since)) };
    if AnchorFile::is_begun_by(&line) {
        let authority = keys.and_then(TrustedKeys::time_authority);
        let anchor = AnchorFile::read(since, authority)?;
        return since_anchor(later, &run_id, anchor);
    }
    if line.get("payload").is_some() || line.get(VERDICTS_END).is_some() {
        return since_verdicts(later, &run_id, since, keys);
    }
    match run_of_export(&line) {
        Some(found) if found == run_id => {
            since_export((later, first(later).as_ref().and_then(form_of)), (since, form_of(&line)))
        }
        Some(found) => Err(format!("it is an export of the run {found}, not of {run_id}")),
        None => Err(unknown(since)),
    }
}

/// Whether a line of an export is a signed statement about a verdict.
pub fn is_about_a_verdict(line: &str) -> bool {
    let envelope = parse_stored(line).ok().and_then(|parsed| Envelope::read(&parsed.value).ok());
    let statement = envelope.and_then(|envelope| envelope.statement().ok());
    statement.is_some_and(|it| [SUMMARY, TEST_RESULT].contains(&it.predicate_type.as_str()))
}

/// The last line of the verdicts of a run, behind so many lines: without it, lines may be missing.
pub fn verdicts_end_line(run_id: &str, lines: usize) -> String {
    let end = object([("lines", number(lines)), ("run_id", text(run_id))]);
    object([(VERDICTS_END, end)]).to_canonical()
}

fn run_of_export(first: &Value) -> Option<String> {
    first.get("export")?.get("run_id")?.as_str().map(str::to_owned)
}

fn unknown(file: &str) -> String {
    let whole = parse_stored(file).ok().map(|parsed| parsed.value);
    let form = whole.as_ref().and_then(|value| value.get("form")).and_then(Value::as_str);
    if form == Some(WORKSPACE_VERDICT) {
        return "it is a verdict of `surety verify`, which names a workspace and no stored run: compare it with `surety \
                verify --still`"
            .to_owned();
    }
    "it is neither a signed export, nor verdicts of `surety receipts export --verdicts`, nor an anchor".to_owned()
}

fn gone(what: &str) -> String {
    format!("{what} is missing: the run was rolled back, cut or changed")
}

/// Forms that are read have the same lines, except where they count answers. Of an export of another form, only receipts and
/// statements about verdicts have.
fn since_export(
    (later, later_form): (&str, Option<&str>),
    (earlier, form): (&str, Option<&str>),
) -> Result<Vec<String>, String> {
    let is_read = form.is_some();
    let counts_alike = !is_read || form == later_form;
    let compared = |line| if counts_alike { Cow::Borrowed(line) } else { without_answers(line) };
    let has: HashSet<Cow<'_, str>> = later.split_terminator('\n').map(compared).collect();
    let (mut findings, mut is_whole) = (Vec::new(), false);
    for (number, line) in (1..).zip(earlier.split_terminator('\n')) {
        let read = parse_stored(line).map_err(|error| {
            format!("line {number} of the earlier file is not JSON, so it was changed: {error}")
        });
        let value = read?.value;
        if is_read && value.to_canonical() != line {
            return Err(format!(
                "line {number} of the earlier file is not in the canonical form, so it was changed"
            ));
        }
        let has_key = |key: &&str| value.get(key).is_some();
        is_whole = has_key(&"chain_end");
        let changes = ["export", "stored", "state", "chain_end"].iter().any(has_key);
        let is_compared = is_read || has_key(&"seq") || is_about_a_verdict(line);
        if !changes && is_compared && !has.contains(&compared(line)) {
            let what = what_is(&value);
            findings.push(gone(&format!("{what} (line {number} of the earlier file)")));
        }
    }
    match is_whole {
        true => Ok(findings),
        false => Err("the earlier file has no chain's end as its last line: it was cut".to_owned()),
    }
}

/// A line as the form that counts no answers has it: they stand in a proof, or in a row without a signature. The line of a
/// signed row is the one that was signed in every form.
fn without_answers(line: &str) -> Cow<'_, str> {
    let value = parse_stored(line).map(|parsed| parsed.value);
    let Ok(Value::Object(mut members)) = value else { return Cow::Borrowed(line) };
    for (name, of) in &mut members {
        let is_counted = name == "proof" || name == "commit" && of.get("state").is_none();
        if let Value::Object(of) = of
            && is_counted
        {
            of.retain(|(name, _)| name != "answers");
        }
    }
    Cow::Owned(Value::Object(members).to_canonical())
}

fn what_is(value: &Value) -> String {
    let number = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_number).unwrap_or_default().to_owned()
    };
    if let Some(commit) = value.get("commit") {
        return format!("journal row {}", number(commit, "sequence"));
    }
    if let Some(entry) = value.get("entry") {
        return format!("task entry {}", number(entry, "number"));
    }
    if value.get("anchor").is_some() {
        return "the anchor of a verdict".to_owned();
    }
    match value.get("seq") {
        Some(_) => format!("receipt {}", number(value, "seq")),
        None => "a signed statement".to_owned(),
    }
}

fn since_verdicts(
    later: &str,
    run_id: &str,
    verdicts: &str,
    keys: Option<&TrustedKeys>,
) -> Result<Vec<String>, String> {
    let has: HashSet<&str> = later.split_terminator('\n').collect();
    let mut findings = Vec::new();
    let mut last: Option<DateTime<Utc>> = None;
    if !verdicts.ends_with('\n') {
        return Err("it does not end with a line end: it was cut".to_owned());
    }
    let mut lines: Vec<&str> = verdicts.split_terminator('\n').collect();
    let is_end = |line: &&str| line.starts_with(&format!("{{\"{VERDICTS_END}\""));
    let end = lines.pop_if(|line| is_end(line)).unwrap_or_default();
    for (number, line) in (1..).zip(&lines) {
        let wrong = |why: String| format!("line {number}: {why}");
        let value =
            parse_stored(line).map_err(|error| wrong(format!("it is not JSON: {error}")))?;
        let envelope = Envelope::read(&value.value).map_err(wrong)?;
        if envelope.to_line() != *line {
            return Err(wrong("it is not in the canonical form".to_owned()));
        }
        let statement = envelope.statement().map_err(wrong)?;
        let named = match statement.predicate_type.as_str() {
            SUMMARY => {
                let (at, record) = SignedVerdict::of_summary(&statement)
                    .ok_or_else(|| wrong("the summary of a verdict does not read".to_owned()))?;
                last = Some(at);
                let (at, receipts) = (instant(at), record.receipts);
                format!("the verdict of {at} on {receipts} receipts")
            }
            TEST_RESULT => "the test result of a verdict".to_owned(),
            unknown => return Err(wrong(format!("the predicate {unknown:?} is unknown"))),
        };
        let uri = format!("urn:surety:run:{run_id}");
        let mut subjects = statement.subject.as_array().into_iter().flatten();
        if !subjects
            .any(|subject| subject.get("name").and_then(Value::as_str) == Some(uri.as_str()))
        {
            return Err(wrong(format!("it is about another run than {run_id}")));
        }
        if let Some(keys) = keys {
            let at =
                last.ok_or_else(|| wrong("a test result stands without its verdict".to_owned()))?;
            let signature = (envelope.key_id, &envelope.signature);
            let message = message_of(&envelope.payload);
            keys.check(signature, &[Service::Gate], at, &message).map_err(wrong)?;
        }
        if !has.contains(line) {
            findings.push(gone(&format!("{named} (line {number} of the file with verdicts)")));
        }
    }
    let expected = verdicts_end_line(run_id, lines.len());
    if end != expected {
        return Err(format!(
            "its last line is not {expected}: it was cut, or an earlier version wrote it, whose verdicts have no such line"
        ));
    }
    if lines.is_empty() {
        return Err(format!("it has no verdict of the run {run_id}, so it says nothing about it"));
    }
    Ok(findings)
}

fn since_anchor(later: &str, run_id: &str, anchor: AnchorFile) -> Result<Vec<String>, String> {
    let signatures: HashSet<String> = later
        .split_terminator('\n')
        .filter_map(|line| Envelope::read(&parse_stored(line).ok()?.value).ok())
        .map(|envelope| super::key::to_base64(&envelope.signature))
        .collect();
    let of_run = anchor.verdicts.iter().filter(|(run, _)| run == run_id);
    let of_run: Vec<_> = of_run.collect();
    if of_run.is_empty() {
        return Err(format!(
            "it anchors no verdict of the run {run_id}, so it says nothing about it"
        ));
    }
    let missing = of_run.into_iter().filter(|(_, signature)| !signatures.contains(signature));
    let at = instant(anchor.at);
    Ok(missing.map(|_| gone(&format!("a verdict that was anchored at {at}"))).collect())
}
