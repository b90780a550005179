//! Values of plan files, with errors that name their paths.

use prost_types::Duration;
use surety_common::domain::json::Value;

use crate::failure::{Code, Failure};

/// A time as a person writes it: `90s`, `5m`, `2h`, `1d`, or a whole number of seconds.
pub(super) fn duration(path: &str, value: &Value) -> Result<Duration, Failure> {
    let spelling = value.as_str().or_else(|| value.as_number()).unwrap_or_default().trim();
    let (number, seconds) = match spelling.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) if spelling.ends_with('m') => (number, 60),
        Some(number) if spelling.ends_with('h') => (number, 3600),
        Some(number) if spelling.ends_with('d') => (number, 24 * 3600),
        Some(number) => (number, 1),
        None => (spelling, 1),
    };
    let count: Option<u32> = number.parse().ok();
    let seconds = count.map(|count| i64::from(count) * seconds);
    let refused = || invalid(path, "a time, such as 90s, 5m, 2h or 1d", value);
    Ok(Duration { seconds: seconds.ok_or_else(refused)?, nanos: 0 })
}

pub(super) fn object<'a>(path: &str, value: &'a Value) -> Result<&'a [(String, Value)], Failure> {
    value.as_object().ok_or_else(|| invalid(path, "keys and values", value))
}

pub(super) fn texts(path: &str, value: &Value) -> Result<Vec<String>, Failure> {
    let items = value.as_array().ok_or_else(|| invalid(path, "a list of texts", value))?;
    let item = |(at, item)| text(&format!("{path}[{at}]"), item);
    items.iter().enumerate().map(item).collect()
}

pub(super) fn text(path: &str, value: &Value) -> Result<String, Failure> {
    let text = value.as_str().ok_or_else(|| invalid(path, "a text", value))?;
    Ok(text.to_owned())
}

pub(super) fn invalid(path: &str, wanted: &str, found: &Value) -> Failure {
    let shown: String = found.to_compact().chars().take(80).collect();
    Failure::new(Code::ValueInvalid, format!("`{path}` is {shown}"), format!("Use {wanted}."))
        .at(path)
}
