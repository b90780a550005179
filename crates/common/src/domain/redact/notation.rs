//! How bytes are written in other notations: percent-encoding, escapes with a backslash, entities of XML.

/// What the next bytes of a text are to the rest of a pattern.
pub(super) enum Step {
    /// So many bytes of the text stand for so many of the pattern.
    Over {
        read: usize,
        met: usize,
    },
    /// The data ends before that can be told.
    End,
    Other,
}

/// The escaped letters that stand for others.
const LETTERS: [(u8, u8); 3] = [(b'n', b'\n'), (b'r', b'\r'), (b't', b'\t')];

/// The entities that every reader of XML knows.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"amp;", b'&'), (b"lt;", b'<'), (b"gt;", b'>'), (b"quot;", b'"'), (b"apos;", b'\'')];

/// The most digits of a code point in a notation without a fixed length.
const MOST_DIGITS: usize = 7;

/// So many bytes of the text stand for these.
pub(super) fn meets(read: usize, bytes: &[u8], wanted: &[u8]) -> Step {
    if wanted.starts_with(bytes) { Step::Over { read, met: bytes.len() } } else { Step::Other }
}

fn meets_point(read: usize, point: Option<u32>, wanted: &[u8]) -> Step {
    let Some(letter) = point.and_then(char::from_u32) else { return Step::Other };
    meets(read, letter.encode_utf8(&mut [0; 4]).as_bytes(), wanted)
}

fn meets_byte(read: usize, byte: Option<u32>, wanted: &[u8]) -> Step {
    match byte.and_then(|byte| u8::try_from(byte).ok()) {
        Some(byte) => meets(read, &[byte], wanted),
        None => Step::Other,
    }
}

/// The first that holds, or of which the data does not tell.
fn either(one: Step, other: impl FnOnce() -> Step) -> Step {
    match one {
        Step::Other => other(),
        Step::Over { .. } | Step::End => one,
    }
}

/// The value of digits in a base.
fn number(digits: &[u8], base: u32) -> Option<u32> {
    digits.iter().try_fold(0_u32, |number, digit| {
        number.checked_mul(base)?.checked_add(char::from(*digit).to_digit(base)?)
    })
}

/// The value of so many hexadecimal digits.
fn hexadecimal(text: &[u8], digits: usize) -> Option<u32> {
    number(text.get(..digits)?, 16)
}

/// `%e4`.
pub(super) fn percent(rest: &[u8], wanted: &[u8]) -> Step {
    match rest.get(1..3) {
        Some(digits) => meets_byte(3, number(digits, 16), wanted),
        None => Step::End,
    }
}

/// `\n`, `\"`, `\344`, `\xe4`, `\u00e4`, `\ud83d\udd11`, `\u{e4}`, `\U000000e4`.
pub(super) fn backslash(rest: &[u8], wanted: &[u8]) -> Step {
    let [_, kind, code @ ..] = rest else { return Step::End };
    let coded = match kind {
        b'u' if code.first() == Some(&b'{') => braced(code, wanted),
        b'u' => short(code, wanted),
        b'U' if code.len() < 8 => Step::End,
        b'U' => meets_point(10, hexadecimal(code, 8), wanted),
        b'x' if code.len() < 2 => Step::End,
        // Of bytes it is a byte, and of a text a code point.
        b'x' => either(meets_byte(4, hexadecimal(code, 2), wanted), || {
            meets_point(4, hexadecimal(code, 2), wanted)
        }),
        b'0'..=b'7' => octal(rest.get(1..).unwrap_or_default(), wanted),
        _ => Step::Other,
    };
    either(coded, || {
        let known = LETTERS.iter().find(|(letter, _)| letter == kind);
        meets(2, &[known.map_or(*kind, |(_, meant)| *meant)], wanted)
    })
}

/// The code point of four digits, or of two such halves, behind `\u`.
fn short(code: &[u8], wanted: &[u8]) -> Step {
    if code.len() < 4 {
        return Step::End;
    }
    let Some(high @ 0xd800..0xdc00) = hexadecimal(code, 4) else {
        return meets_point(6, hexadecimal(code, 4), wanted);
    };
    let Some(low) = code.get(6..10) else { return Step::End };
    match number(low, 16) {
        Some(low @ 0xdc00..0xe000) if code.get(4..6) == Some(b"\\u") => {
            let point = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            meets_point(12, Some(point), wanted)
        }
        Some(_) | None => Step::Other,
    }
}

/// The code point in braces behind `\u`.
fn braced(code: &[u8], wanted: &[u8]) -> Step {
    let digits = code.get(1..).unwrap_or_default();
    numbered(digits, 16, b'}', |length, point| meets_point(length + 4, point, wanted))
}

/// One to three octal digits behind a backslash.
fn octal(digits: &[u8], wanted: &[u8]) -> Step {
    let is_octal = |digit: &&u8| matches!(digit, b'0'..=b'7');
    let count = digits.iter().take(3).take_while(is_octal).count();
    if count < 3 && count == digits.len() {
        return Step::End;
    }
    meets_byte(1 + count, number(digits.get(..count).unwrap_or_default(), 8), wanted)
}

/// `&amp;`, `&#228;`, `&#xe4;`.
pub(super) fn entity(rest: &[u8], wanted: &[u8]) -> Step {
    let name = rest.get(1..).unwrap_or_default();
    match name {
        [b'#'] => Step::End,
        [b'#', b'x' | b'X', digits @ ..] => {
            numbered(digits, 16, b';', |length, point| meets_point(length + 4, point, wanted))
        }
        [b'#', digits @ ..] => {
            numbered(digits, 10, b';', |length, point| meets_point(length + 3, point, wanted))
        }
        _ => {
            let known = ENTITIES.iter().find(|(known, _)| name.starts_with(known));
            match known {
                Some((known, meant)) => meets(1 + known.len(), &[*meant], wanted),
                None if ENTITIES.iter().any(|(known, _)| known.starts_with(name)) => Step::End,
                None => Step::Other,
            }
        }
    }
}

/// Digits up to an end, and what they come to.
fn numbered(text: &[u8], base: u32, end: u8, found: impl Fn(usize, Option<u32>) -> Step) -> Step {
    let is_digit = |byte: &&u8| char::from(**byte).is_digit(base);
    let count = text.iter().take(MOST_DIGITS).take_while(is_digit).count();
    match text.get(count) {
        Some(byte) if *byte == end => {
            found(count, number(text.get(..count).unwrap_or_default(), base))
        }
        Some(_) => Step::Other,
        None => Step::End,
    }
}
