//! Parts of lines that several runners print.

use crate::domain::tests_seen::counts::Counts;

/// A text without the sequences that colour it.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => {
                if letters.next() == Some('[') {
                    for letter in letters.by_ref() {
                        if ('\u{40}'..='\u{7e}').contains(&letter) {
                            break;
                        }
                    }
                }
            }
            '\r' => out.push('\n'),
            letter => out.push(letter),
        }
    }
    out
}

/// The sum of what some lines say; none when no line says anything.
pub(super) fn sum(found: impl Iterator<Item = Counts>) -> Option<Counts> {
    found.reduce(Counts::plus)
}

/// A list such as `3 passed, 1 skipped`: each number with the word after it.
pub(super) fn pairs(text: &str, between: &[char]) -> Option<Vec<(u64, String)>> {
    let pair = |part: &str| {
        let (number, word) = part.trim().split_once(' ')?;
        Some((number.parse().ok()?, word.trim().to_owned()))
    };
    text.split(between).filter(|part| !part.trim().is_empty()).map(pair).collect()
}

/// A list such as `Failures: 0, Passed: 3`: each word with the number after it.
pub(super) fn labels(text: &str) -> Vec<(String, u64)> {
    let label = |part: &str| {
        let (word, number) = part.rsplit_once(':')?;
        let number = number.trim().trim_end_matches('.');
        Some((word.trim().to_owned(), number.parse().ok()?))
    };
    text.split(',').filter_map(label).collect()
}

pub(super) fn number_in(labels: &[(String, u64)], wanted: &str) -> u64 {
    labels.iter().find(|(word, _)| word == wanted).map_or(0, |(_, number)| *number)
}
