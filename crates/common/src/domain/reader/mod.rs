//! The tolerant reader for plans, patches and decisions.
//!
//! A model's text contains a message among prose, fences and other objects. The reader finds the
//! candidate objects in the order of the text, and takes the first that validates. It repairs
//! nothing inside an object: a guess could call a tool that was not requested.

mod fence;
mod fields;
mod scan;

pub(crate) use fence::fences;
pub use fields::Fields;
pub(crate) use scan::{Find, Object, Scan, What, is_one_of};

use crate::domain::json::{JsonError, MAX_DEPTH, Value};
use crate::domain::problem::{Code, Problem, Warning, WarningCode};

/// The longest text that is read, in bytes.
pub const MAX_TEXT_BYTES: usize = 1_048_576;

/// The most opening braces that are examined, excluding those in strings and in shielded text.
pub const MAX_BRACES: usize = 64;

/// The keys that identify a decision.
pub const DECISION_KEYS: &[&str] =
    &["action", "speak", "reason", "goal_check", "tool_call", "abort"];

/// The keys that identify a plan.
pub const PLAN_KEYS: &[&str] = &["title", "goal", "steps", "verify", "todos"];

/// A message that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// The message.
    pub value: T,
    /// The reader's corrections, each once.
    pub warnings: Vec<Warning>,
}

/// A text without its byte-order mark and its thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken<'a> {
    /// The remaining text.
    pub text: &'a str,
    /// Whether the text began with thinking.
    pub thinking: bool,
}

/// Removes a leading byte-order mark and one leading `<think>…</think>`. Unclosed thinking is the
/// whole text.
pub fn strip_thinking(text: &str) -> Spoken<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(thought) = text.trim_start().strip_prefix("<think>") else {
        return Spoken { text, thinking: false };
    };
    Spoken { text: thought.split_once("</think>").map_or("", |(_, spoken)| spoken), thinking: true }
}

/// Reads the first object of a text that validates as a message with these keys.
///
/// `validate` receives the members of one object as written, and a list for its own warnings. It is
/// called for objects with a key of the message, and for the first object without one, whose error
/// is the fallback.
///
/// # Errors
/// `too_large`; `empty_output`; then the error of the first object that has a key of the message,
/// else of the first object, else `json_syntax` or `no_json_object`.
pub fn read<T>(
    text: &str,
    keys: &[&str],
    mut validate: impl FnMut(&[(String, Value)], &mut Vec<Warning>) -> Result<T, Problem>,
) -> Result<Read<T>, Problem> {
    let spoken = spoken(text)?;
    let mut refusals = Refusals::default();
    let mut scan = Scan::new(spoken, keys, MAX_BRACES);
    while let Some(find) = scan.next() {
        let (parsed, carries) = match find.what {
            What::Object { read: Object::Whole(parsed), carries } => (parsed, carries),
            What::Object { read: Object::TooDeep, carries } => {
                refusals.add(too_deep(), carries);
                continue;
            }
            What::Unreadable(error) => {
                refusals.unreadable.get_or_insert(error);
                continue;
            }
            What::Keyless | What::Open { .. } => continue,
        };
        let mut warnings = Vec::new();
        if is_alone_in_array(spoken, find.start, find.end) {
            warnings.push(Warning::new(WarningCode::ArrayUnwrapped));
        }
        if parsed.duplicate_key {
            warnings.push(Warning::new(WarningCode::DuplicateKey));
        }
        match validate(parsed.value.as_object().unwrap_or_default(), &mut warnings) {
            Ok(value) => {
                if scan.any(|further| further.reads()) {
                    warnings.push(Warning::new(WarningCode::ExtraObjectIgnored));
                }
                return Ok(Read { value, warnings });
            }
            Err(problem) => refusals.add(problem, carries),
        }
    }
    Err(refusals.verdict())
}

/// The text without thinking, unless it is blank or too long.
///
/// # Errors
/// `too_large` or `empty_output`.
pub fn spoken(text: &str) -> Result<&str, Problem> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Problem::new(
            Code::TooLarge,
            format!("the text has {} bytes; send at most {MAX_TEXT_BYTES}", text.len()),
        ));
    }
    let spoken = strip_thinking(text).text;
    if spoken.trim().is_empty() {
        return Err(Problem::new(Code::EmptyOutput, "the text is blank; send one JSON object"));
    }
    Ok(spoken)
}

/// The problem of an object that nests too deep.
pub fn too_deep() -> Problem {
    Problem::new(
        Code::TooDeep,
        format!("the object nests more than {MAX_DEPTH} levels deep; flatten it"),
    )
}

/// Why no object so far is the message, the most similar one first.
#[derive(Default)]
struct Refusals {
    carrying: Option<Problem>,
    keyless: Option<Problem>,
    unreadable: Option<JsonError>,
}

impl Refusals {
    fn add(&mut self, problem: Problem, carries: bool) {
        let slot = if carries { &mut self.carrying } else { &mut self.keyless };
        slot.get_or_insert(problem);
    }

    fn verdict(self) -> Problem {
        let syntax = self.unreadable.map(|error| {
            Problem::new(Code::JsonSyntax, format!("the object is not strict JSON: {error}"))
        });
        self.carrying.or(self.keyless).or(syntax).unwrap_or_else(|| {
            Problem::new(Code::NoJsonObject, "the text contains no complete JSON object; send one")
        })
    }
}

impl Find {
    /// Whether this object is strict JSON, however deep.
    pub(crate) fn reads(&self) -> bool {
        match self.what {
            What::Object { .. } | What::Keyless => true,
            What::Unreadable(_) | What::Open { .. } => false,
        }
    }
}

fn is_alone_in_array(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).unwrap_or_default();
    let after = text.get(end..).unwrap_or_default();
    before.trim_end().ends_with('[') && after.trim_start().starts_with(']')
}

#[cfg(test)]
mod tests;
