//! How a place is shown: its column, and the text of its line.

use crate::message::TEXT_LIMIT;

/// The characters of a long line before the name.
const LEAD: usize = 80;

/// The bytes around a name in which its line is looked for: a line may be as long as a file.
const WINDOW: usize = 4 * TEXT_LIMIT;

/// What stands for a part that is left out.
const CUT: char = '…';

/// Counts columns in characters. Places come in ascending order, so that a long line is counted once.
#[derive(Debug, Default)]
pub(super) struct Columns {
    row: usize,
    byte: usize,
    characters: u64,
}

impl Columns {
    /// The column of a place, from 1. `column` is its distance to the start of the line in bytes.
    pub(super) fn of(&mut self, source: &str, row: usize, start: usize, column: usize) -> u64 {
        if self.row != row || self.byte > start {
            *self = Self { row, byte: start.saturating_sub(column), characters: 0 };
        }
        let between = source.get(self.byte..start).unwrap_or_default();
        self.characters += between.chars().count() as u64;
        self.byte = start;
        self.characters + 1
    }
}

/// The line around a name, without blanks around it, of a long one a part with the name.
pub(super) fn around(source: &str, start: usize, end: usize) -> String {
    let from = source.floor_char_boundary(start.saturating_sub(WINDOW));
    let until = source.ceil_char_boundary(end.saturating_add(WINDOW).min(source.len()));
    let lead = source.get(from..start).unwrap_or_default();
    let (lead, mut cut) = match lead.rsplit_once(['\n', '\r']) {
        Some((_, lead)) => (lead, false),
        None => (lead, from > 0),
    };
    let mut lead = lead.trim_start();
    let length = lead.chars().count();
    if length > LEAD {
        let left_out = lead.char_indices().nth(length - LEAD).map_or(0, |(index, _)| index);
        lead = lead.get(left_out..).unwrap_or_default();
        cut = true;
    }
    let rest = source.get(start..until).unwrap_or_default();
    let rest = rest.split(['\n', '\r']).next().unwrap_or_default().trim_end();
    let mut text = String::new();
    text.extend(cut.then_some(CUT));
    text.push_str(lead);
    text.push_str(rest);
    match text.char_indices().nth(TEXT_LIMIT - 1) {
        Some((last, character)) if last + character.len_utf8() < text.len() => {
            text.truncate(last);
            text.push(CUT);
            text
        }
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_without_blanks_and_a_long_one_around_its_name() {
        let shown = |source: &str| {
            let start = source.find("name").unwrap();
            around(source, start, start + 4)
        };
        assert_eq!(shown("a\n\t größe(name) \nb"), "größe(name)");
        assert_eq!(shown("name"), "name");
        let long = format!("{}name{}", "ä".repeat(5000), "ö".repeat(5000));
        let text = shown(&long);
        assert_eq!(text.chars().count(), TEXT_LIMIT);
        assert!(text.starts_with("…ä") && text.contains("änameö") && text.ends_with("ö…"));
        let exact = format!("name{}", "x".repeat(TEXT_LIMIT - 4));
        assert_eq!(shown(&exact), exact);
    }

    #[test]
    fn columns_are_counted_in_characters() {
        let source = "ä name name\nname";
        let mut columns = Columns::default();
        assert_eq!(columns.of(source, 0, 3, 3), 3);
        assert_eq!(columns.of(source, 0, 8, 8), 8);
        assert_eq!(columns.of(source, 1, 13, 0), 1);
    }
}
