//! Strict JSON that keeps what a digest needs: the spelling of numbers, the order of keys, and
//! whether a key was repeated.
//!
//! ```text
//!   text --parse--> Value --to_compact-->   the same value, without blanks
//!                         --to_canonical--> one text for all spellings of it, for digests
//! ```

mod parse;
mod special;
mod write;

pub use write::{ObjectText, write_list, write_string};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

pub use parse::{parse, parse_stored, parse_within};

/// The deepest level of an object or array; the outermost one has level 1.
pub const MAX_DEPTH: usize = 128;

/// The deepest level inside a stored text. A call's arguments are parsed alone and may use every
/// level; they are stored inside a decision, in a turn, in a list.
pub const STORED_DEPTH: usize = MAX_DEPTH + 16;

/// One JSON value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was written, so that no digit is lost.
    Number(String),
    /// Text, unescaped.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Keys and values in the order of their first appearance; a repeated key has its last value. Where a key is
    /// repeated, keys that differ only in case are in the order of their last appearance.
    Object(Vec<(String, Value)>),
}

/// The result of parsing a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The value.
    pub value: Value,
    /// Whether any object, at any depth, named a key twice.
    pub duplicate_key: bool,
}

/// Why a text is not a usable JSON value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is not strict JSON.
    #[error("invalid JSON at byte {offset}: expected {expected}")]
    Syntax {
        /// Where parsing stopped, in bytes from the start.
        offset: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// It is strict JSON, but a value is nested deeper than [`MAX_DEPTH`].
    #[error("nested more than {MAX_DEPTH} levels deep")]
    TooDeep {
        /// The keys of the outermost object, each once; empty for an array.
        keys: Vec<String>,
    },
}

impl Value {
    /// The contract's name for the type of this value.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// The value of an object's key; none when the key is absent or this is no object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The text of a string.
    pub const fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text.as_str()),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The value of a boolean.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            Self::Null | Self::Number(_) | Self::String(_) | Self::Array(_) | Self::Object(_) => {
                None
            }
        }
    }

    /// The spelling of a number.
    pub const fn as_number(&self) -> Option<&str> {
        match self {
            Self::Number(spelling) => Some(spelling.as_str()),
            Self::Null | Self::Bool(_) | Self::String(_) | Self::Array(_) | Self::Object(_) => None,
        }
    }

    /// The items of an array.
    pub const fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items.as_slice()),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Object(_) => {
                None
            }
        }
    }

    /// The members of an object.
    pub const fn as_object(&self) -> Option<&[(String, Self)]> {
        match self {
            Self::Object(members) => Some(members.as_slice()),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::Array(_) => None,
        }
    }

    /// Whether this is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The SHA-256 of the canonical text in hexadecimal: all spellings of a value have the same
    /// digest.
    pub fn digest(&self) -> String {
        sha256_hex(self.to_canonical().as_bytes())
    }

    /// The same value for libraries that use `serde_json`. Integers of 64 bits stay exact; other
    /// numbers become the nearest double, and larger ones the largest double. A whole number up to 2^53 is an
    /// integer however it is spelled, as for JSON Schema: `30.0` is one.
    pub fn to_serde(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(truth) => serde_json::Value::Bool(*truth),
            Self::Number(spelling) => number_to_serde(spelling),
            Self::String(text) => serde_json::Value::String(text.clone()),
            Self::Array(items) => items.iter().map(Self::to_serde).collect(),
            Self::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), value.to_serde())).collect()
            }
        }
    }
}

/// The largest number up to which a double holds every whole number: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number_to_serde(spelling: &str) -> serde_json::Value {
    if let Ok(number) = spelling.parse::<u64>() {
        return number.into();
    }
    if let Ok(number) = spelling.parse::<i64>() {
        return number.into();
    }
    // Every spelling that the parser accepts is a double, perhaps an infinite one.
    let number = spelling.parse::<f64>().unwrap_or_default();
    let whole = (number.fract() == 0.0 && number.abs() <= EXACT).then(|| format!("{number:.0}"));
    match whole.and_then(|whole| whole.parse::<i64>().ok()) {
        Some(whole) => whole.into(),
        None => number.clamp(f64::MIN, f64::MAX).into(),
    }
}

/// The SHA-256 of some bytes in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The SHA-256 of parts, one after the other.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

#[cfg(test)]
mod tests;
