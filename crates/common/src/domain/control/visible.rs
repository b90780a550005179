//! The completion signal, and the text that is shown to a user.

use super::{ControlKind, may_have_key};
use crate::domain::decision::Action;
use crate::domain::json::Value;
use crate::domain::problem::Warning;
use crate::domain::reader::{self, Fence, Fields, Object, Scan, What};

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
/// a known control value or a `task_completion`, and a fence that holds nothing else.
pub fn visible_text(text: &str) -> String {
    if !may_have_key(text, CONTROL_KEYS) {
        return text.trim().to_owned();
    }
    let mut fences = None;
    let mut out = String::new();
    let mut kept_to = 0;
    for find in Scan::new(text, CONTROL_KEYS, usize::MAX) {
        if find.nested || !whole(find.what).is_some_and(|value| is_control(&value)) {
            continue;
        }
        let fences = fences.get_or_insert_with(|| reader::fences(text));
        let (start, end) = with_fence(text, fences, find.start, find.end);
        out.push_str(text.get(kept_to..start).unwrap_or_default());
        kept_to = end;
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

/// Extends a range to the fence around it, when the fence contains nothing else.
fn with_fence(text: &str, fences: &[Fence<'_>], start: usize, end: usize) -> (usize, usize) {
    let after = fences.partition_point(|fence| fence.end <= start);
    match fences.get(after) {
        Some(fence) if fence.start < start && Some(fence.body.trim()) == text.get(start..end) => {
            (fence.start, fence.end)
        }
        Some(_) | None => (start, end),
    }
}
