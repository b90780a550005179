//! The plain-text markers of the oldest prompts.

use super::{Control, ControlKind};

/// The first marker of a trimmed text.
pub(super) fn find(text: &str) -> Option<Control> {
    if let Some((kind, rest)) = strip_marker(text)
        && let Some(reason) = rest.trim_start_matches(is_space).strip_prefix([':', '：'])
    {
        return Some(legacy(kind, reason.trim().to_owned()));
    }
    let kind = text.lines().find_map(alone)?;
    // Those prompts gave the reason in the lines around the marker.
    let grounds: Vec<&str> = text.lines().filter(|line| alone(line).is_none()).collect();
    Some(legacy(kind, grounds.join("\n").trim().to_owned()))
}

fn legacy(kind: ControlKind, reason: String) -> Control {
    Control { kind, reason, legacy: true }
}

fn alone(line: &str) -> Option<ControlKind> {
    let (kind, rest) = strip_marker(line.trim())?;
    rest.is_empty().then_some(kind)
}

fn is_space(letter: char) -> bool {
    letter.is_whitespace() && letter != '\n'
}

/// Removes a marker, bare or in brackets, from the start of a text.
fn strip_marker(text: &str) -> Option<(ControlKind, &str)> {
    let Some(bracketed) = text.strip_prefix('【') else {
        return strip_word(text);
    };
    let (kind, rest) = strip_word(bracketed.trim_start_matches(is_space))?;
    let rest = rest.trim_start_matches(is_space).strip_prefix('】')?;
    Some((kind, rest))
}

fn strip_word(text: &str) -> Option<(ControlKind, &str)> {
    ControlKind::ALL.into_iter().find_map(|kind| {
        let (word, rest) = text.split_at_checked(kind.as_str().len())?;
        word.eq_ignore_ascii_case(kind.as_str()).then_some((kind, rest))
    })
}
