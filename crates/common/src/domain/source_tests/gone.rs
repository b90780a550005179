//! The tests of a source file that is gone: they may have moved with the rest of it.

use super::compare::restored;
use super::item::{Item, Items};
use super::language::{is_same_language, items, without_mark};
use std::collections::BTreeMap;

/// What became of the tests of a file that is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    /// The names of tests that stand in no other file.
    pub lost: Vec<String>,
    /// The file that has most of what is no test, and its text with these tests.
    pub restored: Option<(Vec<u8>, String)>,
}

/// Looks for the tests of a file in changed and added ones, each with its path, its text and whether it may get
/// tests that are lost; none where the file had no tests.
pub fn compare_gone(path: &[u8], before: &str, others: &[(&[u8], &str, bool)]) -> Option<Gone> {
    let before = without_mark(before);
    let old =
        items(path, before).filter(|old| old.tests.iter().any(|test| !test.parts.is_empty()))?;
    let read = |(other, text, is_free): &(&[u8], &str, bool)| {
        let is_one = is_same_language(path, other);
        let text = without_mark(text).to_owned();
        is_one
            .then(|| items(other, &text))
            .flatten()
            .map(|found| (other.to_vec(), text, found, *is_free))
    };
    let found: Vec<(Vec<u8>, String, Items, bool)> = others.iter().filter_map(read).collect();
    let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
    for part in found.iter().flat_map(|(_, _, now, _)| &now.tests).flat_map(|test| &test.parts) {
        *parts.entry(part).or_default() += 1;
    }
    let mut stands = |item: &&Item| {
        let mut all = true;
        for part in &item.parts {
            match parts.get_mut(part.as_str()) {
                Some(count) if *count > 0 => *count -= 1,
                Some(_) | None => all = false,
            }
        }
        all
    };
    let lost: Vec<&Item> = old.tests.iter().filter(|item| !stands(item)).collect();
    let names = keys(&old);
    let shared = |now: &Items| keys(now).iter().filter(|key| names.contains(*key)).count();
    let fit = found.iter().filter(|(_, _, now, is_free)| *is_free && shared(now) > 0);
    let heir = fit.max_by_key(|(_, _, now, _)| shared(now));
    let heir = heir.filter(|(_, _, now, _)| shared(now) * 2 >= names.len() && !lost.is_empty());
    let text = heir.and_then(|(other, text, now, _)| {
        Some((other.clone(), restored(other, before, text, &lost, now)?))
    });
    Some(Gone { lost: lost.iter().map(|item| item.name.clone()).collect(), restored: text })
}

/// The items that are no tests.
fn keys(items: &Items) -> Vec<&String> {
    let named = items.places.keys().filter(|key| !key.is_empty() && !key.contains('!'));
    let mut all: Vec<&String> = items.others.keys().chain(named).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: &str = "pub fn add(a: i32) -> i32 {\n    a\n}\npub struct Sum;\n";
    const TESTS: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1), 1);\n    }\n}\n";

    #[test]
    fn tests_move_with_their_file_or_are_put_into_its_heir() {
        let before = format!("{PRODUCT}{TESTS}");
        let look =
            |others: &[(&[u8], &str, bool)]| compare_gone(b"src/a.rs", &before, others).unwrap();
        let moved = look(&[(b"src/a/mod.rs", &before, true)]);
        assert_eq!(moved, Gone::default());
        // The tests may go elsewhere than the rest.
        let apart = look(&[(b"src/b.rs", PRODUCT, true), (b"src/c.rs", TESTS, true)]);
        assert_eq!(apart, Gone::default());
        let without =
            look(&[(b"src/z.rs", "fn other() {}", true), (b"src/a/mod.rs", PRODUCT, true)]);
        assert_eq!(without.lost, ["tests"]);
        let (path, text) = without.restored.unwrap();
        assert_eq!(path, b"src/a/mod.rs");
        assert!(text.contains("fn adds()"), "{text}");
        let deleted = look(&[(b"src/z.rs", "fn other() {}", true), (b"lib.py", PRODUCT, true)]);
        assert_eq!((deleted.lost.len(), deleted.restored), (1, None));
        assert_eq!(compare_gone(b"src/a.rs", PRODUCT, &[]), None);
    }
}
