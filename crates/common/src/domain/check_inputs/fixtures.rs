//! Folders and files of expected output beside the tests: check inputs where a test of the start names them and no
//! product does.

use super::helpers::subject;
use super::keys::is_merged;
use super::language::{extension, language_of, name_of};
use super::line::is_product;
use super::namesakes::{folder_of_data, folders_of_data};
use super::words::{CHECKING, SCRIPT_FOLDERS};
use super::{InputKind, convention_of};
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
/// Of these names, those that packages of products have too.
const OF_PACKAGES: &[&str] =
    &["approved", "baseline", "baselines", "expected", "snapshot", "snapshots"];
/// Of these, those of packages that may be all that a test is about.
const OF_TESTED: &[&str] = &["baseline", "snapshot", "snapshots"];
/// Words in the names of such files.
const WORDS: &[&str] = &[
    "answers",
    "approved",
    "baseline",
    "case",
    "cases",
    "expected",
    "fixture",
    "fixtures",
    "golden",
    "ref",
    "reference",
    "snapshot",
    "test",
    "testcases",
    "testdata",
    "tests",
    "vectors",
    "want",
    "wanted",
];
/// Of these words, those that say only that a file has to do with tests.
const OF_TESTS: &[&str] = &["test", "tests"];
/// Words in the names of files that a suite writes about its run, and their extensions.
const REPORTS: &[&str] = &[
    "coverage", "db", "last", "lcov", "log", "report", "reports", "result", "results", "sqlite",
    "sqlite3", "summary", "tap", "trs",
];
/// Extensions of texts for people.
const DOCUMENTS: &[&str] = &["adoc", "htm", "html", "md", "rst"];
/// The most places that are looked for.
const MAX_PLACES: usize = 1_000;

/// Such places, and which sources of the start name them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fixtures {
    /// Where to look; not stored.
    places: BTreeSet<String>,
    by_tests: BTreeSet<String>,
    by_products: BTreeSet<String>,
    /// Places that a test names by a path, other than where it imports.
    read_by_tests: BTreeSet<String>,
    /// Places that a product imports, or a test that is named after them.
    packages: BTreeSet<String>,
    /// What tests are about by their names; not stored.
    tested: BTreeSet<String>,
}

impl Fixtures {
    /// The places of a start, named by no source yet.
    pub(super) fn of(start: &Manifest) -> Self {
        let mut found = Self::default();
        for entry in start.entries().iter().filter(|it| !it.ignored && it.kind != Kind::Folder) {
            let path = String::from_utf8_lossy(&entry.path);
            let convention = convention_of(&path);
            if found.places.len() < MAX_PLACES && convention.is_none() {
                found.places.extend(place_of(&path).map(str::to_owned));
            }
            if convention == Some(InputKind::Test) && language_of(&path).is_some() {
                let subject = subject(&path);
                found.tested.extend(OF_TESTED.contains(&subject.as_str()).then_some(subject));
            }
        }
        found.places.extend(folders_of_data(start));
        found
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
        let names = |text: &str, name: &str| {
            let is_package = OF_TESTED.contains(&name) || name == "approved";
            mentions(text, name, false) || !is_package && imports(text, name)
        };
        self.by_tests.extend(self.named(folders, tests, names));
        self.read_by_tests.extend(self.named(folders, tests, reads));
        let tested = &self.tested;
        let of_tests = |text: &str, name: &str| tested.contains(name) && imports(text, name);
        let mut packages = self.named(folders, tests, of_tests);
        if !in_scripts && language_of(path).is_some() {
            packages.extend(self.named(folders, own, imports));
            self.by_products.extend(self.named(folders, own, |text, it| mentions(text, it, true)));
        }
        self.packages.extend(packages);
    }

    /// The nearest place of each name that a text in this folder has in this way.
    fn named(
        &self,
        folders: &str,
        text: &str,
        has: impl Fn(&str, &str) -> bool,
    ) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if text.is_empty() {
            return found;
        }
        let names: BTreeSet<&str> = self.places.iter().map(|place| name_of(place)).collect();
        for name in names.into_iter().filter(|name| has(text, name)) {
            let above = |place: &&String| {
                let parent = place.rsplit_once('/').map_or("", |(parent, _)| parent);
                let rest = folders.strip_prefix(parent);
                let is_above = parent.is_empty()
                    || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                name_of(place) == name && is_above
            };
            let nearest = self.places.iter().filter(above).max_by_key(|it| it.len());
            // Elsewhere a text spells the path, or the folder that the place lies in.
            let spells = |place: &&String| {
                let parent = place.rsplit_once('/').map_or("", |(parent, _)| parent);
                let is_one = name_of(place) == name && !above(place) && !parent.is_empty();
                let by_parts = || [name_of(parent), name].iter().all(|it| mentions(text, it, true));
                is_one && (text.contains(place.as_str()) || by_parts())
            };
            found.extend(self.places.iter().filter(spells).chain(nearest).cloned());
        }
        found
    }

    /// Whether a path is one of them, and read by tests alone.
    pub(super) fn holds(&self, path: &str) -> bool {
        !self.by_tests.is_empty()
            && place_of(path).is_some_and(|place| {
                self.by_tests.contains(place)
                    && !self.by_products.contains(place)
                    && !self.is_of_package(path, place)
            })
    }

    /// Whether data lies in a folder of specifications that products name and tests do not.
    pub(super) fn is_of_products(&self, path: &str) -> bool {
        let folder = folder_of_data(path).filter(|_| language_of(path).is_none());
        folder.is_some_and(|it| self.by_products.contains(it) && !self.by_tests.contains(it))
    }

    /// Whether a source belongs to a package of the product that has the name of such a place.
    fn is_of_package(&self, path: &str, place: &str) -> bool {
        language_of(path).is_some()
            && OF_PACKAGES.contains(&name_of(place).to_ascii_lowercase().as_str())
            && self.packages.contains(place)
            && !self.read_by_tests.contains(place)
    }

    /// The parts of the stored form.
    pub(super) fn encode(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let sets = [
            ("X", &self.by_tests),
            ("Y", &self.by_products),
            ("W", &self.read_by_tests),
            ("Z", &self.packages),
        ];
        sets.into_iter().flat_map(|(kind, places)| places.iter().map(move |place| (kind, place)))
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "X" => self.by_tests.insert(name.to_owned()),
            "Y" => self.by_products.insert(name.to_owned()),
            "W" => self.read_by_tests.insert(name.to_owned()),
            "Z" => self.packages.insert(name.to_owned()),
            _ => return false,
        };
        true
    }
}

/// Whether a file holds what a test expects, by its name or by a folder above it.
pub(super) fn is_expected(path: &str) -> bool {
    matches!(extension(name_of(path)), Some("snap" | "golden"))
        || path.contains("__snapshots__/")
        || place_of(path).is_some_and(|place| place != path || !is_report(path))
}

/// Whether a file is what a suite writes about its run: its name says so, and not that tests expect it.
pub(super) fn is_report(path: &str) -> bool {
    let lower = name_of(path).to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_alphanumeric()).collect();
    let is_expected = |word: &&str| WORDS.contains(word) && !OF_TESTS.contains(word);
    words.iter().any(|word| REPORTS.contains(word)) && !words.iter().any(is_expected)
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
        let is_text = extension(&lower).is_some_and(|it| DOCUMENTS.contains(&it));
        // Documents have such names for their readers.
        let is_word = |word: &str| {
            WORDS.contains(&word) && !(is_text && matches!(word, "answers" | "reference"))
        };
        let is_file = language_of(path).is_none() && words.any(is_word);
        is_file.then_some(path)
    })
}

/// Whether a line of a program imports something.
fn is_import(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let behind = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        behind.map_or(rest, |(_, rest)| rest).trim_start()
    });
    let begins =
        ["#include", "from ", "import ", "include", "load", "mod ", "require", "use ", "using "];
    let inside = ["require(", "import(", " from '", " from \""];
    begins.iter().any(|word| line.starts_with(word)) || inside.iter().any(|it| line.contains(it))
}

/// Whether a text imports a module or a package of this name.
fn imports(text: &str, name: &str) -> bool {
    let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.lines().filter(|line| line.contains(name) && is_import(line)).any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let before = line.get(..at).and_then(|it| it.chars().next_back());
            let after = line.get(at + name.len()..).and_then(|it| it.chars().next());
            !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
        })
    })
}

/// Whether a text names a file or a folder by a path, other than where it imports.
fn reads(text: &str, name: &str) -> bool {
    let mut lines = text.lines().filter(|line| line.contains(name) && !is_import(line));
    lines.any(|line| mentions(line, name, true))
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
        let tested = BTreeSet::from(["baseline".to_owned()]);
        let mut fixtures = Fixtures { places, tested, ..Fixtures::default() };
        for (path, text) in files {
            fixtures.add(path, text, convention_of(path).is_some());
        }
        let mut again = Fixtures::default();
        for (kind, name) in fixtures.encode() {
            assert!(again.decode(kind, name));
        }
        again.places.clone_from(&fixtures.places);
        again.tested.clone_from(&fixtures.tested);
        assert_eq!(again, fixtures);
        fixtures
    }

    #[test]
    fn a_place_elsewhere_is_named_by_its_path_or_its_parts() {
        let test = |text: &'static str| ("tests/test_a.py", text);
        for (files, path, expected) in [
            (vec![test("open('data/expected/a.txt')\n")], "data/expected/a.txt", true),
            (vec![test("join('data', 'expected', name)\n")], "data/expected/a.txt", true),
            (vec![test("import data\nexpected = 3\n")], "data/expected/a.txt", false),
            (
                vec![
                    test("open('data/expected/a.txt')\n"),
                    ("app.py", "open('data/expected/a.txt')\n"),
                ],
                "data/expected/a.txt",
                false,
            ),
        ] {
            assert_eq!(found(&["data/expected"], &files).holds(path), expected, "{files:?}");
        }
    }

    #[test]
    fn a_package_of_the_product_is_no_expected_output() {
        let test = |text: &'static str| ("tests/test_a.py", text);
        let imports = "from snapshot import take\n";
        for (files, path, expected) in [
            (vec![test(imports), ("app.py", imports)], "snapshot/__init__.py", false),
            (vec![test(imports), ("app.py", imports)], "snapshot/data.json", true),
            (vec![test(imports)], "snapshot/__init__.py", true),
            (vec![test("open('snapshot/a.py')\n"), ("app.py", imports)], "snapshot/a.py", true),
            (vec![test("import baseline\n")], "baseline/__init__.py", false),
            (vec![test("from expected import sums\n")], "expected/sums.py", true),
            (vec![test("from expected.sums import A\n")], "expected/sums.py", true),
            (vec![test("from snapshot.core import a\n")], "snapshot/core.py", false),
            (
                vec![(
                    "src/lib.rs",
                    "pub mod snapshot;\n#[cfg(test)]\nmod tests { let snapshot = a(); }",
                )],
                "src/snapshot/mod.rs",
                false,
            ),
            (
                vec![("test/app.test.js", "const golden = require('../golden/sums.js');\n")],
                "golden/sums.js",
                true,
            ),
        ] {
            let places = ["snapshot", "baseline", "expected", "golden", "src/snapshot"];
            assert_eq!(found(&places, &files).holds(path), expected, "{path}: {files:?}");
        }
    }

    #[test]
    fn what_a_suite_writes_about_its_run_is_no_expected_output() {
        for (path, expected) in [
            ("test-report.txt", false),
            ("tests/test.db", false),
            ("last-test.txt", false),
            ("test.log", false),
            ("test-1.txt", true),
            ("tests/cases.txt", true),
            ("tests/expected_results.txt", true),
            ("golden/test.log", true),
            ("a.snap", true),
            ("want.txt", true),
            ("docs/reference.md", false),
        ] {
            assert_eq!(is_expected(path), expected, "{path}");
        }
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
