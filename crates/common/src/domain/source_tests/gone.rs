//! The tests of a source file that is gone: they may have moved with the rest of it.

use super::compare::restored;
use super::item::{Item, Items};
use super::language::{Language, items, language, without_mark};
use std::collections::BTreeMap;

/// What became of the tests of a file that is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gone {
    /// The names of tests that stand in no other file.
    pub lost: Vec<String>,
    /// The file that has most of what is no test, and its text with these tests.
    pub restored: Option<(Vec<u8>, String)>,
}

/// Changed and added sources, each read once: they may have the tests of sources that are gone.
#[derive(Debug, Default)]
pub struct Remaining {
    sources: Vec<Source>,
    of_language: BTreeMap<Language, Index>,
}

#[derive(Debug)]
struct Source {
    path: Vec<u8>,
    text: String,
    items: Items,
}

/// What the sources of one language have.
#[derive(Debug, Default)]
struct Index {
    /// How often each part of a test stands in them.
    parts: BTreeMap<String, usize>,
    /// The sources that have each item that is no test.
    keys: BTreeMap<String, Vec<usize>>,
}

impl Remaining {
    /// Reads a source. One that does not read has no tests.
    pub fn add(&mut self, path: &[u8], text: &str) {
        let text = without_mark(text).to_owned();
        let Some(language) = language(path) else { return };
        let Some(items) = items(path, &text) else { return };
        let index = self.of_language.entry(language).or_default();
        for part in items.tests.iter().flat_map(|test| &test.parts) {
            *index.parts.entry(part.clone()).or_default() += 1;
        }
        for key in keys(&items) {
            index.keys.entry(key.clone()).or_default().push(self.sources.len());
        }
        self.sources.push(Source { path: path.to_vec(), text, items });
    }

    /// Looks for the tests of a file that is gone; none where it had no tests. Those that are lost are put into a
    /// source that `is_free`.
    pub fn compare_gone(
        &self,
        path: &[u8],
        before: &str,
        is_free: impl Fn(&[u8]) -> bool,
    ) -> Option<Gone> {
        let before = without_mark(before);
        let old = items(path, before)
            .filter(|old| old.tests.iter().any(|test| !test.parts.is_empty()))?;
        let none = Index::default();
        let index = language(path).and_then(|it| self.of_language.get(&it)).unwrap_or(&none);
        let lost = index.lost(&old.tests);
        let names = keys(&old);
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        for source in names.iter().filter_map(|name| index.keys.get(*name)).flatten() {
            *shared.entry(*source).or_default() += 1;
        }
        let heir = shared
            .iter()
            .filter_map(|(source, count)| Some((self.sources.get(*source)?, *count)))
            .filter(|(source, _)| is_free(&source.path))
            .max_by_key(|(_, count)| *count)
            .filter(|(_, count)| count * 2 >= names.len() && !lost.is_empty());
        let text = heir.and_then(|(Source { path, text, items }, _)| {
            Some((path.clone(), restored(path, before, text, &lost, items)?))
        });
        Some(Gone { lost: lost.iter().map(|item| item.name.clone()).collect(), restored: text })
    }
}

impl Index {
    /// The tests of which a part stands in no source.
    fn lost<'t>(&self, tests: &'t [Item]) -> Vec<&'t Item> {
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        let mut lost = Vec::new();
        for test in tests {
            let mut stands = true;
            for part in &test.parts {
                let used = used.entry(part).or_default();
                match self.parts.get(part) {
                    Some(count) if *used < *count => *used += 1,
                    Some(_) | None => stands = false,
                }
            }
            lost.extend((!stands).then_some(test));
        }
        lost
    }
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
        let look = |others: &[(&[u8], &str)]| {
            let mut remaining = Remaining::default();
            others.iter().for_each(|(path, text)| remaining.add(path, text));
            remaining.compare_gone(b"src/a.rs", &before, |_| true).unwrap()
        };
        let moved = look(&[(b"src/a/mod.rs", &before)]);
        assert_eq!(moved, Gone::default());
        // The tests may go elsewhere than the rest.
        let apart = look(&[(b"src/b.rs", PRODUCT), (b"src/c.rs", TESTS)]);
        assert_eq!(apart, Gone::default());
        let without = look(&[(b"src/z.rs", "fn other() {}"), (b"src/a/mod.rs", PRODUCT)]);
        assert_eq!(without.lost, ["tests"]);
        let (path, text) = without.restored.unwrap();
        assert_eq!(path, b"src/a/mod.rs");
        assert!(text.contains("fn adds()"), "{text}");
        let deleted = look(&[(b"src/z.rs", "fn other() {}"), (b"lib.py", PRODUCT)]);
        assert_eq!((deleted.lost.len(), deleted.restored), (1, None));
        assert_eq!(Remaining::default().compare_gone(b"src/a.rs", PRODUCT, |_| true), None);
    }
}
