//! Values that many messages contain: times, ids, JSON text, lists.

use super::error::{MessageError, MessageErrorKind as Kind};
use crate::domain::json::{self, JsonError, Value};
use crate::domain::problem::{Code, Problem};
use chrono::{DateTime, Datelike, Utc};
use prost_types::{Duration, Timestamp};
use uuid::Uuid;

/// The SHA-256 of a message's bytes in hexadecimal. Maps are written in the order of their keys, so
/// that equal messages have equal digests.
pub fn sha256_of(message: &impl prost::Message) -> String {
    json::sha256_hex(&message.encode_to_vec())
}

/// The time on the wire.
pub fn timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp {
        seconds: at.timestamp(),
        // chrono counts a leap second as more than a whole one; protobuf does not support them.
        nanos: i32::try_from(at.timestamp_subsec_nanos().min(999_999_999)).unwrap_or_default(),
    }
}

/// The time in a field.
///
/// # Errors
/// [`Kind::NoMoment`] outside the years 1 to 9999.
pub fn moment(field: &str, at: Timestamp) -> Result<DateTime<Utc>, MessageError> {
    let Timestamp { seconds, nanos } = at;
    u32::try_from(nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000)
        .and_then(|nanos| DateTime::from_timestamp(seconds, nanos))
        .filter(|moment| (1..=9999).contains(&moment.year()))
        .ok_or_else(|| MessageError::at(field, Kind::NoMoment))
}

/// A duration of whole seconds.
pub fn whole_seconds(seconds: u64) -> Duration {
    Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }
}

/// A span of time on the wire.
pub fn wire_duration(span: std::time::Duration) -> Duration {
    Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
    }
}

/// How long a caller is willing to wait.
///
/// # Errors
/// `limit_out_of_range` for a duration below zero.
pub fn patience(field: &str, wait: Duration) -> Result<std::time::Duration, MessageError> {
    let Duration { seconds, nanos } = wait;
    let parts = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
    let (seconds, nanos) = parts.ok_or_else(|| below_zero(field))?;
    Ok(std::time::Duration::new(seconds, nanos.min(999_999_999)))
}

fn below_zero(field: &str) -> MessageError {
    let problem = Problem::new(Code::LimitOutOfRange, "is below zero; choose 0 s or more");
    MessageError::at(field, Kind::Domain(problem))
}

/// The whole seconds of a duration.
///
/// # Errors
/// [`Kind::NotWholeSeconds`] when it has a fraction, `limit_out_of_range` below zero.
pub fn seconds(field: &str, duration: Duration) -> Result<u64, MessageError> {
    let Duration { seconds, nanos } = duration;
    if nanos != 0 {
        return Err(MessageError::at(field, Kind::NotWholeSeconds));
    }
    u64::try_from(seconds).map_err(|_| below_zero(field))
}

/// The id in a field.
///
/// # Errors
/// [`Kind::InvalidId`] when it is not a UUID, and [`Kind::Missing`] when it is empty.
pub fn id(field: &str, text: &str) -> Result<Uuid, MessageError> {
    if text.is_empty() {
        return Err(MessageError::at(field, Kind::Missing));
    }
    Uuid::parse_str(text).map_err(|_| MessageError::at(field, Kind::InvalidId(text.to_owned())))
}

/// The JSON object in a field; `{}` when it is empty.
///
/// # Errors
/// [`Kind::JsonSyntax`], [`Kind::JsonTooDeep`] or [`Kind::NotAnObject`].
pub fn json_object(field: &str, text: &str) -> Result<Value, MessageError> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Vec::new()));
    }
    let value = json::parse(text)
        .map_err(|error| match error {
            JsonError::Syntax { .. } => Kind::JsonSyntax(error.to_string()),
            JsonError::TooDeep { .. } => Kind::JsonTooDeep,
        })
        .map_err(|kind| MessageError::at(field, kind))?
        .value;
    match value.as_object() {
        Some(_) => Ok(value),
        None => Err(MessageError::at(field, Kind::NotAnObject(value.kind()))),
    }
}

/// Every item of a repeated field, or the first error with its index.
pub(super) fn list<W, D>(field: &str, items: Vec<W>) -> Result<Vec<D>, MessageError>
where
    D: TryFrom<W, Error = MessageError>,
{
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| {
            D::try_from(item).map_err(|error| error.under(&format!("{field}[{index}]")))
        })
        .collect()
}

/// A message field that may be absent, or its error with its path.
pub(super) fn optional<W, D>(field: &str, item: Option<W>) -> Result<Option<D>, MessageError>
where
    D: TryFrom<W, Error = MessageError>,
{
    item.map(|item| D::try_from(item).map_err(|error| error.under(field))).transpose()
}

/// Every item of a list on the wire.
pub(super) fn wire_list<D, W: From<D>>(items: Vec<D>) -> Vec<W> {
    items.into_iter().map(W::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::problem::{Code, Problem};

    #[test]
    fn a_moment_comes_back_to_the_nanosecond() {
        let at = DateTime::from_timestamp(1_700_000_000, 123_456_789).unwrap();
        assert_eq!(moment("at", timestamp(at)), Ok(at));
    }

    #[test]
    fn a_moment_that_is_none_is_refused() {
        for (seconds, nanos) in [(i64::MAX, 0), (0, -1), (0, 1_000_000_000), (-99_999_999_999, 0)] {
            let error = moment("at", Timestamp { seconds, nanos }).unwrap_err();
            assert_eq!(error, MessageError::at("at", Kind::NoMoment));
        }
    }

    #[test]
    fn arguments_keep_every_digit() {
        let text = r#"{"n":12345678901234567890.000000000000000001}"#;
        assert_eq!(json_object("arguments_json", text).unwrap().to_compact(), text);
    }

    #[test]
    fn arguments_that_are_no_object_are_refused_by_name() {
        for (text, code) in [
            ("[1]", Code::TypeMismatch),
            ("null", Code::TypeMismatch),
            ("{", Code::JsonSyntax),
            (&"{\"a\":".repeat(200), Code::JsonSyntax),
        ] {
            let problem = Problem::from(json_object("arguments_json", text).unwrap_err());
            assert_eq!((problem.code, problem.field.as_deref()), (code, Some("arguments_json")));
        }
    }

    #[test]
    fn an_id_must_be_a_uuid() {
        assert_eq!(Problem::from(id("run_id", "7").unwrap_err()).code, Code::InvalidId);
        assert_eq!(Problem::from(id("run_id", "").unwrap_err()).code, Code::FieldMissing);
    }
}
