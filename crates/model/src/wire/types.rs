//! What both forms have in common.

use super::calls::Calls;
use crate::chat::{ReplyPart, ReplySchema};
use crate::profile::Profile;
use serde_json::error::Category;
use std::borrow::Cow;
use surety_common::domain::messages::Message;

/// The description of the function that a reply has to call.
pub(crate) const FUNCTION_MEANING: &str = "Gives the whole reply. Call it exactly once.";

/// How the library's message of too many levels begins.
const TOO_DEEP: &str = "recursion limit";

/// How a model is held to a form of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// `response_format` with the schema.
    Format,
    /// One function that the reply has to call.
    Function,
    /// It is not.
    Nothing,
}

/// A request that is ready to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prepared<'a> {
    pub(crate) profile: &'a Profile,
    /// In normal form.
    pub(crate) messages: &'a [Message],
    pub(crate) schema: Option<&'a ReplySchema>,
    pub(crate) level: Level,
    pub(crate) max_output_tokens: u32,
    pub(crate) temperature: Option<f64>,
}

/// What arrived of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// What the model said.
    pub(crate) text: String,
    /// The functions that it called.
    pub(crate) calls: Calls,
    /// What it thought.
    pub(crate) reasoning: String,
    pub(crate) model: Option<String>,
    pub(crate) usage: Counted,
    pub(crate) end: Option<End>,
}

impl Arrived {
    /// The reply: the arguments where a function was called, else the text.
    pub(crate) fn said(&self) -> Cow<'_, str> {
        self.calls.said().unwrap_or(Cow::Borrowed(&self.text))
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len() + self.calls.len() + self.reasoning.len()
    }
}

/// An answer as far as it arrived, also where it broke off.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) arrived: Arrived,
    /// Whether the endpoint began a reply.
    pub(crate) has_begun: bool,
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    Cut,
    Refused(String),
}

/// Tokens as the endpoint counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// All of the prompt, cached ones included.
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    /// Read from a cache.
    pub(crate) cached: u64,
    /// Written to a cache.
    pub(crate) cache_writes: u64,
    /// Whether a count was named with a value that is none.
    pub(crate) is_odd: bool,
}

/// Why what arrived is no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It breaks the protocol.
    Malformed(String),
    /// It is an error of the endpoint.
    Error {
        /// The status of HTTP that it names, if any.
        status: Option<u16>,
        /// The endpoint's own code or type; may be empty.
        code: String,
        /// Its words.
        said: String,
    },
}

impl Broken {
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let what = match error.classify() {
            Category::Eof => "it ends too early",
            // The library names its limit in no other way.
            Category::Syntax if error.to_string().starts_with(TOO_DEEP) => "it has too many levels",
            Category::Syntax => "it breaks the syntax",
            Category::Data => "a field has another type than the protocol gives it",
            Category::Io => "it cannot be read",
        };
        let (line, column) = (error.line(), error.column());
        Self::Malformed(format!("its JSON does not read: {what}, at line {line} column {column}"))
    }
}

/// Takes parts of a reply.
pub(crate) type OnPart<'a> = &'a mut (dyn FnMut(ReplyPart<'_>) + Send);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_does_not_read_is_named_in_plain_words_with_its_place() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (json, expected) in [
            (deep.as_str(), "it has too many levels, at line 1 column 128"),
            ("[", "it ends too early, at line 1 column 1"),
            ("[}", "it breaks the syntax, at line 1 column 2"),
            ("7", "a field has another type than the protocol gives it, at line 1 column 1"),
        ] {
            let error = match json == deep {
                true => serde_json::from_str::<serde_json::Value>(json).unwrap_err(),
                false => serde_json::from_str::<Vec<u8>>(json).unwrap_err(),
            };
            let Broken::Malformed(why) = Broken::json(&error) else { panic!("{error}") };
            assert_eq!(why, format!("its JSON does not read: {expected}"));
        }
    }
}
