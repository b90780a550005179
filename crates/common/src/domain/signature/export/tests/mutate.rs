//! Changes of a file, in each class of characters of each line. The end-to-end tests read this file too.

use std::collections::BTreeSet;

/// What a character of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Letter,
    Digit,
    Quote,
    Bracket,
    Colon,
    Comma,
    Backslash,
    Blank,
    LineEnd,
    Sign,
    Beyond,
}

impl Class {
    const ALL: [Self; 11] = [
        Self::Letter,
        Self::Digit,
        Self::Quote,
        Self::Bracket,
        Self::Colon,
        Self::Comma,
        Self::Backslash,
        Self::Blank,
        Self::LineEnd,
        Self::Sign,
        Self::Beyond,
    ];

    const fn of(letter: char) -> Self {
        match letter {
            'a'..='z' | 'A'..='Z' => Self::Letter,
            '0'..='9' => Self::Digit,
            '"' => Self::Quote,
            '{' | '}' | '[' | ']' => Self::Bracket,
            ':' => Self::Colon,
            ',' => Self::Comma,
            '\\' => Self::Backslash,
            ' ' => Self::Blank,
            '\n' => Self::LineEnd,
            other if other.is_ascii() => Self::Sign,
            _ => Self::Beyond,
        }
    }

    /// Another character of the class, and one of another class.
    fn others(self, letter: char) -> Vec<char> {
        let same = match (self, letter) {
            (Self::Letter, 'z') => Some('y'),
            (Self::Letter, 'Z') => Some('Y'),
            (Self::Digit, '9') => Some('0'),
            (Self::Letter | Self::Digit, _) => char::from_u32(u32::from(letter) + 1),
            (Self::Bracket, '{') => Some('['),
            (Self::Bracket, '[') => Some('{'),
            (Self::Bracket, '}') => Some(']'),
            (Self::Bracket, _) => Some('}'),
            (Self::Blank, _) => Some('\t'),
            (Self::LineEnd, _) => Some('\r'),
            (Self::Sign, '-') => Some('_'),
            (Self::Sign, _) => Some('-'),
            (Self::Beyond, '写') => Some('冩'),
            (Self::Beyond, _) => Some('写'),
            (Self::Quote | Self::Colon | Self::Comma | Self::Backslash, _) => None,
        };
        let other = if self == Self::Letter { '5' } else { 'x' };
        same.into_iter().chain([other]).collect()
    }
}

/// What the line at a place of a file is.
pub(super) fn kind_at(file: &str, place: usize) -> &str {
    let mut end = 0;
    let mut lines = file.split_inclusive('\n');
    let line = lines.find(|line| {
        end += line.len();
        place < end
    });
    kind(line.unwrap_or_default())
}

/// The name of what a line is: its first member, or that it is a receipt.
fn kind(line: &str) -> &str {
    if line.contains("\"seq\":") {
        return "receipt";
    }
    line.split('"').nth(1).unwrap_or_default()
}

/// Shows changes of a file to `seen`, each with its place, and returns how many. In each line one character of each class is
/// replaced by another of the class and by one of another class, and taken out; blanks are put before and behind the line
/// and within it. Every class of characters that a kind of lines has is changed.
pub(super) fn mutate(file: &str, mut seen: impl FnMut(&str, usize)) -> u32 {
    let (mut there, mut changed) = (BTreeSet::new(), BTreeSet::new());
    let (mut start, mut count) = (0, 0);
    let mut show = |from: usize, to: usize, put: &str| {
        let mutated = [file.get(..from), Some(put), file.get(to..)];
        let mutated: String = mutated.into_iter().map(|part| part.expect("a part")).collect();
        assert_ne!(mutated, file, "at {from}");
        seen(&mutated, from);
        count += 1;
    };
    for line in file.split_inclusive('\n') {
        there.extend(line.chars().map(|letter| (kind(line), Class::of(letter))));
        let mut blanks = vec![start, start + line.trim_end_matches('\n').len()];
        for class in Class::ALL {
            let of_class =
                || line.char_indices().filter(move |(_, letter)| Class::of(*letter) == class);
            let Some((at, letter)) = of_class().nth(of_class().count() / 2) else { continue };
            let (from, to) = (start + at, start + at + letter.len_utf8());
            for other in class.others(letter) {
                show(from, to, &other.to_string());
            }
            show(from, to, "");
            changed.insert((kind(line), class));
            if matches!(class, Class::Comma | Class::Colon | Class::Bracket) {
                blanks.push(to);
            }
        }
        for at in blanks {
            for blank in [" ", "\t", "\n", "\r"] {
                show(at, at, blank);
            }
        }
        start += line.len();
    }
    assert_eq!(there, changed, "a class of characters of a kind of lines is left out");
    count
}
