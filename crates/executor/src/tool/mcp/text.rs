//! Texts of servers, made harmless.

/// The longest text of a server in one line of an error or a summary, in bytes.
const LONGEST_LINE: usize = 300;

/// A text of a server as one bounded line, without control characters.
pub(super) fn line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).collect();
    let mut line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if line.len() > LONGEST_LINE {
        cut(&mut line, LONGEST_LINE);
        line.push_str("...");
    }
    line
}

/// Cuts a text at a character.
pub(super) fn cut(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
