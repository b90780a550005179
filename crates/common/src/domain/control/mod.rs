//! What older prompts use instead of a decision: the control envelope, its markers, and the
//! completion signal. Also removes control JSON from a text.

mod kind;
mod marker;
mod visible;

pub use kind::{Control, ControlKind};
pub use visible::{completion, visible_text};

use crate::domain::json::{self, Value};
use crate::domain::problem::{Warning, WarningCode};
use crate::domain::reader::{self, Fields, Read};

/// Reads a control envelope. The whole text, or the body of its only fence, is one object with a
/// known `control` and no `action`. A decision outside the fence makes the fence void.
pub fn envelope(text: &str) -> Option<Read<Control>> {
    if !may_have_key(text, &["control"]) {
        return None;
    }
    let spoken = reader::strip_thinking(text).text.trim();
    if let Some(control) = envelope_in(spoken) {
        return Some(control);
    }
    let fences = reader::fences(spoken);
    let [only] = fences.as_slice() else {
        return None;
    };
    let control = envelope_in(only.body.trim())?;
    let around = [spoken.get(..only.start), spoken.get(only.end..)];
    let decides = around.into_iter().flatten().any(shows_decision);
    (!decides).then_some(control)
}

fn envelope_in(text: &str) -> Option<Read<Control>> {
    let parsed = json::parse(text).ok()?;
    let mut warnings = Vec::new();
    let names = ["control", "reason", "action"];
    let fields = Fields::fold(parsed.value.as_object()?, &names, &mut warnings);
    if fields.filled("action").is_some_and(|action| !is_blank(action)) {
        return None;
    }
    let kind = ControlKind::from_any_case(fields.get("control")?.as_str()?.trim())?;
    let reason = match fields.filled("reason") {
        Some(reason) => reason.as_str()?.trim(),
        None => "",
    };
    if parsed.duplicate_key {
        warnings.push(Warning::new(WarningCode::DuplicateKey));
    }
    Some(Read { value: Control { kind, reason: reason.to_owned(), legacy: false }, warnings })
}

/// Whether an object in a text may contain one of some keys; quickly false for most long texts. An
/// escaped text always may, because keys can be written with escapes.
fn may_have_key(text: &str, keys: &[&str]) -> bool {
    let lower = text.to_ascii_lowercase();
    text.contains("\\u") || keys.iter().any(|key| lower.contains(key))
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Reads a legacy marker: `STEP_DONE` or `REPLAN` alone on its line, or at the start of the text
/// before a colon. A text that contains a decision, even a broken one, has no markers, because they
/// may be part of an argument.
pub fn legacy_marker(text: &str) -> Option<Control> {
    let spoken = reader::strip_thinking(text).text.trim();
    let control = marker::find(spoken)?;
    (!shows_decision(spoken)).then_some(control)
}

/// Whether a text contains an object with a key of a decision, or a broken one with such a key in
/// quotes. Such a text is an attempt at a decision.
pub fn shows_decision(text: &str) -> bool {
    if !may_have_key(text, reader::DECISION_KEYS) {
        return false;
    }
    let spoken = reader::strip_thinking(text).text;
    reader::Scan::new(spoken, reader::DECISION_KEYS, usize::MAX).any(|find| match find.what {
        reader::What::Object { carries, .. } => carries,
        reader::What::Keyless | reader::What::Open { shields: false } => false,
        reader::What::Unreadable(_) | reader::What::Open { shields: true } => {
            shows_key(spoken.get(find.start..find.end).unwrap_or_default())
        }
    })
}

fn shows_key(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    reader::DECISION_KEYS
        .iter()
        .any(|key| ['"', '\''].iter().any(|quote| text.contains(&format!("{quote}{key}{quote}"))))
}

#[cfg(test)]
mod tests;
