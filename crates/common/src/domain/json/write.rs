//! Writes a value as text: as it was written, or in the canonical form for digests.

use super::Value;
use super::special::special_byte;
use std::fmt::{Display, Write};

/// The most trailing zeros of a canonical integer. Longer ones keep their exponent, so that
/// `1e999999999` does not take a gigabyte.
const MAX_ZEROS: i64 = 1024;

/// Writes the text of an object member by member, without an intermediate value. Empty members are
/// omitted. Keys need no escaping, and each is written once.
pub struct ObjectText<'o> {
    out: &'o mut String,
    empty: bool,
}

impl<'o> ObjectText<'o> {
    /// Begins an object at the end of `out`.
    pub fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    /// A text, unless it is empty.
    pub fn text(self, key: &str, text: &str) -> Self {
        match text.is_empty() {
            true => self,
            false => self.with(key, |out| write_string(text, out)),
        }
    }

    /// An integer.
    pub fn number(self, key: &str, number: impl Display) -> Self {
        // Writing to a string does not fail.
        self.with(key, |out| write!(out, "{number}").unwrap_or_default())
    }

    /// A flag, when it is set.
    pub fn flag(self, key: &str, flag: bool) -> Self {
        if flag { self.with(key, |out| out.push_str("true")) } else { self }
    }

    /// Adds a member whose value `write` appends.
    pub fn with(mut self, key: &str, write: impl FnOnce(&mut String)) -> Self {
        if !std::mem::take(&mut self.empty) {
            self.out.push(',');
        }
        self.out.extend(["\"", key, "\":"]);
        write(self.out);
        self
    }

    /// Ends the object.
    pub fn end(self) {
        self.out.push('}');
    }
}

/// Writes the text of an array whose items `write` appends.
pub fn write_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut String, T),
) {
    out.push('[');
    for (place, item) in items.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

impl Value {
    /// Appends the value without blanks; the order of keys and the spelling of numbers stay.
    pub fn write_compact(&self, out: &mut String) {
        self.write(out, false);
    }

    /// Appends the canonical text of this value, as [`Self::to_canonical`].
    pub fn write_canonical(&self, out: &mut String) {
        self.write(out, true);
    }

    /// The value without blanks; the order of keys and the spelling of numbers stay.
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    /// The canonical text of this value: keys sorted by code point, no blanks, the least escaping,
    /// equal numbers written alike, and every digit kept.
    pub fn to_canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    /// [`super::STORED_DEPTH`] bounds the recursion: the parser creates no deeper value.
    fn write(&self, out: &mut String, canonical: bool) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(spelling) if canonical => write_canonical_number(spelling, out),
            Self::Number(spelling) => out.push_str(spelling),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => write_list(out, items, |out, item| item.write(out, canonical)),
            Self::Object(members) => write_object(members, out, canonical),
        }
    }
}

fn write_object(members: &[(String, Value)], out: &mut String, canonical: bool) {
    let mut members: Vec<&(String, Value)> = members.iter().collect();
    if canonical {
        members.sort_by(|(left, _), (right, _)| left.cmp(right));
    }
    out.push('{');
    for (place, (key, value)) in members.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        value.write(out, canonical);
    }
    out.push('}');
}

/// Appends a text in quotes, with the least escaping.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(place) = special_byte(rest.as_bytes()) {
        // A character to escape is one byte long, so both cuts are between characters.
        let (plain, special) = rest.split_at(place);
        out.push_str(plain);
        let mut characters = special.chars();
        characters.next().into_iter().for_each(|character| write_escaped(character, out));
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

fn write_escaped(character: char, out: &mut String) {
    match character {
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
        quoted => out.extend(['\\', quoted]),
    }
}

/// Writes sign, significant digits and power of ten in one form for all spellings of a number.
fn write_canonical_number(spelling: &str, out: &mut String) {
    let (sign, unsigned) = match spelling.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", spelling),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.trim_start_matches('0');
    let digits = leading.trim_end_matches('0');
    if digits.is_empty() {
        return out.push('0');
    }
    out.push_str(sign);
    let shift = leading.len().cast_signed() - digits.len().cast_signed();
    let shift = shift - fraction.len().cast_signed();
    let power = i64::try_from(shift)
        .ok()
        .zip(exponent.parse::<i64>().ok())
        .and_then(|(shift, exponent)| exponent.checked_add(shift));
    // An exponent of more than 64 bits keeps its spelling, so that no two values have the same
    // digest.
    let Some(power) = power else {
        return out.push_str(&unsigned.to_ascii_lowercase());
    };
    let point = usize::try_from(power.unsigned_abs())
        .ok()
        .and_then(|places| digits.split_at_checked(digits.len().checked_sub(places)?));
    match point {
        _ if (0..=MAX_ZEROS).contains(&power) => {
            out.push_str(digits);
            out.extend((0..power).map(|_| '0'));
        }
        Some((before, after)) if power < 0 && !before.is_empty() => {
            out.push_str(&format!("{before}.{after}"));
        }
        Some(_) | None => out.push_str(&format!("{digits}e{power}")),
    }
}
