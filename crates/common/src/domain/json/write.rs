//! Value to text: as it was written, or in the one form that digests are taken of.

use super::Value;

/// The longest run of zeros a canonical integer is written out with. Longer ones keep their
/// exponent, so that `1e999999999` costs no gigabyte.
const MAX_ZEROS: i64 = 1024;

impl Value {
    /// The value without blanks; the order of keys and the spelling of numbers stay.
    pub fn to_compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    /// The one text of all spellings of this value: keys sorted by code point, no blanks, the
    /// least escaping, equal numbers written alike, and every digit kept.
    pub fn to_canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    /// Recursion is bounded by [`super::STORED_DEPTH`]: the parser makes no deeper value.
    fn write(&self, out: &mut String, canonical: bool) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(spelling) if canonical => write_canonical_number(spelling, out),
            Self::Number(spelling) => out.push_str(spelling),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => write_array(items, out, canonical),
            Self::Object(members) => write_object(members, out, canonical),
        }
    }
}

fn write_array(items: &[Value], out: &mut String, canonical: bool) {
    out.push('[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        item.write(out, canonical);
    }
    out.push(']');
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

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
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
    // An exponent of more than 64 bits keeps its spelling: no digest may be shared by two values.
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
