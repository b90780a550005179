//! Parses text in one pass and without recursion, so that no nesting can exhaust the stack.

use super::special::special_byte;
use super::{JsonError, MAX_DEPTH, Parsed, STORED_DEPTH, Value};
use std::collections::HashMap;

/// Objects with fewer keys find a repeated one by a linear search; larger ones keep an index.
const INDEXED_FROM: usize = 16;

/// Parses one strict JSON value. Only blanks may surround it.
///
/// # Errors
/// [`JsonError::Syntax`] when the text is not strict JSON; else [`JsonError::TooDeep`] when a value
/// is below level [`MAX_DEPTH`].
pub fn parse(text: &str) -> Result<Parsed, JsonError> {
    parse_within(text, MAX_DEPTH)
}

/// Parses stored text: as [`parse`], with more levels, which storing adds around values that were
/// parsed before.
///
/// # Errors
/// As [`parse`], from level [`STORED_DEPTH`] on.
pub fn parse_stored(text: &str) -> Result<Parsed, JsonError> {
    parse_within(text, STORED_DEPTH)
}

/// As [`parse`], with another limit of levels; for texts around messages, never for a message.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(text: &str, max_depth: usize) -> Result<Parsed, JsonError> {
    let stack = Vec::new();
    Parser { text, at: 0, last_level: max_depth, stack, duplicate_key: false, too_deep: false }
        .run()
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    last_level: usize,
    stack: Vec<Frame>,
    duplicate_key: bool,
    too_deep: bool,
}

/// A container that is still open.
enum Frame {
    Array(Vec<Value>),
    Object(Members),
    /// Below the last level: its values are dropped, only its syntax is checked.
    DeepArray,
    DeepObject,
}

#[derive(Default)]
struct Members {
    fields: Vec<(String, Value)>,
    index: HashMap<String, usize>,
    /// The index for the next value.
    slot: usize,
    /// For each field the number of its last appearance; empty until a key is repeated.
    last_seen: Vec<usize>,
    /// The number of the next appearance of a repeated or a later key.
    seen: usize,
}

impl Members {
    /// Adds an entry for a key's value; returns whether the key existed already.
    fn open(&mut self, key: String) -> bool {
        let found = if self.fields.len() < INDEXED_FROM {
            self.fields.iter().position(|(name, _)| *name == key)
        } else {
            if self.index.is_empty() {
                let names = self.fields.iter().map(|(name, _)| name.clone());
                self.index = names.zip(0..).collect();
            }
            self.index.get(&key).copied()
        };
        self.slot = found.unwrap_or(self.fields.len());
        self.see(found);
        if found.is_none() {
            if !self.index.is_empty() {
                self.index.insert(key.clone(), self.slot);
            }
            self.fields.push((key, Value::Null));
        }
        found.is_some()
    }

    /// Notes the appearance of a key, from the first repeated one on.
    fn see(&mut self, found: Option<usize>) {
        if self.last_seen.is_empty() {
            if found.is_none() {
                return;
            }
            self.last_seen = (0..self.fields.len()).collect();
            self.seen = self.fields.len();
        }
        match found.and_then(|slot| self.last_seen.get_mut(slot)) {
            Some(last) => *last = self.seen,
            None => self.last_seen.push(self.seen),
        }
        self.seen += 1;
    }

    fn fill(&mut self, value: Value) {
        if let Some((_, slot)) = self.fields.get_mut(self.slot) {
            *slot = value;
        }
    }

    /// The fields. Where a key is repeated, keys that differ only in case trade their places, so that the one that
    /// appeared last is the last of them.
    fn close(self) -> Vec<(String, Value)> {
        if self.last_seen.is_empty() {
            return self.fields;
        }
        let mut spellings: HashMap<String, Vec<usize>> = HashMap::new();
        for (slot, (key, _)) in self.fields.iter().enumerate() {
            spellings.entry(key.to_ascii_lowercase()).or_default().push(slot);
        }
        let mut fields: Vec<Option<(String, Value)>> = self.fields.into_iter().map(Some).collect();
        for slots in spellings.into_values().filter(|slots| slots.len() > 1) {
            let mut by_last = slots.clone();
            by_last.sort_by_key(|slot| self.last_seen.get(*slot));
            let moved: Vec<_> =
                by_last.iter().map(|slot| fields.get_mut(*slot).and_then(Option::take)).collect();
            for (slot, field) in slots.into_iter().zip(moved) {
                if let Some(place) = fields.get_mut(slot) {
                    *place = field;
                }
            }
        }
        fields.into_iter().flatten().collect()
    }
}

impl Parser<'_> {
    fn run(mut self) -> Result<Parsed, JsonError> {
        loop {
            let Some(mut value) = self.begin_value()? else {
                continue;
            };
            loop {
                let Some(frame) = self.stack.pop() else {
                    return self.finish(value);
                };
                match self.after_value(frame, value)? {
                    Some(closed) => value = closed,
                    None => break,
                }
            }
        }
    }

    fn finish(mut self, value: Value) -> Result<Parsed, JsonError> {
        self.skip_blanks();
        if self.at < self.text.len() {
            return Err(self.expected("the end"));
        }
        if self.too_deep {
            let members = match value {
                Value::Object(members) => members,
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_) => Vec::new(),
            };
            let keys = members.into_iter().map(|(key, _)| key).collect();
            return Err(JsonError::TooDeep { keys });
        }
        Ok(Parsed { value, duplicate_key: self.duplicate_key })
    }

    /// Parses a whole scalar or empty container; none when a container was opened.
    fn begin_value(&mut self) -> Result<Option<Value>, JsonError> {
        self.skip_blanks();
        match self.peek() {
            Some(b'{') => self.open_object(),
            Some(b'[') => self.open_array(),
            Some(b'"') => self.string().map(|text| Some(Value::String(text))),
            Some(b'-' | b'0'..=b'9') => self.number().map(Some),
            Some(b't') => self.word("true", Value::Bool(true)).map(Some),
            Some(b'f') => self.word("false", Value::Bool(false)).map(Some),
            Some(b'n') => self.word("null", Value::Null).map(Some),
            Some(_) | None => Err(self.expected("a value")),
        }
    }

    fn open_object(&mut self) -> Result<Option<Value>, JsonError> {
        self.at += 1;
        let deep = self.is_below_last_level();
        self.skip_blanks();
        if self.take(b'}') {
            return Ok(Some(Value::Object(Vec::new())));
        }
        let key = self.key()?;
        let frame = if deep {
            Frame::DeepObject
        } else {
            let mut members = Members {
                // Most objects of a long hostile text have one key; allocating four costs more time
                // than parsing it.
                fields: Vec::with_capacity(1),
                ..Members::default()
            };
            members.open(key);
            Frame::Object(members)
        };
        self.stack.push(frame);
        Ok(None)
    }

    fn open_array(&mut self) -> Result<Option<Value>, JsonError> {
        self.at += 1;
        let deep = self.is_below_last_level();
        self.skip_blanks();
        if self.take(b']') {
            return Ok(Some(Value::Array(Vec::new())));
        }
        self.stack.push(if deep { Frame::DeepArray } else { Frame::Array(Vec::new()) });
        Ok(None)
    }

    fn is_below_last_level(&mut self) -> bool {
        let deep = self.stack.len() >= self.last_level;
        self.too_deep |= deep;
        deep
    }

    /// Adds a value to its container; returns the container once it is closed.
    fn after_value(&mut self, mut frame: Frame, value: Value) -> Result<Option<Value>, JsonError> {
        match &mut frame {
            Frame::Array(items) => items.push(value),
            Frame::Object(members) => members.fill(value),
            Frame::DeepArray | Frame::DeepObject => {}
        }
        self.skip_blanks();
        let in_object = matches!(frame, Frame::Object(_) | Frame::DeepObject);
        if self.take(if in_object { b'}' } else { b']' }) {
            return Ok(Some(match frame {
                Frame::Array(items) => Value::Array(items),
                Frame::Object(members) => Value::Object(members.close()),
                Frame::DeepArray | Frame::DeepObject => Value::Null,
            }));
        }
        if !self.take(b',') {
            return Err(self.expected("a comma or the end of the list or object"));
        }
        if in_object {
            let key = self.key()?;
            if let Frame::Object(members) = &mut frame {
                self.duplicate_key |= members.open(key);
            }
        }
        self.stack.push(frame);
        Ok(None)
    }

    fn key(&mut self) -> Result<String, JsonError> {
        self.skip_blanks();
        if self.peek() != Some(b'"') {
            return Err(self.expected("a key in double quotes"));
        }
        let key = self.string()?;
        self.skip_blanks();
        if !self.take(b':') {
            return Err(self.expected("a colon"));
        }
        Ok(key)
    }

    /// Parses a string; the next byte is its opening quote.
    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain =
                special_byte(self.rest()).ok_or_else(|| self.expected("the end of a string"))?;
            out.push_str(self.text.get(self.at..self.at + plain).unwrap_or_default());
            self.at += plain;
            if self.take(b'"') {
                return Ok(out);
            }
            if !self.take(b'\\') {
                return Err(self.expected("an escape in place of a control character"));
            }
            out.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let escaped = match self.peek() {
            Some(same @ (b'"' | b'\\' | b'/')) => char::from(same),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            Some(_) | None => return Err(self.expected("a known escape")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if let Some(plain) = char::from_u32(first) {
            return Ok(plain);
        }
        if first < 0xdc00 && self.take(b'\\') && self.take(b'u') {
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(point).ok_or_else(|| self.expected("a character"));
            }
        }
        Err(self.expected("both halves of a surrogate pair"))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .ok_or_else(|| self.expected("four hexadecimal digits"))?;
        let unit = u32::from_str_radix(digits, 16)
            .map_err(|_| self.expected("four hexadecimal digits"))?;
        self.at += 4;
        Ok(unit)
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let spelling = self.text.get(start..self.at).unwrap_or_default();
        Ok(Value::Number(spelling.to_owned()))
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let run = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        if run == 0 {
            return Err(self.expected("a digit"));
        }
        self.at += run;
        Ok(())
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.expected("true, false or null"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expected(&self, expected: &'static str) -> JsonError {
        JsonError::Syntax { offset: self.at, expected }
    }
}
