//! Suggests a known key for an unknown one.

use crate::failure::{Code, Failure};

/// The known word with the smallest difference, unless all differ in most of their letters.
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    known
        .iter()
        .map(|candidate| (distance(&word, candidate), *candidate))
        .min()
        .filter(|(distance, candidate)| distance * 2 <= candidate.chars().count().max(2))
        .map(|(_, candidate)| candidate)
}

pub(crate) fn unknown_key(path: &str, key: &str, known: &[&str]) -> Failure {
    let whole = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let mut sorted = known.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let advice = match nearest(key, &sorted) {
        Some(near) => format!("Did you mean `{near}`? Known keys: {}.", sorted.join(", ")),
        None => format!("Known are {}.", sorted.join(", ")),
    };
    Failure::new(Code::UnknownKey, format!("`{whole}` is not a key of this file"), advice).at(whole)
}

/// The number of letters to insert, remove or change.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut before = at;
        let mut last = at + 1;
        let mut next = vec![last];
        for (other, above) in right.iter().zip(row.iter().skip(1)) {
            let changed = before + usize::from(letter != *other);
            last = changed.min(last + 1).min(above + 1);
            before = *above;
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
