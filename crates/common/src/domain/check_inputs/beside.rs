//! Sources that help the tests beside them, whatever their names are: folders that hold nothing but tests and these.
//!
//! ```text
//!   a folder has tests and no product, or its name says that it helps tests
//!     -> a test imports the source, and a product elsewhere
//!       -> no product imports any of the folder: the source is a check input
//! ```

use super::helpers::subject;
use super::language::{language_of, name_of};
use super::line::is_product;
use super::words::is_helpers;
use super::{InputKind, convention_of};
use crate::domain::manifest::{Kind, Manifest};
use std::collections::{BTreeMap, BTreeSet};

/// Words in names of folders of tests, which alone name no folder of tests by convention.
const FOLDERS: &[&str] = &[
    "acceptance",
    "bdd",
    "checks",
    "conformance",
    "contract",
    "e2e",
    "functional",
    "integration",
    "it",
    "qa",
    "regression",
    "sanity",
    "scenarios",
    "smoke",
    "system",
    "test",
    "testing",
    "testkit",
    "testlib",
    "tests",
    "testutil",
    "testutils",
    "unit",
    "validation",
    "verification",
];
/// What a source writes that decides whether a test fails.
const ASSERTS: &[&str] = &["assert", "expect("];

/// Such sources of a start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Beside {
    /// Those that may be it by where they lie; not stored.
    candidates: BTreeSet<String>,
    /// The languages of these; not stored.
    languages: BTreeSet<&'static str>,
    /// Sources that are no check inputs by convention; not stored.
    sources: BTreeSet<String>,
    /// Candidates that a test imports which loads a product elsewhere, and what these import of their folder.
    helping: BTreeSet<String>,
    /// Candidates whose text decides whether a test fails.
    asserting: BTreeSet<String>,
    /// Folders of which a product imports a candidate.
    products: BTreeSet<String>,
}

/// What a folder holds.
#[derive(Default)]
struct Folder<'p> {
    has_tests: bool,
    /// Whether it is a package of the product, or has a source that a test is named after.
    has_product: bool,
    plain: Vec<&'p str>,
}

impl Beside {
    /// The candidates of a start, which no source has imported yet.
    pub(super) fn of(start: &Manifest) -> Self {
        let entries = start.entries().iter().filter(|it| !it.ignored && it.kind == Kind::File);
        let files: Vec<(&str, u64)> = entries
            .filter_map(|entry| Some((std::str::from_utf8(&entry.path).ok()?, entry.size)))
            .filter(|(path, _)| language_of(path).is_some())
            .collect();
        let is_test = |path: &str| convention_of(path) == Some(InputKind::Test);
        let tested: BTreeSet<String> =
            files.iter().filter(|(path, _)| is_test(path)).map(|(path, _)| subject(path)).collect();
        let mut folders: BTreeMap<&str, Folder<'_>> = BTreeMap::new();
        for (path, size) in &files {
            let held = folders.entry(folder_of(path)).or_default();
            if convention_of(path).is_some() {
                held.has_tests |= is_test(path);
            } else if is_entry(path) {
                held.has_product |= *size > 0;
            } else {
                held.has_product |= tested.contains(&subject(path));
                held.plain.push(path);
            }
        }
        let mut found = Self::default();
        for (folder, held) in folders {
            let is_of_tests = held.has_tests || is_helpers(folder);
            let is_place = !folder.is_empty() && !is_product(&format!("{folder}/-"));
            // Where a test is named after the folder, that is what it is about.
            let is_tested = tested.contains(&subject(folder));
            if is_of_tests && is_place && !held.has_product && !is_tested {
                found.candidates.extend(held.plain.into_iter().map(str::to_owned));
            }
        }
        if !found.candidates.is_empty() {
            let sources = files.iter().map(|(path, _)| *path);
            let sources = sources.filter(|path| convention_of(path).is_none());
            found.sources = sources.map(str::to_owned).collect();
            found.languages = found.candidates.iter().filter_map(|it| language_of(it)).collect();
        }
        found
    }

    /// Whether the text of a file can say anything about them.
    pub(super) fn reads(&self, path: &str) -> bool {
        language_of(path).is_some_and(|language| self.languages.contains(language))
    }

    /// Whether it matters that a file imports this one.
    pub(super) fn is_about(&self, file: &String) -> bool {
        self.candidates.contains(file) || self.sources.contains(file)
    }

    /// Adds what one file imports.
    pub(super) fn add(
        &mut self,
        path: &str,
        text: &str,
        found: &BTreeSet<String>,
        is_check_input: bool,
    ) {
        if self.candidates.is_empty() {
            return;
        }
        let is_candidate = self.candidates.contains(path);
        if is_candidate && ASSERTS.iter().any(|word| text.contains(word)) {
            self.asserting.insert(path.to_owned());
        }
        for file in found.iter().filter(|file| *file != path && self.candidates.contains(*file)) {
            let folder = folder_of(file);
            let is_elsewhere =
                |other: &String| self.sources.contains(other) && folder_of(other) != folder;
            let helps = match is_check_input {
                true => found.iter().any(is_elsewhere),
                false if is_candidate && folder_of(path) == folder => true,
                false => {
                    self.products.insert(folder.to_owned());
                    false
                }
            };
            if helps {
                self.helping.insert(file.clone());
            }
        }
    }

    /// Whether a path is one of them.
    pub(super) fn holds(&self, path: &str) -> bool {
        let folder = folder_of(path);
        let lower = name_of(folder).to_ascii_lowercase();
        let mut words = lower.split(|letter: char| !letter.is_alphanumeric());
        self.helping.contains(path)
            && !self.products.contains(folder)
            && (self.asserting.contains(path) || words.any(|word| FOLDERS.contains(&word)))
    }

    /// The parts of the stored form.
    pub(super) fn encode(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let sets = [("H", &self.helping), ("B", &self.asserting), ("J", &self.products)];
        sets.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)))
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "H" => self.helping.insert(name.to_owned()),
            "B" => self.asserting.insert(name.to_owned()),
            "J" => self.products.insert(name.to_owned()),
            _ => return false,
        };
        true
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether a source stands for its folder. In a folder that helps tests by its name it may be the helper.
fn is_entry(path: &str) -> bool {
    let stem = name_of(path).split('.').next().unwrap_or_default();
    matches!(stem, "__init__" | "__main__" | "index" | "mod") && !is_helpers(folder_of(path))
        || stem == "__init__"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check_inputs::imported_files;
    use crate::domain::manifest::{Content, Entry, Place, Stamp};
    use std::sync::Arc;

    fn found(files: &[(&str, &str)]) -> Beside {
        let entry = |(path, text): &(&str, &str)| Entry {
            path: path.as_bytes().into(),
            kind: Kind::File,
            mode: 0o644,
            size: text.len() as u64,
            ignored: false,
            stamp: Stamp::default(),
            content: Content::None,
        };
        let entries = files.iter().map(entry).collect();
        let mut beside = Beside::of(&Manifest::new(Place::default(), Arc::default(), entries));
        for (path, text) in files {
            let is_check_input = convention_of(path).is_some();
            let found = imported_files(path, text).into_iter().collect();
            beside.add(path, text, &found, is_check_input);
        }
        let mut again = Beside::default();
        for (kind, name) in beside.encode() {
            assert!(again.decode(kind, name));
        }
        again
    }

    #[test]
    fn a_source_in_a_folder_of_tests_helps_them() {
        let product = ("calc.py", "def add(a, b):\n    return a + b\n");
        let test = "import calc\nfrom qa.util import same\n";
        let util = ("qa/util.py", "def same(t, a, b):\n    t.assertEqual(a, b)\n");
        let table = ("qa/util.py", "from qa import table\nCASES = table.ALL\n");
        let held = &["qa/util.py"][..];
        for (files, expected) in [
            (vec![product, util, ("qa/test_calc.py", test)], held),
            (
                vec![product, table, ("qa/table.py", "ALL = [5]\n"), ("qa/test_calc.py", test)],
                &["qa/table.py", "qa/util.py"],
            ),
            // What tests itself is the product.
            (vec![util, ("qa/test_calc.py", "from qa.util import same\n")], &[]),
            (vec![product, util, ("qa/test_calc.py", test), ("qa/test_util.py", "")], &[]),
            (vec![("calc.py", "import qa.util\n"), util, ("qa/test_calc.py", test)], &[]),
            (
                vec![product, util, ("qa/__init__.py", "VERSION = 1\n"), ("qa/test_calc.py", test)],
                &[],
            ),
            (vec![product, util, ("tests/test_calc.py", test)], &[]),
            (
                vec![
                    product,
                    ("calc_support/same.py", "def same(t, a, b):\n    t.assertEqual(a, b)\n"),
                    ("tests/test_calc.py", "import calc\nfrom calc_support.same import same\n"),
                ],
                &["calc_support/same.py"],
            ),
            (
                vec![
                    product,
                    ("contest/rules.py", "def check(rule):\n    assert rule\n"),
                    ("tests/test_contest.py", "import calc\nfrom contest.rules import check\n"),
                ],
                &[],
            ),
            // A module of a library that tests alone import.
            (
                vec![
                    product,
                    ("stats/mean.py", "def mean(values):\n    return sum(values)\n"),
                    ("stats/test_all.py", "import calc\nfrom stats.mean import mean\n"),
                ],
                &[],
            ),
        ] {
            let beside = found(&files);
            let paths: Vec<&str> =
                files.iter().map(|(path, _)| *path).filter(|path| beside.holds(path)).collect();
            let mut sorted = paths.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "{files:?}");
        }
        let files = [
            ("lib/calc.js", "exports.add = 1;\n"),
            ("test-utils/index.js", "exports.same = (a, b) => a === b;\n"),
            ("test/calc.test.js", "require('../test-utils/index.js');\nrequire('../lib/calc');\n"),
        ];
        assert!(found(&files).holds("test-utils/index.js"));
    }
}
