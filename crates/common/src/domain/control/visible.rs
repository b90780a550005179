//! The completion signal, and the text that is shown to a user.

use super::{ControlKind, may_have_key};
use crate::domain::decision::Action;
use crate::domain::json::Value;
use crate::domain::problem::Warning;
use crate::domain::reader::{self, Fields, Find, Object, Scan, What};
use std::ops::Range;

/// The keys that make an object control JSON, depending on their values.
const CONTROL_KEYS: &[&str] = &["action", "control", "task_completion"];

/// The keys below which no signal is searched, because the arguments of a refused decision may
/// contain anything.
const SIGNAL_KEYS: &[&str] =
    &["task_completion", "action", "speak", "reason", "goal_check", "tool_call", "abort"];

/// The final text of a reply that contains `{"task_completion": {"completed": true}}`. None when it
/// does not, or when it contains an action, which must be read or refused as a decision.
pub fn completion(text: &str) -> Option<String> {
    if !may_have_key(text, &["task_completion"]) {
        return None;
    }
    let spoken = reader::strip_thinking(text).text;
    let mut signalled = false;
    for find in Scan::new(spoken, SIGNAL_KEYS, reader::MAX_BRACES) {
        let Some(value) = whole(find.what) else {
            continue;
        };
        let fields = fold(&value);
        if fields.filled("action").is_some() {
            return None;
        }
        signalled |= fields
            .get("task_completion")
            .and_then(Value::as_object)
            .map(|members| Fields::fold(members, &["completed"], &mut Vec::new()))
            .and_then(|signal| signal.get("completed"))
            .and_then(Value::as_bool)
            .unwrap_or_default();
    }
    signalled.then(|| visible_text(spoken))
}

/// A text without its control JSON, trimmed. It removes every top-level object with a known action,
/// a known control value or a `task_completion`, and a fence that holds nothing else than such objects.
pub fn visible_text(text: &str) -> String {
    if !may_have_key(text, CONTROL_KEYS) {
        return text.trim().to_owned();
    }
    let found = Scan::new(text, CONTROL_KEYS, usize::MAX).filter(|find| !find.nested);
    let range = |Find { what, start, end, .. }| {
        whole(what).is_some_and(|value| is_control(&value)).then_some(start..end)
    };
    let found: Vec<Range<usize>> = found.filter_map(range).collect();
    let mut out = String::new();
    let mut kept_to = 0;
    for range in with_fences(text, &found) {
        out.push_str(text.get(kept_to..range.start).unwrap_or_default());
        kept_to = range.end;
    }
    out.push_str(text.get(kept_to..).unwrap_or_default());
    out.trim().to_owned()
}

fn whole(what: What) -> Option<Value> {
    match what {
        What::Object { read: Object::Whole(parsed), carries: true } => Some(parsed.value),
        What::Object { .. } | What::Keyless | What::Unreadable(_) | What::Open { .. } => None,
    }
}

fn fold(value: &Value) -> Fields<'_> {
    let mut unsaid: Vec<Warning> = Vec::new();
    Fields::fold(value.as_object().unwrap_or_default(), CONTROL_KEYS, &mut unsaid)
}

fn is_control(value: &Value) -> bool {
    let fields = fold(value);
    let word = |key| fields.get(key).and_then(Value::as_str).map(str::trim);
    fields.get("task_completion").is_some()
        || word("action").and_then(Action::from_any_case).is_some()
        || word("control").and_then(ControlKind::from_any_case).is_some()
}

/// Extends ranges to the fences around them that contain nothing else.
fn with_fences(text: &str, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let fences = if ranges.is_empty() { Vec::new() } else { reader::fences(text) };
    let (mut extended, mut rest) = (Vec::new(), ranges);
    for fence in fences {
        let (before, behind) = split_at(rest, fence.start);
        let (inside, after) = split_at(behind, fence.end);
        extended.extend_from_slice(before);
        if are_all_of(text, fence.body, inside) {
            extended.push(fence.start..fence.end);
        } else {
            extended.extend_from_slice(inside);
        }
        rest = after;
    }
    extended.extend_from_slice(rest);
    extended
}

/// The ranges that begin before a byte, and the others.
fn split_at(ranges: &[Range<usize>], byte: usize) -> (&[Range<usize>], &[Range<usize>]) {
    ranges.split_at(ranges.partition_point(|range| range.start < byte))
}

/// Whether the body of a fence is these ranges, and blanks.
fn are_all_of(text: &str, body: &str, ranges: &[Range<usize>]) -> bool {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return false };
    let mut gaps = ranges.iter().zip(ranges.iter().skip(1)).map(|(one, next)| one.end..next.start);
    gaps.all(|gap| text.get(gap).is_some_and(|it| it.trim().is_empty()))
        && text.get(first.start..last.end) == Some(body.trim())
}
