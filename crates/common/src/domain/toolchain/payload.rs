//! Reads the body of a delivery, field by field, with bounds.

use crate::domain::problem::{Code, Problem};
use chrono::{DateTime, Utc};
use serde_json::Value;

/// The longest title that becomes part of a task, in characters.
pub(super) const MAX_TITLE: usize = 300;
/// The longest text of a comment, a review or an issue, in characters.
pub(super) const MAX_TEXT: usize = 8_000;
/// The most members of a list, such as labels and jobs.
pub(super) const MAX_LIST: usize = 50;
const MAX_NAME: usize = 100;
const MAX_ADDRESS: usize = 2_000;

type Read<T> = Result<T, Problem>;

/// The JSON object of a delivery, or a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload<'a>(pub(super) &'a Value);

impl<'a> Payload<'a> {
    /// The value at a JSON pointer; none where it is absent or null.
    pub(super) fn at(self, pointer: &str) -> Option<&'a Value> {
        self.0.pointer(pointer).filter(|value| !value.is_null())
    }

    /// The text at a pointer; empty where it is absent, null, or no text.
    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The first of these texts that is not empty.
    pub(super) fn first_text(self, pointers: &[&str]) -> &'a str {
        let mut texts = pointers.iter().map(|pointer| self.text(pointer));
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// A title without line breaks and control characters, cut to [`MAX_TITLE`].
    pub(super) fn title(self, pointer: &str) -> String {
        one_line(self.text(pointer))
    }

    /// A text of the forge, cut to [`MAX_TEXT`].
    pub(super) fn body(self, pointer: &str) -> String {
        cut(self.text(pointer), MAX_TEXT)
    }

    /// Whether the boolean at a pointer is true.
    pub(super) fn is(self, pointer: &str) -> bool {
        self.at(pointer).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A number that must be there, from 1 to what a column stores.
    pub(super) fn number(self, pointer: &str) -> Read<u64> {
        let value = self.at(pointer).ok_or_else(|| missing(pointer))?;
        value
            .as_u64()
            .filter(|number| *number > 0 && i64::try_from(*number).is_ok())
            .ok_or_else(|| invalid(pointer, "a number from 1 to 9223372036854775807"))
    }

    /// The members of a list; empty where there is none.
    pub(super) fn list(self, pointer: &str) -> impl Iterator<Item = Payload<'a>> {
        let list = self.at(pointer).and_then(Value::as_array).map(Vec::as_slice);
        list.unwrap_or_default().iter().take(MAX_LIST).map(Payload)
    }

    /// The name of an account that must be there.
    pub(super) fn login(self, pointer: &str) -> Read<String> {
        let login = self.text(pointer);
        if login.is_empty() {
            return Err(missing(pointer));
        }
        is_login(login)
            .then(|| login.to_owned())
            .ok_or_else(|| invalid(pointer, "the name of an account"))
    }

    /// The name of an account; none where it is absent or is no such name.
    pub(super) fn optional_login(self, pointer: &str) -> Option<String> {
        self.login(pointer).ok()
    }

    /// The repository of the event, as `owner/name`.
    pub(super) fn repository(self, pointer: &str) -> Read<String> {
        let name = self.text(pointer);
        if name.is_empty() {
            return Err(missing(pointer));
        }
        let valid = is_repository(name);
        valid.then(|| name.to_owned()).ok_or_else(|| invalid(pointer, "`owner/name`"))
    }

    /// A commit in hexadecimal; empty where there is none.
    pub(super) fn commit(self, pointer: &str) -> Read<String> {
        let commit = self.text(pointer);
        let valid = matches!(commit.len(), 0 | 7..=64)
            && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| commit.to_owned()).ok_or_else(|| invalid(pointer, "a commit in hexadecimal"))
    }

    /// The first usable time of these, in RFC 3339.
    pub(super) fn time(self, pointers: &[&str]) -> Read<DateTime<Utc>> {
        let read = |pointer: &&str| {
            let time = DateTime::parse_from_rfc3339(self.text(pointer)).ok()?.to_utc();
            // Gitea writes the year 1 or 1970 for a time that is not set.
            (time.timestamp() > 0).then_some(time)
        };
        let first = pointers.first().copied().unwrap_or_default();
        pointers.iter().find_map(read).ok_or_else(|| invalid(first, "a time of RFC 3339"))
    }

    /// An address of the forge; empty where it is absent, too long, or no http address.
    pub(super) fn address(self, pointer: &str) -> String {
        let address = self.text(pointer);
        let is_http = address.starts_with("https://") || address.starts_with("http://");
        let is_clean = !address.chars().any(|c| c.is_control() || c.is_whitespace());
        let usable = is_http && is_clean && address.len() <= MAX_ADDRESS;
        if usable { address.to_owned() } else { String::new() }
    }
}

/// The name of an account, as forges allow it; an app of GitHub ends in `[bot]`.
pub fn is_login(text: &str) -> bool {
    is_name(text.strip_suffix("[bot]").unwrap_or(text))
}

/// The name of a repository, as `owner/name`.
pub fn is_repository(text: &str) -> bool {
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with("..")
}

/// A text without line breaks and control characters, cut to [`MAX_TITLE`].
pub(super) fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(text.trim(), MAX_TITLE)
}

/// At most this many characters, with a mark where the rest was cut off.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A field as its path, `pull_request.user.login`.
fn path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

pub(super) fn missing(pointer: &str) -> Problem {
    Problem::at(
        Code::FieldMissing,
        path(pointer),
        "the delivery lacks the field; send the forge's own payload",
    )
}

fn invalid(pointer: &str, expected: &str) -> Problem {
    let message = format!("expected {expected}; send the forge's own payload");
    Problem::at(Code::TypeMismatch, path(pointer), message)
}
