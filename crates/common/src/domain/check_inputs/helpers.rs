//! Sources beside the tests that help them by their names: check inputs where tests import them and no product does.

use super::language::{language_of, name_of};
use super::line::is_product;
use super::words::{CHECKING, SCRIPT_FOLDERS, has_word};
use super::{InputKind, InputRules, convention_of};
use crate::domain::manifest::{Kind, Manifest};
use std::collections::BTreeSet;

/// Words in the names of such sources.
const WORDS: &[&str] = &[
    "assert",
    "assertion",
    "assertions",
    "asserts",
    "expect",
    "expectations",
    "harness",
    "matcher",
    "matchers",
    "mocks",
    "stubs",
    "testhelper",
    "testhelpers",
    "testing",
    "testkit",
    "testlib",
    "testrunner",
    "testsupport",
    "testutil",
    "testutils",
];

/// Whether a source helps tests by its name. One below a folder of products is a product.
pub(super) fn helps_by_name(path: &str) -> bool {
    let stem = name_of(path).split('.').next().unwrap_or_default().to_ascii_lowercase();
    let mut words = stem.split(['_', '-']);
    let language = language_of(path);
    // Products in other languages have such modules too.
    let is_helper = |word: &str| language == Some("shell") && matches!(word, "helper" | "helpers");
    language.is_some()
        && convention_of(path).is_none()
        && !is_product(path)
        && words.any(|word| WORDS.contains(&word) || is_helper(word))
}

/// Of the files that a script imports, those that help it to check by their names and that no test is about. Beside the
/// script, in a folder of scripts, more names say so: elsewhere products have them.
pub fn helpers_of_script(script: &str, imported: &[String], start: &Manifest) -> Vec<String> {
    const OTHERS: &[&str] = &["common", "helper", "util"];
    let folder = script.rsplit_once('/').map(|(folder, _)| folder);
    let is_of_scripts = |folder: &&str| folder.split('/').any(|it| SCRIPT_FOLDERS.contains(&it));
    let folder = folder.filter(is_of_scripts).map(|folder| format!("{folder}/"));
    let helps = |path: &&String| {
        let is_beside = folder.as_deref().is_some_and(|folder| path.starts_with(folder));
        let by_name = is_beside && (has_word(path, CHECKING) || has_word(path, OTHERS));
        (by_name || helps_by_name(path)) && !is_product(path)
    };
    let is_file = |path: &&String| {
        start.get(path.as_bytes()).is_some_and(|entry| !entry.ignored && entry.kind == Kind::File)
    };
    let found: Vec<&String> = imported.iter().filter(helps).filter(is_file).collect();
    let is_tested = |path: &str| {
        let mut tests = start.entries().iter().filter_map(|it| std::str::from_utf8(&it.path).ok());
        tests.any(|test| {
            test != path
                && convention_of(test) == Some(InputKind::Test)
                && language_of(test).is_some()
                && subject(test) == subject(path)
        })
    };
    found.into_iter().filter(|path| !is_tested(path)).cloned().collect()
}

/// Such sources of the start. One that a test is named after is what that test is about.
pub(super) fn helper_sources(rules: &InputRules, start: &Manifest) -> BTreeSet<String> {
    let files = start.entries().iter().filter(|it| !it.ignored && it.kind == Kind::File);
    let paths: Vec<String> =
        files.map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect();
    let mut found: BTreeSet<String> =
        paths.iter().filter(|path| helps_by_name(path)).cloned().collect();
    if found.is_empty() {
        return found;
    }
    let is_test = |path: &&String| rules.kind_of(path.as_bytes()) == Some(InputKind::Test);
    let tested: BTreeSet<String> = paths.iter().filter(is_test).map(|path| subject(path)).collect();
    found.retain(|path| !tested.contains(&subject(path)));
    found
}

/// What a test is about by its name, without the mark of a test.
pub(super) fn subject(path: &str) -> String {
    let stem = name_of(path).split('.').next().unwrap_or_default().to_ascii_lowercase();
    let words = stem.split(['_', '-']).filter(|word| !["test", "tests", "spec"].contains(word));
    let subject = words.collect::<Vec<_>>().join("_");
    let ends = ["tests", "test", "spec"];
    ends.iter().find_map(|end| subject.strip_suffix(end)).unwrap_or(&subject).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_helps_tests_by_its_name_unless_a_test_is_about_it() {
        for (path, expected) in [
            ("harness.py", true),
            ("tools/my_asserts.js", true),
            ("assertions.h", true),
            ("helpers.sh", true),
            ("helpers.py", false),
            ("minunit.h", false),
            ("src/harness.py", false),
            ("expected.txt", false),
            ("stats.py", false),
            ("tests/harness.py", false),
        ] {
            assert_eq!(helps_by_name(path), expected, "{path}");
        }
        for (test, source) in [
            ("tests/test_harness.py", "harness.py"),
            ("harness.test.js", "harness.js"),
            ("a/HarnessTest.java", "harness.java"),
            ("spec/harness_spec.rb", "harness.rb"),
        ] {
            assert_eq!(subject(test), subject(source));
        }
    }
}
