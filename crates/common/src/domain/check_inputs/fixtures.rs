//! Folders and files of expected output beside the tests: check inputs where a test of the start names them and no
//! product does.

use super::convention_of;
use super::keys::is_merged;
use super::language::{extension, language_of, name_of};
use super::line::is_product;
use super::words::{CHECKING, SCRIPT_FOLDERS};
use crate::domain::manifest::{Kind, Manifest};
use std::collections::BTreeSet;

/// Names of folders whose files tests read.
const FOLDERS: &[&str] = &[
    "approved",
    "baseline",
    "baselines",
    "cases",
    "cassettes",
    "expectations",
    "expected",
    "expected-output",
    "expected_output",
    "fixture",
    "fixtures",
    "golden",
    "golden-files",
    "golden_files",
    "snapshot",
    "snapshots",
    "test-cases",
    "test_cases",
    "testcases",
    "vectors",
];
/// Words in the names of such files.
const WORDS: &[&str] = &[
    "approved",
    "baseline",
    "case",
    "cases",
    "expected",
    "fixture",
    "fixtures",
    "golden",
    "snapshot",
    "test",
    "testcases",
    "testdata",
    "tests",
    "vectors",
];
/// The most places that are looked for.
const MAX_PLACES: usize = 1_000;

/// Such places, and which sources of the start name them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fixtures {
    /// Where to look; not stored.
    places: BTreeSet<String>,
    by_tests: BTreeSet<String>,
    by_products: BTreeSet<String>,
}

impl Fixtures {
    /// The places of a start, named by no source yet.
    pub(super) fn of(start: &Manifest) -> Self {
        let mut places = BTreeSet::new();
        for entry in start.entries().iter().filter(|it| !it.ignored && it.kind != Kind::Folder) {
            let path = String::from_utf8_lossy(&entry.path);
            if places.len() < MAX_PLACES && convention_of(&path).is_none() {
                places.extend(place_of(&path).map(str::to_owned));
            }
        }
        Self { places, ..Self::default() }
    }

    /// Whether the text of a file can say anything about them.
    pub(super) fn reads(&self, path: &str) -> bool {
        !self.places.is_empty() && (language_of(path).is_some() || convention_of(path).is_some())
    }

    /// Adds what one file names.
    pub(super) fn add(&mut self, path: &str, text: &str, is_check_input: bool) {
        if self.places.is_empty() || is_merged(path) {
            return;
        }
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        let stem = name_of(path).split('.').next().unwrap_or_default().to_ascii_lowercase();
        let in_scripts = folders.split('/').any(|folder| SCRIPT_FOLDERS.contains(&folder));
        let checks = !is_product(path) && CHECKING.iter().any(|word| stem.contains(word));
        // Tests inside a source of Rust stand at its end.
        let inside = text.find("#[cfg(test)]").filter(|_| language_of(path) == Some("rust"));
        let (own, tests) = match inside {
            _ if is_check_input || checks => ("", text),
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        self.by_tests.extend(self.named(folders, tests, false));
        if !in_scripts && language_of(path).is_some() {
            self.by_products.extend(self.named(folders, own, true));
        }
    }

    /// The nearest place of each name that a text in this folder names.
    fn named(&self, folders: &str, text: &str, strictly: bool) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if text.is_empty() {
            return found;
        }
        let names: BTreeSet<&str> = self.places.iter().map(|place| name_of(place)).collect();
        for name in names.into_iter().filter(|name| mentions(text, name, strictly)) {
            let above = |place: &&String| {
                let parent = place.rsplit_once('/').map_or("", |(parent, _)| parent);
                let rest = folders.strip_prefix(parent);
                let is_above = parent.is_empty()
                    || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                name_of(place) == name && is_above
            };
            found.extend(self.places.iter().filter(above).max_by_key(|it| it.len()).cloned());
        }
        found
    }

    /// Whether a path is one of them, and read by tests alone.
    pub(super) fn holds(&self, path: &str) -> bool {
        !self.by_tests.is_empty()
            && place_of(path).is_some_and(|place| {
                self.by_tests.contains(place) && !self.by_products.contains(place)
            })
    }

    /// The parts of the stored form.
    pub(super) fn encode(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let tests = self.by_tests.iter().map(|place| ("X", place));
        tests.chain(self.by_products.iter().map(|place| ("Y", place)))
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "X" => self.by_tests.insert(name.to_owned()),
            "Y" => self.by_products.insert(name.to_owned()),
            _ => return false,
        };
        true
    }
}

/// Whether a file holds what a test expects, by its name or by a folder above it.
pub(super) fn is_expected(path: &str) -> bool {
    matches!(extension(name_of(path)), Some("snap" | "golden"))
        || path.contains("__snapshots__/")
        || place_of(path).is_some()
}

/// The outermost such folder that a path lies in, else the path of such a file.
fn place_of(path: &str) -> Option<&str> {
    let mut ends = path.match_indices('/').map(|(end, _)| end);
    let is_one = |folder: &&str| {
        let name = name_of(folder).to_ascii_lowercase();
        // Products have such folders, too.
        let is_of_data =
            !matches!(name.as_str(), "cases" | "vectors") || language_of(path).is_none();
        is_of_data && FOLDERS.contains(&name.as_str())
    };
    let folder = ends.find_map(|end| path.get(..end).filter(is_one));
    folder.or_else(|| {
        let lower = name_of(path).to_ascii_lowercase();
        let mut words = lower.split(|letter: char| !letter.is_alphanumeric());
        let is_file = language_of(path).is_none() && words.any(|word| WORDS.contains(&word));
        is_file.then_some(path)
    })
}

/// Whether a text names a file or a folder, as a part of a path or in quotes.
fn mentions(text: &str, name: &str, strictly: bool) -> bool {
    let quotes = ['"', '\'', '`'];
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|it| it.chars().next_back()).unwrap_or('\n');
        let after = text.get(at + name.len()..).and_then(|it| it.chars().next()).unwrap_or('\n');
        let is_part = before == '/' || after == '/' || before == '\\' || after == '\\';
        let begins =
            before.is_whitespace() || quotes.contains(&before) || "/\\=(<,".contains(before);
        let ends = after.is_whitespace() || quotes.contains(&after) || "/\\);,|&>".contains(after);
        let is_quoted = quotes.contains(&before) && quotes.contains(&after);
        begins && ends && (is_part || is_quoted || !strictly)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(places: &[&str], files: &[(&str, &str)]) -> Fixtures {
        let places = places.iter().map(ToString::to_string).collect();
        let mut fixtures = Fixtures { places, ..Fixtures::default() };
        for (path, text) in files {
            fixtures.add(path, text, convention_of(path).is_some());
        }
        let mut again = Fixtures::default();
        for (kind, name) in fixtures.encode() {
            assert!(again.decode(kind, name));
        }
        assert_eq!(
            (&again.by_tests, &again.by_products),
            (&fixtures.by_tests, &fixtures.by_products)
        );
        fixtures
    }

    #[test]
    fn what_tests_alone_name_is_a_check_input() {
        let read = |text: &'static str| ("tests/test_a.py", text);
        for (files, path, expected) in [
            (vec![read("open('fixtures/a.txt')")], "fixtures/a.txt", true),
            (vec![read("HERE.parent / \"fixtures\" / \"a\"")], "fixtures/deep/a.json", true),
            (vec![read("@pytest.fixture\ndef fixtures(): pass")], "fixtures/a.txt", false),
            (vec![read("import a")], "fixtures/a.txt", false),
            (
                vec![read("open('fixtures/a.txt')"), ("app/load.py", "open('fixtures/a.txt')")],
                "fixtures/a.txt",
                false,
            ),
            (
                vec![read("open('fixtures/a.txt')"), ("app/load.py", "# has fixtures\n")],
                "fixtures/a.txt",
                true,
            ),
            (
                vec![read("open('fixtures/a.txt')"), ("scripts/make.py", "open('fixtures/a.txt')")],
                "fixtures/a.txt",
                true,
            ),
            (vec![("test.sh", "sh run.sh | cmp - expected.txt\n")], "expected.txt", true),
            (vec![("check.sh", "diff -r out golden\n")], "golden/x", true),
            (
                vec![(
                    "src/lib.rs",
                    "fn a() {}\n#[cfg(test)]\nmod tests { include_str!(\"../golden/x\") }",
                )],
                "golden/x",
                true,
            ),
            (vec![("src/lib.rs", "include_str!(\"../golden/x\")")], "golden/x", false),
            (vec![("web/tests/a.test.js", "read('../fixtures/a')")], "web/fixtures/a", true),
            (vec![("web/tests/a.test.js", "read('../fixtures/a')")], "fixtures/a.txt", false),
        ] {
            let places = ["fixtures", "golden", "expected.txt", "web/fixtures"];
            assert_eq!(found(&places, &files).holds(path), expected, "{path}: {files:?}");
        }
    }
}
