//! DER, as far as time stamps need it: elements with short tags and definite lengths, read one after the other.

use chrono::{DateTime, NaiveDateTime, Utc};

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
/// `[0]`, constructed.
pub(super) const CONTEXT_0: u8 = 0xa0;
/// `[1]`, constructed.
pub(super) const CONTEXT_1: u8 = 0xa1;
/// `[3]`, constructed.
pub(super) const CONTEXT_3: u8 = 0xa3;

/// `[0]`, primitive.
pub(super) const IMPLICIT_0: u8 = 0x80;

/// The elements that are still to be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Der<'d>(&'d [u8]);

/// One element.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'d> {
    pub(super) tag: u8,
    pub(super) content: &'d [u8],
    /// With its tag and length.
    pub(super) whole: &'d [u8],
}

impl<'d> Element<'d> {
    /// The elements inside.
    pub(super) const fn inside(&self) -> Der<'d> {
        Der(self.content)
    }
}

impl<'d> Der<'d> {
    /// The only element of these bytes.
    pub(super) fn only(bytes: &'d [u8], tag: u8) -> Option<Element<'d>> {
        let mut all = Self(bytes);
        let element = all.take(tag)?;
        all.end().map(|()| element)
    }

    /// The next element; none at the end, and for bytes that are no DER.
    pub(super) fn pop(&mut self) -> Option<Element<'d>> {
        let (&tag, rest) = self.0.split_first()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match usize::from(first) {
            short @ 0..=0x7f => (short, rest),
            long @ 0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(long - 0x80)?;
                let length =
                    digits.iter().fold(0_usize, |sum, digit| (sum << 8) | usize::from(*digit));
                // DER has one form of each length, the shortest.
                let is_shortest = digits.first() != Some(&0) && length > 0x7f;
                (is_shortest.then_some(length)?, rest)
            }
            _ => return None,
        };
        let (content, behind) = rest.split_at_checked(length)?;
        let whole = self.0.get(..self.0.len() - behind.len())?;
        self.0 = behind;
        Some(Element { tag, content, whole })
    }

    /// The next element, which must have this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<Element<'d>> {
        self.optional(tag)
    }

    /// The next element where it has this tag; otherwise it stays.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Element<'d>> {
        let mut after = *self;
        let element = after.pop().filter(|element| element.tag == tag)?;
        *self = after;
        Some(element)
    }

    /// That nothing is left.
    pub(super) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The identifier of the next element, an `AlgorithmIdentifier`, and its parameters.
    pub(super) fn algorithm(&mut self) -> Option<(&'d [u8], Der<'d>)> {
        let mut inside = self.take(SEQUENCE)?.inside();
        Some((inside.take(OID)?.content, inside))
    }

    /// The identifier of an algorithm that has no parameters, or NULL in their place.
    pub(super) fn plain_algorithm(&mut self) -> Option<&'d [u8]> {
        let (identifier, mut parameters) = self.algorithm()?;
        if let Some(null) = parameters.optional(NULL) {
            null.content.is_empty().then_some(())?;
        }
        parameters.end().map(|()| identifier)
    }
}

/// The time of an element, `UTCTime` or `GeneralizedTime`, in UTC.
pub(super) fn time(element: &Element<'_>) -> Option<DateTime<Utc>> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let whole = match element.tag {
        // Two digits of a year are of 1950 to 2049.
        UTC_TIME => {
            let year: u32 = text.get(..2)?.parse().ok()?;
            format!("{}{text}", if year < 50 { "20" } else { "19" })
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let (seconds, fraction) = whole.split_once('.').unwrap_or((&whole, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.len() != 14 || !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let at = NaiveDateTime::parse_from_str(seconds, "%Y%m%d%H%M%S").ok()?.and_utc();
    let nanos: u32 = format!("{fraction:0<9}").parse().ok()?;
    at.checked_add_signed(chrono::TimeDelta::nanoseconds(nanos.into()))
}

/// Writes an element.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut bytes = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short @ 0..=0x7f) => bytes.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let digits = length.iter().skip_while(|digit| **digit == 0);
            let digits: Vec<u8> = digits.copied().collect();
            bytes.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
            bytes.extend(digits);
        }
    }
    bytes.extend(content);
    bytes
}
