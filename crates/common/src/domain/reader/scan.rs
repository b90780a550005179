//! Finds the objects in a text, every balanced `{…}`, and the text that each shields from being
//! read.
//!
//! ```text
//!   prose {x {"a":1}} prose {"b":{"action":…}} [{"c":2}] { "d": …
//!         ^^^^^^^^^^^       ^^^^^^^^^^^^^^^^^^   ^^^^^^^  ^^^^^^^
//!         unreadable:       no known key:      no known  open with a
//!         shields inside    read, then inside  key       key: shields the rest
//! ```
//!
//! The scan takes linear time for any text: one pass finds where all braces close, and no byte is
//! parsed more than twice.

use crate::domain::json::{self, JsonError, Parsed};
use std::collections::VecDeque;

/// One result of the scan, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Find {
    /// Byte of the opening brace.
    pub(crate) start: usize,
    /// One past the closing brace; the end of the text when it is never closed.
    pub(crate) end: usize,
    /// Whether another object contains it.
    pub(crate) nested: bool,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A balanced `{…}` that is valid. `carries` says whether it has a key of the message.
    Object { read: Object, carries: bool },
    /// An object inside a valid one, without a key of the message, so it cannot be a message.
    Keyless,
    /// A balanced `{…}` that is not strict JSON.
    Unreadable(JsonError),
    /// A `{` that is never closed, and whether a quoted key follows it.
    Open { shields: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Object {
    Whole(Parsed),
    TooDeep,
}

/// Iterates over the objects of a text.
pub(crate) struct Scan<'a> {
    text: &'a str,
    keys: &'a [&'a str],
    closings: Closings,
    at: usize,
    braces_left: usize,
    inner: VecDeque<Inner>,
}

/// An object inside a valid object.
struct Inner {
    start: usize,
    end: usize,
    carries: bool,
}

impl<'a> Scan<'a> {
    /// A scan that examines at most `max_braces` opening braces.
    pub(crate) fn new(text: &'a str, keys: &'a [&'a str], max_braces: usize) -> Self {
        Self {
            text,
            keys,
            closings: Closings::of(text),
            at: 0,
            braces_left: max_braces,
            inner: VecDeque::new(),
        }
    }

    fn next_inner(&mut self) -> Option<Find> {
        let inner = self.inner.pop_front()?;
        let what =
            if inner.carries { self.read(inner.start, inner.end, true) } else { What::Keyless };
        Some(Find { start: inner.start, end: inner.end, nested: true, what })
    }

    fn next_outer(&mut self) -> Option<Find> {
        let rest = self.text.get(self.at..)?;
        let start = self.at + rest.find('{')?;
        let Some(end) = self.closings.next_after(start) else {
            return Some(self.open(start));
        };
        self.at = end;
        let what = self.read(start, end, false);
        Some(Find { start, end, nested: false, what })
    }

    fn open(&mut self, start: usize) -> Find {
        let shields = is_quoted_key(self.slice(start + 1, self.text.len()));
        self.at = if shields { self.text.len() } else { start + 1 };
        Find { start, end: self.text.len(), nested: false, what: What::Open { shields } }
    }

    fn read(&mut self, start: usize, end: usize, nested: bool) -> What {
        let slice = self.slice(start, end);
        let (read, carries) = match json::parse(slice) {
            Ok(parsed) => {
                let mut members = parsed.value.as_object().unwrap_or_default().iter();
                let carries = members.any(|(key, _)| is_one_of(key, self.keys));
                (Object::Whole(parsed), carries)
            }
            Err(JsonError::TooDeep { keys }) => {
                let carries = keys.iter().any(|key| is_one_of(key, self.keys));
                (Object::TooDeep, carries)
            }
            Err(error @ JsonError::Syntax { .. }) => return What::Unreadable(error),
        };
        if !carries && !nested {
            self.inner = inner_objects(slice, start, self.keys);
        }
        What::Object { read, carries }
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }
}

impl Iterator for Scan<'_> {
    type Item = Find;

    fn next(&mut self) -> Option<Find> {
        self.braces_left = self.braces_left.checked_sub(1)?;
        self.next_inner().or_else(|| self.next_outer())
    }
}

/// Whether a key is one of the known ones, in any case.
pub(crate) fn is_one_of(key: &str, known: &[&str]) -> bool {
    known.iter().any(|name| name.eq_ignore_ascii_case(key))
}

/// Whether a text begins with a string and a colon.
fn is_quoted_key(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix('"') else {
        return false;
    };
    string_end(rest)
        .and_then(|end| rest.get(end..))
        .is_some_and(|after| after.trim_start().starts_with(':'))
}

/// One past the closing quote of a string, given the text after its opening quote.
pub(super) fn string_end(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at + 1),
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// The objects inside a valid object, in the order of the text, without those that an object with a
/// key of the message shields.
fn inner_objects(object: &str, offset: usize, keys: &[&str]) -> VecDeque<Inner> {
    let mut found: Vec<Inner> = Vec::new();
    // For each open container, the index of its object in `found`; none for arrays.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = object.as_bytes().get(at) {
        match byte {
            b'{' => {
                open.push(Some(found.len()));
                found.push(Inner { start: offset + at, end: offset + at, carries: false });
            }
            b'[' => open.push(None),
            b'}' | b']' => {
                if let Some(inner) = open.pop().flatten().and_then(|id| found.get_mut(id)) {
                    inner.end = offset + at + 1;
                }
            }
            b'"' => {
                let rest = object.get(at + 1..).unwrap_or_default();
                let length = string_end(rest).unwrap_or(rest.len()) + 1;
                let owner = open.last().copied().flatten();
                if let Some(inner) = owner.and_then(|id| found.get_mut(id)) {
                    inner.carries |= is_key_at(object, at, length, keys);
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    without_shielded(found)
}

/// Whether the string at a position of a valid object is a known key.
fn is_key_at(object: &str, at: usize, length: usize, keys: &[&str]) -> bool {
    let after = object.get(at + length..).unwrap_or_default();
    if !after.trim_start().starts_with(':') {
        return false;
    }
    let quoted = object.get(at..at + length).unwrap_or_default();
    if !quoted.contains('\\') {
        return is_one_of(quoted.trim_matches('"'), keys);
    }
    json::parse(quoted).is_ok_and(|key| key.value.as_str().is_some_and(|key| is_one_of(key, keys)))
}

fn without_shielded(found: Vec<Inner>) -> VecDeque<Inner> {
    let mut shielded_to = 0;
    let mut kept = VecDeque::new();
    // The first is the object that contains all others.
    for inner in found.into_iter().skip(1) {
        if inner.start < shielded_to {
            continue;
        }
        if inner.carries {
            shielded_to = inner.end;
        }
        kept.push_back(inner);
    }
    kept
}

/// Where each opening brace closes, for a scan that starts at it and skips strings.
struct Closings {
    /// Opening braces that close, and one past their closing ones, the first brace last.
    ends: Vec<(usize, usize)>,
}

/// A closing brace without an opening one yet, seen from the end, and the one after it.
struct Closer {
    end: usize,
    next: Option<usize>,
}

impl Closings {
    /// Scans from the end to the start. A scan that reaches a byte is outside a string, inside one,
    /// or after a backslash in one. For each of the three, the closing braces ahead are kept as
    /// lists that share their tails, so one pass serves all braces.
    fn of(text: &str) -> Self {
        let mut closers: Vec<Closer> = Vec::new();
        let mut ends = Vec::new();
        let (mut outside, mut inside, mut escaped) = (None, None, None);
        for (at, byte) in text.bytes().enumerate().rev() {
            let behind_backslash = inside;
            match byte {
                b'{' => {
                    let closer = outside.and_then(|id: usize| closers.get(id));
                    ends.extend(closer.map(|closer| (at, closer.end)));
                    outside = closer.and_then(|closer| closer.next);
                }
                b'}' => {
                    closers.push(Closer { end: at + 1, next: outside });
                    outside = Some(closers.len() - 1);
                }
                b'"' => std::mem::swap(&mut outside, &mut inside),
                b'\\' => inside = escaped,
                _ => {}
            }
            escaped = behind_backslash;
        }
        Self { ends }
    }

    /// One past the closing brace of the opening brace at `start`, if it closes. Callers query
    /// braces from left to right.
    fn next_after(&mut self, start: usize) -> Option<usize> {
        while self.ends.last().is_some_and(|(at, _)| *at < start) {
            self.ends.pop();
        }
        let (_, end) = self.ends.pop_if(|(at, _)| *at == start)?;
        Some(end)
    }
}
