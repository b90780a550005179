//! Finds where a text of JSON cannot be taken as it is.

/// Bytes that are compared together: as many as one register of every processor holds.
const TOGETHER: usize = 16;

/// The place of the first byte that ends a string, begins an escape or must be escaped.
pub(super) fn special_byte(text: &[u8]) -> Option<usize> {
    let (chunks, rest) = text.as_chunks::<TOGETHER>();
    // Without a way out inside, so that the compiler compares all bytes of a chunk at once.
    let has_one =
        |chunk: &[u8; TOGETHER]| chunk.iter().fold(false, |found, byte| found | is_special(*byte));
    let plain = chunks.iter().position(has_one).unwrap_or(chunks.len()) * TOGETHER;
    let rest = text.get(plain..).unwrap_or(rest);
    rest.iter().position(|byte| is_special(*byte)).map(|place| plain + place)
}

const fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use super::special_byte;

    #[test]
    fn the_first_special_byte_is_found_wherever_it_stands() {
        assert_eq!(special_byte(b""), None);
        for length in [1, 15, 16, 17, 31, 32, 33, 100] {
            let plain = vec![b'~'; length];
            assert_eq!(special_byte(&plain), None, "{length}");
            for special in [0, 0x1f, b'"', b'\\'] {
                for place in 0..length {
                    let mut text = plain.clone();
                    text[length - 1] = b'"';
                    text[place] = special;
                    assert_eq!(special_byte(&text), Some(place), "{special} of {length}");
                }
            }
        }
        assert_eq!(special_byte("é\u{7f} ß".as_bytes()), None);
    }
}
