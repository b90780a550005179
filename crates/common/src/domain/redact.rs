//! Takes secrets out of texts: as they are, in base64, in hexadecimal, percent-encoded, escaped and with the entities of XML.
//!
//! ```text
//!   "Bearer hunter22secret"  -->  "Bearer [secret:npm]"
//!   a stream: the end of a chunk that may begin a secret is held back until the next one
//! ```

mod notation;

use notation::{Step, backslash, entity, meets, percent};
use std::fmt;
use std::sync::Arc;

/// The fewest bytes of a secret: a shorter one stands in texts by accident, and is guessed.
pub const SHORTEST_SECRET: usize = 8;
/// The fewest bytes of a line of a secret with several lines that is a secret by itself.
const SHORTEST_LINE: usize = 16;
/// The most line breaks between two bytes of a secret that was wrapped.
const MOST_BREAKS: usize = 2;
const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What secrets look like in texts. Its `Debug` form has none of them.
#[derive(Clone, Default)]
pub struct Redactor {
    patterns: Vec<Pattern>,
    /// By each byte, whether a pattern or an escape begins with it: every byte of a text is looked up.
    starts: Vec<bool>,
}

#[derive(Clone)]
struct Pattern {
    bytes: Vec<u8>,
    /// What stands for it.
    mark: Arc<str>,
}

/// What is at one place.
enum Found {
    /// A pattern, up to this place.
    Whole(usize),
    /// The start of a pattern, up to the end of the data.
    Part,
    Nothing,
}

impl Redactor {
    /// For secrets by their names. Those that are too short are passed over.
    pub fn new<'s>(secrets: impl IntoIterator<Item = (&'s str, &'s str)>) -> Self {
        let mut patterns = Vec::new();
        for (name, value) in secrets {
            let mark: Arc<str> = format!("[secret:{name}]").into();
            let mut add = |bytes: Vec<u8>| {
                let is_new = patterns.iter().all(|known: &Pattern| known.bytes != bytes);
                if bytes.len() >= SHORTEST_SECRET && is_new {
                    patterns.push(Pattern { bytes, mark: Arc::clone(&mark) });
                }
            };
            if value.len() < SHORTEST_SECRET {
                continue;
            }
            encodings(value.as_bytes()).for_each(&mut add);
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
            lines.for_each(|line| add(line.as_bytes().to_vec()));
        }
        let firsts = patterns.iter().filter_map(|pattern| pattern.bytes.first().copied());
        let mut starts = vec![false; 256];
        for first in firsts.chain(*b"%\\+&") {
            if let Some(starts) = starts.get_mut(usize::from(first)) {
                *starts = true;
            }
        }
        Self { patterns, starts }
    }

    /// Whether there is nothing to take out.
    pub const fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The data without secrets; none where it has none.
    pub fn redacted(&self, data: &[u8]) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let (found, _, changed) = self.scan(data, true);
        changed.then_some(found)
    }

    /// Takes secrets out of a text.
    pub fn redact(&self, text: &mut String) {
        if let Some(found) = self.redacted(text.as_bytes()) {
            *text = String::from_utf8_lossy(&found).into_owned();
        }
    }

    /// The data without secrets, how much of it was read, and whether it differs. Before the end of a stream, what
    /// may begin a secret is not read.
    fn scan(&self, data: &[u8], is_end: bool) -> (Vec<u8>, usize, bool) {
        let mut out = Vec::new();
        let (mut at, mut from) = (0, 0);
        while let Some(byte) = data.get(at) {
            if !self.starts.get(usize::from(*byte)).is_some_and(|starts| *starts) {
                at += 1;
                continue;
            }
            let (whole, is_part) = self.at(data, at);
            if is_part && !is_end {
                break;
            }
            match whole {
                Some((end, mark)) => {
                    out.extend_from_slice(data.get(from..at).unwrap_or_default());
                    out.extend_from_slice(mark.as_bytes());
                    (at, from) = (end, end);
                }
                None => at += 1,
            }
        }
        let changed = from > 0;
        out.extend_from_slice(data.get(from..at).unwrap_or_default());
        (out, at, changed)
    }

    /// The longest secret at a place, and whether one may begin there that goes on after the data.
    fn at(&self, data: &[u8], at: usize) -> (Option<(usize, &str)>, bool) {
        let (mut longest, mut is_part) = (None::<(usize, &str)>, false);
        for Pattern { bytes, mark } in &self.patterns {
            for decodes in [false, true] {
                match matched(bytes, data, at, decodes) {
                    Found::Whole(end) if longest.is_none_or(|(known, _)| known < end) => {
                        longest = Some((end, mark));
                    }
                    Found::Part => is_part = true,
                    Found::Whole(_) | Found::Nothing => {}
                }
            }
        }
        (longest, is_part)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("patterns", &self.patterns.len()).finish()
    }
}

/// A stream of chunks without secrets, also those that lie in two of them.
#[derive(Debug)]
pub struct RedactedStream {
    redactor: Arc<Redactor>,
    /// What may begin a secret.
    held: Vec<u8>,
}

impl RedactedStream {
    /// A stream that has begun.
    pub const fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, held: Vec::new() }
    }

    /// What of the stream is known to have no secret.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(chunk);
        let (found, read, _) = self.redactor.scan(&self.held, false);
        self.held.drain(..read);
        found
    }

    /// The rest.
    pub fn finish(&mut self) -> Vec<u8> {
        let (found, ..) = self.redactor.scan(&self.held, true);
        self.held.clear();
        found
    }
}

/// A secret as it is and encoded. Of base64 only the letters that the secret alone decides, for each of the three
/// places that it may have in a longer text.
fn encodings(secret: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let hexadecimal = |digits: &[u8; 16]| {
        let digit = |half: u8| digits.get(usize::from(half)).copied().unwrap_or_default();
        secret.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect::<Vec<u8>>()
    };
    let plain =
        [secret.to_vec(), hexadecimal(b"0123456789abcdef"), hexadecimal(b"0123456789ABCDEF")];
    let places = [STANDARD, URL_SAFE]
        .into_iter()
        .flat_map(move |letters| (0..3).map(move |before| base64(secret, before, letters)));
    plain.into_iter().chain(places)
}

/// The base64 letters of a text behind `before` unknown bytes, without those that depend on other bytes.
fn base64(text: &[u8], before: usize, letters: &[u8; 64]) -> Vec<u8> {
    let bit = |place: usize| {
        let byte = (place / 8).checked_sub(before).and_then(|at| text.get(at));
        (byte.copied().unwrap_or_default() >> (7 - place % 8)) & 1
    };
    let first = (before * 8).div_ceil(6);
    let end = (before + text.len()) * 8 / 6;
    let letter = |at: usize| {
        let number = (at * 6..at * 6 + 6).fold(0_u8, |number, place| (number << 1) | bit(place));
        letters.get(usize::from(number)).copied().unwrap_or_default()
    };
    (first..end).map(letter).collect()
}

/// Whether a pattern is at a place; with `decodes` in a text with percent-encoding, escapes or entities.
fn matched(pattern: &[u8], data: &[u8], at: usize, decodes: bool) -> Found {
    let mut at = at;
    let mut left = pattern;
    while let Some(wanted) = left.first() {
        if left.len() < pattern.len() {
            for _ in 0..MOST_BREAKS {
                at += line_break(data.get(at..).unwrap_or_default(), *wanted, decodes);
            }
        }
        match step(data.get(at..).unwrap_or_default(), left, decodes) {
            Step::Over { read, met } => {
                at += read;
                left = left.get(met..).unwrap_or_default();
            }
            Step::End => return Found::Part,
            Step::Other => return Found::Nothing,
        }
    }
    Found::Whole(at)
}

/// What the next bytes are to the rest of a pattern, with what stands for its bytes in other notations.
fn step(rest: &[u8], wanted: &[u8], decodes: bool) -> Step {
    let escaped = match rest {
        _ if !decodes => Step::Other,
        [b'%', ..] => percent(rest, wanted),
        [b'\\', ..] => backslash(rest, wanted),
        [b'&', ..] => entity(rest, wanted),
        [b'+', ..] => meets(1, b" ", wanted),
        [..] => Step::Other,
    };
    match (escaped, rest) {
        (Step::Other, [byte, ..]) => meets(1, &[*byte], wanted),
        (Step::Other, []) => Step::End,
        (found @ (Step::Over { .. } | Step::End), _) => found,
    }
}

/// The length of a line break with which a text was wrapped.
fn line_break(rest: &[u8], wanted: u8, decodes: bool) -> usize {
    match rest {
        [byte @ (b'\r' | b'\n'), ..] if *byte != wanted => 1,
        [b'\\', b'r' | b'n', ..] if decodes && !matches!(wanted, b'\r' | b'\n' | b'\\') => 2,
        [b'%', b'0', b'A' | b'a' | b'D' | b'd', ..]
            if decodes && !matches!(wanted, b'\r' | b'\n' | b'%') =>
        {
            3
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: &str = "c4nary \"9/Qz+key=";

    fn redactor() -> Arc<Redactor> {
        Arc::new(Redactor::new([("npm", SECRET), ("short", "1234567")]))
    }

    fn cleaned(text: &str) -> String {
        let mut text = text.to_owned();
        redactor().redact(&mut text);
        text
    }

    /// Ordinary base64, with padding.
    fn encoded(text: &str) -> String {
        let mut letters = base64(text.as_bytes(), 0, STANDARD);
        let rest = text.len() % 3;
        if rest > 0 {
            let padded = [text.as_bytes(), &[0; 2]].concat();
            letters = base64(&padded, 0, STANDARD);
            letters.truncate((text.len() * 8).div_ceil(6));
            letters.extend(std::iter::repeat_n(b'=', 3 - rest));
        }
        String::from_utf8(letters).unwrap()
    }

    #[test]
    fn a_secret_is_taken_out_in_every_form() {
        assert_eq!(encoded("Man"), "TWFu");
        assert_eq!(encoded("Ma"), "TWE=");
        assert_eq!(cleaned(&format!("a {SECRET} b")), "a [secret:npm] b");
        let percent: String = SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let hexadecimal: String = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
        let wrapped = SECRET.replace("9/", "9\n/");
        for form in [
            percent,
            hexadecimal,
            wrapped,
            "c4nary%20%229%2FQz%2Bkey%3D".to_owned(),
            "c4nary+%229/Qz%2Bkey=".to_owned(),
            r#"c4nary \"9/Qz+key="#.to_owned(),
            r"c4nary\ \u00229/Qz+key=".to_owned(),
            r"c4nary \u00229\/Qz+key=".to_owned(),
            r"c4nary\x20\x229/Qz\u{2b}key=".to_owned(),
            r"c4nary\40\0429/Qz+key=".to_owned(),
            "c4nary &quot;9/Qz+key=".to_owned(),
            "c4nary&#32;&#x22;9/Qz+key&#61;".to_owned(),
        ] {
            assert_eq!(cleaned(&format!("<{form}>")), "<[secret:npm]>", "{form}");
        }
        for before in ["", "x", "xy", "user:"] {
            let text = encoded(&format!("{before}{SECRET}\nmore"));
            let url_safe = text.replace('+', "-").replace('/', "_");
            let lines = format!("{}\n{}", text.split_at(9).0, text.split_at(9).1);
            for text in [text, url_safe, lines] {
                assert!(cleaned(&text).contains("[secret:npm]"), "{text}");
            }
        }
        for same in ["1234567", "c4nary", "%", "\\", "100% \\n of c4nary \"9"] {
            assert_eq!(cleaned(same), same);
        }
        assert!(!format!("{:?}", redactor()).contains("c4nary"));
    }

    #[test]
    fn letters_outside_of_ascii_are_known_in_each_notation() {
        let secret = "p\u{e4}ss<&>'\u{1f511}key";
        let redactor = Redactor::new([("key", secret)]);
        for form in [
            secret,
            // JSON, Python's repr of a text and of bytes, git's names, Rust and JavaScript, XML.
            r"p\u00e4ss<&>'\ud83d\udd11key",
            r"p\xe4ss<&>\'\U0001f511key",
            r"p\xc3\xa4ss<&>'\xf0\x9f\x94\x91key",
            r"p\303\244ss<&>'\360\237\224\221key",
            r"p\u{e4}ss<&>'\u{1F511}key",
            "p\u{e4}ss&lt;&amp;&gt;&apos;\u{1f511}key",
            "p&#228;ss&lt;&amp;&gt;&#39;&#x1F511;key",
            "p%C3%A4ss%3C%26%3E'%F0%9F%94%91key",
        ] {
            let mut text = format!("\"{form}\"");
            redactor.redact(&mut text);
            assert_eq!(text, "\"[secret:key]\"", "{form}");
            let mut stream = RedactedStream::new(Arc::new(redactor.clone()));
            let mut found: Vec<u8> =
                form.as_bytes().iter().flat_map(|byte| stream.push(&[*byte])).collect();
            found.extend(stream.finish());
            assert_eq!(String::from_utf8_lossy(&found), "[secret:key]", "{form}");
        }
        for same in ["p&amp", "&#", r"p\u00", r"p\ud83d", "p&nbsp;&", r"\u{110000}", "&#99999999;"]
        {
            let mut text = same.to_owned();
            redactor.redact(&mut text);
            assert_eq!(text, same);
        }
    }

    #[test]
    fn each_line_of_a_key_is_a_secret() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n";
        let redactor = Redactor::new([("key", key)]);
        let mut text = "line 2: MIIEvQIBADANBgkqhkiG".to_owned();
        redactor.redact(&mut text);
        assert_eq!(text, "line 2: [secret:key]");
    }

    proptest! {
        #[test]
        fn chunks_hide_what_the_whole_hides(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(SECRET.to_owned()),
                    Just(encoded(SECRET)),
                    Just("c4nary%20%22".to_owned()),
                    Just("c4na".to_owned()),
                    Just("c4nary &quot;9".to_owned()),
                    "[a-z%&;#x0-9u\\\\\n]{0,6}",
                ],
                0..8,
            ),
            size in 1_usize..9,
        ) {
            let text = parts.concat();
            let redactor = redactor();
            let whole = redactor.redacted(text.as_bytes()).unwrap_or_else(|| text.clone().into());
            let mut stream = RedactedStream::new(Arc::clone(&redactor));
            let mut found: Vec<u8> =
                text.as_bytes().chunks(size).flat_map(|chunk| stream.push(chunk)).collect();
            found.extend(stream.finish());
            prop_assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&whole));
            prop_assert!(!String::from_utf8_lossy(&found).contains(SECRET));
        }
    }
}
