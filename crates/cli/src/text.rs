//! Text for people: names, times and durations, with control characters escaped.

use std::fmt::Write;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use prost_types::Timestamp;
use surety_common::wire::v1;

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

/// Rows in columns without borders, as wide as the terminal or as needed.
#[must_use]
pub fn columns(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    table.add_rows(rows);
    let mut text = String::new();
    for line in table.lines() {
        // Writing to a String cannot fail, so there is no error to return.
        writeln!(text, "{}", line.strip_prefix(' ').unwrap_or(&line).trim_end())
            .unwrap_or_default();
    }
    text.trim_end().to_owned()
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
