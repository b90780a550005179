//! Products that are named like tests: sources such as `src/commands/test.js`, and data such as `spec/openapi.json`.

use super::convention::is_test_by_name;
use super::helpers::helps_by_name;
use super::language::language_of;
use super::words::is_of_checks;
use crate::domain::manifest::{Kind, Manifest};
use std::collections::BTreeSet;

/// Words of sources that test something.
const TESTING: &[&str] =
    &["TestCase", "assert", "def test", "expect(", "node:test", "pytest", "unittest"];
/// Functions that tests are given to.
const FUNCTIONS: &[&str] = &["describe(", "it(", "suite(", "test("];
/// Folders of specifications of products, beside those of tests.
const FOLDERS: &[&str] = &["spec", "specs"];

/// Sources of the start that only their names call tests, and what the start says of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Namesakes {
    /// What to look for; not stored.
    candidates: BTreeSet<String>,
    /// Their languages; not stored.
    languages: BTreeSet<&'static str>,
    /// Those that test nothing.
    plain: BTreeSet<String>,
    /// Those that a product imports.
    loaded: BTreeSet<String>,
}

impl Namesakes {
    /// The candidates of a start, which no source has imported yet.
    pub(super) fn of(start: &Manifest) -> Self {
        let files = start.entries().iter().filter(|it| !it.ignored && it.kind == Kind::File);
        let paths = files.filter_map(|entry| std::str::from_utf8(&entry.path).ok());
        let is_one = |path: &&str| {
            matches!(language_of(path), Some("javascript" | "python")) && is_test_by_name(path)
        };
        let candidates: BTreeSet<String> = paths.filter(is_one).map(str::to_owned).collect();
        let languages = candidates.iter().filter_map(|path| language_of(path)).collect();
        Self { candidates, languages, ..Self::default() }
    }

    /// Whether the text of a file can say anything about them.
    pub(super) fn reads(&self, path: &str) -> bool {
        language_of(path).is_some_and(|language| self.languages.contains(language))
    }

    /// Whether it matters that a file imports this one.
    pub(super) fn is_about(&self, file: &String) -> bool {
        self.candidates.contains(file)
    }

    /// Adds what one file says and imports. A program that checks imports tests as a product imports its parts.
    pub(super) fn add(
        &mut self,
        path: &str,
        text: &str,
        found: &BTreeSet<String>,
        is_check_input: bool,
    ) {
        if self.candidates.contains(path) && !tests(text) {
            self.plain.insert(path.to_owned());
        }
        if !is_check_input && !is_of_checks(path) && !helps_by_name(path) {
            let own = found.iter().filter(|file| *file != path && self.candidates.contains(*file));
            self.loaded.extend(own.cloned());
        }
    }

    /// Whether a source is a product all the same.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.plain.contains(path) && self.loaded.contains(path)
    }

    /// The parts of the stored form.
    pub(super) fn encode(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let sets = [("U", &self.plain), ("V", &self.loaded)];
        sets.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)))
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "U" => self.plain.insert(name.to_owned()),
            "V" => self.loaded.insert(name.to_owned()),
            _ => return false,
        };
        true
    }
}

/// Whether a source tests something.
fn tests(text: &str) -> bool {
    let is_of_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.' | '$');
    let is_called = |name: &&str| {
        let before = |(at, _)| text.get(..at).and_then(|it: &str| it.chars().next_back());
        text.match_indices(*name).map(before).any(|before| !before.is_some_and(is_of_word))
    };
    TESTING.iter().any(|word| text.contains(word)) || FUNCTIONS.iter().any(is_called)
}

/// The outermost folders of specifications that hold no source of a program.
pub(super) fn folders_of_data(start: &Manifest) -> BTreeSet<String> {
    let files = start.entries().iter().filter(|it| !it.ignored && it.kind != Kind::Folder);
    let paths: Vec<&str> =
        files.filter_map(|entry| std::str::from_utf8(&entry.path).ok()).collect();
    let mut found: BTreeSet<String> =
        paths.iter().filter_map(|path| folder_of_data(path)).map(str::to_owned).collect();
    for path in paths.iter().filter(|path| language_of(path).is_some()) {
        folder_of_data(path).map(|folder| found.remove(folder));
    }
    found
}

/// The outermost folder of specifications that a path lies in.
pub(super) fn folder_of_data(path: &str) -> Option<&str> {
    let mut ends = path.match_indices('/').map(|(end, _)| end);
    let is_one = |folder: &&str| {
        let name = folder.rsplit('/').next().unwrap_or(folder).to_ascii_lowercase();
        FOLDERS.contains(&name.as_str())
    };
    ends.find_map(|end| path.get(..end).filter(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_product_where_it_tests_nothing_and_a_product_imports_it() {
        let named = "src/commands/test.js";
        let imports = BTreeSet::from([named.to_owned()]);
        let plain = "exports.run = () => 1;\n";
        for (text, importer, is_check_input, expected) in [
            (plain, "src/commands/index.js", false, true),
            (plain, "test/all.js", true, false),
            (plain, "scripts/check.js", false, false),
            (plain, "harness.js", false, false),
            ("exports.run = () => process.exit(1);\n", "src/commands/index.js", false, true),
            ("it('runs', () => {});\n", "src/commands/index.js", false, false),
            ("require('assert')(1);\n", "src/commands/index.js", false, false),
        ] {
            let mut found =
                Namesakes { candidates: BTreeSet::from([named.to_owned()]), ..Default::default() };
            found.add(named, text, &BTreeSet::new(), true);
            found.add(importer, "", &imports, is_check_input);
            let mut again = Namesakes::default();
            for (kind, name) in found.encode() {
                assert!(again.decode(kind, name));
            }
            assert_eq!(again.holds(named), expected, "{importer} {text}");
        }
    }
}
