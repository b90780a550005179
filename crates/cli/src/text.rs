//! Text for people: names, times and durations, with control characters escaped.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};
use crossterm::terminal::size;
use prost_types::Timestamp;
use surety_common::wire::v1;
use unicode_width::UnicodeWidthStr;

/// A run or a plan may contain control characters, which a terminal would obey: they are escaped.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        if letter.is_control() && letter != '\n' && letter != '\t' || is_reordering(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// As [`harmless`], on one line.
#[must_use]
pub fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    harmless(&words.join(" "))
}

/// As [`one_line`], with at most this many characters.
#[must_use]
pub fn shortened(text: &str, letters: usize) -> String {
    let line = one_line(text);
    if line.chars().count() <= letters {
        return line;
    }
    let kept: String = line.chars().take(letters.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Characters that make a terminal reorder text.
const fn is_reordering(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The time; none when the message has none, or an invalid one.
#[must_use]
pub fn moment(at: Option<&Timestamp>) -> Option<DateTime<Utc>> {
    let at = at?;
    DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?)
}

/// Day and time, UTC.
#[must_use]
pub fn day_and_time(at: Option<&Timestamp>) -> String {
    moment(at).map_or_else(|| "-".to_owned(), |at| at.format("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// The time of day, UTC, to the millisecond.
#[must_use]
pub fn time_of_day(at: Option<&Timestamp>) -> String {
    moment(at).map_or_else(|| "-".to_owned(), |at| at.format("%H:%M:%S%.3fZ").to_string())
}

/// The duration between two times; a dash when either is unknown.
#[must_use]
pub fn between(from: Option<&Timestamp>, to: Option<&Timestamp>) -> String {
    match (moment(from), moment(to)) {
        (Some(from), Some(to)) => elapsed(to - from),
        (None, _) | (_, None) => "-".to_owned(),
    }
}

/// A duration for people: `0.8 s`, `12 s`, `3 min 05 s`, `2 h 10 min`.
#[must_use]
pub fn elapsed(time: TimeDelta) -> String {
    let time = time.to_std().unwrap_or(Duration::ZERO);
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{}.{} s", seconds, time.subsec_millis() / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// `1 turn`, `2 turns`.
#[must_use]
pub fn count(number: impl Into<u64>, noun: &str) -> String {
    let number = number.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A correction of a reader.
#[must_use]
pub fn warning_line(warning: &v1::Warning) -> String {
    let v1::Warning { code, field, message } = warning;
    let place = field.as_deref().map(|field| format!(" at {field}")).unwrap_or_default();
    one_line(&format!("warning[{code}]{place}: {message}"))
}

/// The longest word that a column beside the first one keeps whole at any width: an id is not longer.
const LONGEST_WORD: usize = 36;
/// A text that is longer than a day and a time is not wrapped to less than this: a word a line reads worse than a long line.
const NARROWEST_TEXT: usize = 16;
/// The length of a day and a time, which may stand below each other.
const DAY_AND_TIME: usize = 20;
/// The spaces between two columns.
const GAP: u16 = 2;

/// Rows in columns without borders, as wide as the terminal or as needed.
#[must_use]
pub fn columns(header: &[&str], rows: Vec<Vec<String>>) -> String {
    columns_in(terminal_width(), header, rows)
}

/// The width of the terminal that shows the output; none where it is no terminal, or one that does not say.
fn terminal_width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    size().ok().map(|(width, _)| usize::from(width)).filter(|width| *width > 0)
}

fn columns_in(width: Option<usize>, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let widths = width.and_then(|width| fitted(width, header, &rows));
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    if let Some(widths) = widths {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
        for (column, width) in table.column_iter_mut().zip(widths) {
            let width = u16::try_from(width).unwrap_or(u16::MAX).saturating_add(GAP);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        // Writing to a String cannot fail, so there is no error to return.
        writeln!(text, "{}", line.trim_end()).unwrap_or_default();
    }
    text.trim_end().to_owned()
}

/// The widths of the columns where the table is wider than the terminal and fits when texts are wrapped between words. The
/// first column names the row and is never wrapped. None where rows have one line: they fit so, or no width keeps the
/// words whole and the texts readable, and then the terminal itself wraps the lines, from which ids can be copied.
fn fitted(width: usize, header: &[&str], rows: &[Vec<String>]) -> Option<Vec<usize>> {
    let count = rows.iter().map(Vec::len).chain([header.len()]).max()?;
    let mut widths = vec![0; count];
    let mut least = vec![0; count];
    let rows = rows.iter().map(|row| row.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows.chain([header.to_vec()]) {
        for ((cell, widest), least) in row.into_iter().zip(&mut widths).zip(&mut least) {
            let longest = |parts: &mut dyn Iterator<Item = &str>| parts.map(str::width).max();
            let line = longest(&mut cell.lines()).unwrap_or_default();
            let word = longest(&mut cell.split_whitespace()).unwrap_or_default();
            *widest = line.max(*widest);
            *least = word.min(LONGEST_WORD).max(*least);
        }
    }
    for (width, least) in widths.iter().zip(&mut least).filter(|(width, _)| **width > DAY_AND_TIME)
    {
        *least = NARROWEST_TEXT.min(*width).max(*least);
    }
    *least.first_mut()? = widths.first().copied()?;
    let room = width.checked_sub(usize::from(GAP) * (count - 1))?;
    if widths.iter().sum::<usize>() <= room || least.iter().sum::<usize>() > room {
        return None;
    }
    widths.iter_mut().zip(&least).for_each(|(width, least)| *width = room.min(*width).max(*least));
    while widths.iter().sum::<usize>() > room {
        let wider = widths.iter_mut().zip(&least).filter(|(width, least)| **width > **least);
        // There is one, because the least widths fit.
        let (widest, _) = wider.max_by_key(|(width, _)| **width)?;
        *widest -= 1;
    }
    Some(widths)
}

/// What a verdict rests on, by its name in the contract, with what the name means.
#[must_use]
pub fn strength(name: &str) -> &str {
    match name {
        "self_checked" => "self_checked: no check counts as independent evidence",
        name => name,
    }
}

/// The contract's name of a run's state.
#[must_use]
pub fn run_state(state: v1::RunState) -> &'static str {
    word(state.as_str_name(), "RUN_STATE_")
}

/// The contract's name of a step's state.
#[must_use]
pub fn step_state(state: v1::StepState) -> String {
    word(state.as_str_name(), "STEP_STATE_").to_ascii_lowercase()
}

/// The contract's name of a stop reason.
#[must_use]
pub fn stop_reason(reason: v1::StopReason) -> String {
    word(reason.as_str_name(), "STOP_REASON_").to_ascii_lowercase()
}

/// The contract's name of the party that must act.
#[must_use]
pub fn waiting_on(waiting_on: v1::WaitingOn) -> String {
    word(waiting_on.as_str_name(), "WAITING_ON_").to_ascii_lowercase()
}

/// The contract's name of an action.
#[must_use]
pub fn action(action: v1::DecisionAction) -> String {
    word(action.as_str_name(), "DECISION_ACTION_").to_ascii_lowercase()
}

/// The contract's name of a turn's outcome.
#[must_use]
pub fn outcome(outcome: v1::TurnOutcome) -> String {
    word(outcome.as_str_name(), "TURN_OUTCOME_").to_ascii_lowercase()
}

/// The contract's name of a kind of driver.
#[must_use]
pub fn driver(driver: v1::Driver) -> String {
    word(driver.as_str_name(), "DRIVER_").to_ascii_lowercase()
}

fn word(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_control_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\u{202e}c\nd"), "a\\u{1b}[2Jb\\u{202e}c\nd");
        assert_eq!(one_line(" a\r\n\tb\u{7} "), "a b\\u{7}");
        assert_eq!(shortened("äöüß", 3), "äö…");
    }

    #[test]
    fn columns_shrink_between_words_and_ids_stay_whole() {
        let id = "0199f2a4-9f0e-7c1a-8e55-6f0f5d0c8a11";
        let goal = "Write the note and prove that it is there";
        let shown = |width| {
            let row = vec![id.to_owned(), "COMPLETED".to_owned(), goal.to_owned()];
            columns_in(width, &["RUN", "STATE", "GOAL"], vec![row])
        };
        let one_line = format!(
            "RUN                                   STATE      GOAL\n{id}  COMPLETED  {goal}"
        );
        // A terminal in CI may say that it has no width, and one of 60 columns has no place for the goal.
        for width in [None, Some(200), Some(60), Some(40)] {
            assert_eq!(shown(width), one_line, "{width:?}");
        }
        for width in [65, 80] {
            let shown = shown(Some(width));
            assert!(shown.lines().all(|line| line.width() <= width), "{width}\n{shown}");
            assert!(shown.contains(id) && shown.lines().count() > 2, "{width}\n{shown}");
            for word in goal.split(' ') {
                assert!(shown.contains(word), "{word} at {width}\n{shown}");
            }
        }
    }

    #[test]
    fn lengths_of_time_are_said_in_the_unit_that_fits() {
        let cases = [
            (820, "0.8 s"),
            (12_345, "12 s"),
            (185_000, "3 min 05 s"),
            (7_800_000, "2 h 10 min"),
            (-5, "0.0 s"),
        ];
        for (milliseconds, expected) in cases {
            assert_eq!(elapsed(TimeDelta::milliseconds(milliseconds)), expected);
        }
    }
}
