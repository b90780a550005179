//! Tests inside files of languages whose tests are blocks of their own: `test` of Zig, `unittest` of D.

use super::item::{Item, Items, Place};
use memchr::memmem;
use std::collections::BTreeMap;
use std::ops::Range;

/// How a language writes comments and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Zig,
    D,
}

/// The items of a file; none when a brace, a string or a comment of it does not end.
pub(super) fn items(form: Form, text: &str) -> Option<Items> {
    let mut found = Items::default();
    let end = Place { at: text.len(), before: "\n".to_owned(), after: "\n".to_owned() };
    found.places.insert(String::new(), end);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let words = words(form, text)?;
    let mut place = 0;
    while let Some(word) = words.get(place) {
        let Some(body) = begins(form, text, &words, place) else {
            place += 1;
            continue;
        };
        let close = close_of(text, &words, body)?;
        let range = word.start..words.get(close)?.end;
        let said = normal(text, words.get(place..=close)?);
        let head = normal(text, words.get(place..body)?);
        // Without a name a test is what it says.
        let is_named = body > place + 1 && form == Form::Zig;
        let key = if is_named { head.clone() } else { said.clone() };
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        let key = if *count == 1 { key } else { format!("{key}[{count}]") };
        let name =
            if is_named { head } else { format!("{} {}", head.trim(), found.tests.len() + 1) };
        found.tests.push(Item {
            key,
            name,
            range,
            home: String::new(),
            parts: vec![said],
            marks: String::new(),
        });
        place = close + 1;
    }
    Some(found)
}

/// The brace that opens the body, where a test begins at a word.
fn begins(form: Form, text: &str, words: &[Range<usize>], place: usize) -> Option<usize> {
    let at = |place: usize| words.get(place).and_then(|word| text.get(word.clone()));
    let before = place.checked_sub(1).and_then(at);
    let starts =
        before.is_none_or(|before| matches!(before, ";" | "}" | "{" | ")") || form == Form::D);
    match form {
        Form::Zig if at(place) == Some("test") && starts => match at(place + 1)? {
            "{" => Some(place + 1),
            _ => (at(place + 2) == Some("{")).then_some(place + 2),
        },
        Form::D if at(place) == Some("unittest") => {
            (at(place + 1) == Some("{")).then_some(place + 1)
        }
        Form::Zig | Form::D => None,
    }
}

fn close_of(text: &str, words: &[Range<usize>], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (place, word) in words.iter().enumerate().skip(open) {
        match text.get(word.clone())? {
            "{" => depth += 1,
            "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

fn normal(text: &str, words: &[Range<usize>]) -> String {
    let words = words.iter().filter_map(|word| text.get(word.clone()));
    words.collect::<Vec<_>>().join(" ")
}

/// The words, strings and marks of a text, without its comments.
fn words(form: Form, text: &str) -> Option<Vec<Range<usize>>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default();
        let line = || rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let until = |end: &[u8]| memmem::find(rest, end);
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        let length = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            _ if rest.starts_with(b"//") => {
                at += line();
                continue;
            }
            _ if form == Form::D && rest.starts_with(b"/*") => {
                at += until(b"*/")? + 2;
                continue;
            }
            _ if form == Form::D && rest.starts_with(b"/+") => {
                at += nested(rest)?;
                continue;
            }
            _ if form == Form::Zig && rest.starts_with(b"\\\\") => line(),
            b'`' if form == Form::D => 2 + rest.get(1..)?.iter().position(|byte| *byte == b'`')?,
            b'r' if form == Form::D && rest.get(1) == Some(&b'"') => {
                3 + rest.get(2..)?.iter().position(|byte| *byte == b'"')?
            }
            b'"' | b'\'' => quoted(rest, *byte)?,
            _ if is_word(*byte) => {
                rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len())
            }
            _ => 1,
        };
        found.push(at..at + length);
        at += length;
    }
    Some(found)
}

/// The bytes of a quoted text; none when it does not end.
fn quoted(rest: &[u8], mark: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        match *rest.get(at)? {
            b'\\' => at += 2,
            byte if byte == mark => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// The bytes of a comment that may hold others.
fn nested(rest: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0usize, 0);
    loop {
        match rest.get(at..at + 2)? {
            b"/+" => (depth, at) = (depth + 1, at + 2),
            b"+/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}
