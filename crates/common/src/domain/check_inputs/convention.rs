//! The conventions of the ecosystems: which names are tests, and which configure a runner.

use super::InputKind;
use super::configuration::is_configuration;
use super::language::{extension, language_of, name_of};
use super::shadow::shadows;

/// Folders that hold nothing but tests and what belongs to them.
const TEST_FOLDERS: &[&str] = &[
    "test",
    "tests",
    "spec",
    "specs",
    "__tests__",
    "__test__",
    "__snapshots__",
    "__mocks__",
    "__fixtures__",
    "testdata",
    "test-data",
    "test_data",
    "e2e",
    "androidtest",
    "cypress",
    "integration-tests",
    "integration_tests",
    "integrationtest",
    "unit-tests",
    "unit_tests",
    "functional-tests",
    "functional_tests",
    "acceptance-tests",
    "acceptance_tests",
    "goldens",
    "testsuite",
    "unittests",
];

/// Extensions that only tests and snapshots have.
const TEST_EXTENSIONS: &[&str] = &["bats", "feature", "golden", "hurl", "phpt", "robot", "snap"];

/// Libraries of tests that consist of a file or two, which projects copy.
const LIBRARY_FILES: &[&str] = &[
    "acutest.h",
    "bashunit",
    "catch.hpp",
    "catch_amalgamated.cpp",
    "catch_amalgamated.hpp",
    "cutest.c",
    "cutest.h",
    "doctest.h",
    "greatest.h",
    "minunit.h",
    "munit.c",
    "munit.h",
    "shunit2",
    "unity.c",
    "unity.h",
    "unity_internals.h",
    "utest.h",
];

/// Why a path is a check input by convention.
pub fn convention_of(path: &str) -> Option<InputKind> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let lower = name.to_ascii_lowercase();
    if is_configuration(folders, path, &lower) {
        return Some(InputKind::Configuration);
    }
    if is_test(folders, name, &lower) {
        return Some(InputKind::Test);
    }
    shadows(folders, &lower).then_some(InputKind::Shadow)
}

fn is_test(folders: &str, name: &str, lower: &str) -> bool {
    let mut parts = folders.split('/');
    let before_sources = || folders.split('/').take_while(|part| *part != "src");
    // Tests of Java and its like have a folder beside `src/main`. A source of Rust is one of tests where its
    // declaration says so, which its name does not.
    let is_in_sources = parts.any(|part| part == "src");
    if is_in_sources && (parts.next() == Some("main") || language_of(name) == Some("rust")) {
        return before_sources().any(is_test_folder);
    }
    folders.split('/').any(is_test_folder)
        || extension(lower).is_some_and(|extension| TEST_EXTENSIONS.contains(&extension))
        || LIBRARY_FILES.contains(&lower)
        || is_test_name(name, lower)
        || is_of_features(folders, lower)
        || matches!(folders.split('/').next(), Some("t" | "xt")) && is_of_perl(folders, lower)
}

/// Whether a source is a test by nothing but its own name.
pub(super) fn is_test_by_name(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let beside = if folders.is_empty() { "-".to_owned() } else { format!("{folders}/-") };
    is_test_name(name, &name.to_ascii_lowercase())
        && convention_of(path) == Some(InputKind::Test)
        && convention_of(&beside).is_none()
}

/// The steps of features in natural language, and what they share. Features of a product have such a folder too.
fn is_of_features(folders: &str, lower: &str) -> bool {
    let mut parts = folders.split('/').skip_while(|part| *part != "features").skip(1);
    match parts.next() {
        Some(part) => matches!(part, "steps" | "step_definitions" | "support"),
        None => lower == "environment.py" && name_of(folders) == "features",
    }
}

/// The folder of Perl's tests holds their modules and data as well, and suites of shell scripts have the same one.
fn is_of_perl(folders: &str, lower: &str) -> bool {
    let is_one = |language| matches!(language, "perl" | "shell");
    language_of(lower).is_none_or(is_one) && !folders.is_empty()
}

/// A folder by its exact name, and by an ending where the name says what is tested, as in
/// `App.Tests` and `AppTests`.
fn is_test_folder(folder: &str) -> bool {
    let lower = folder.to_ascii_lowercase();
    let ended = [".test", ".tests", "-tests", "_tests", ".unittests", ".integrationtests"];
    TEST_FOLDERS.contains(&lower.as_str())
        || ended.iter().any(|end| lower.len() > end.len() && lower.ends_with(end))
        || camel_ends(folder, "Tests")
}

fn is_test_name(name: &str, lower: &str) -> bool {
    let Some(language) = language_of(name) else { return false };
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let lower_stem = lower.rsplit_once('.').map_or(lower, |(stem, _)| stem);
    let has_specs = !matches!(language, "c" | "go" | "python" | "rust" | "zig");
    let is_whole = matches!(lower_stem, "test" | "tests" | "test_helper")
        || has_specs && matches!(lower_stem, "spec" | "spec_helper");
    let begins = lower_stem.starts_with("test_") || lower_stem.starts_with("test-");
    // Where these name no tests by convention, products have such names.
    let of_specs: &[&str] = if has_specs { &["_spec", "-spec", ".spec", "_suite"] } else { &[] };
    let ends = ["_test", "_tests", "-test", "-tests", ".test", ".tests", "_unittest", ".cy"]
        .iter()
        .chain(of_specs)
        .any(|end| lower_stem.len() > end.len() && lower_stem.ends_with(end));
    let is_camel = matches!(language, "jvm" | "php" | "dotnet" | "swift" | "haskell")
        && (["Test", "Tests", "TestCase", "Spec", "IT"].iter().any(|end| camel_ends(stem, end))
            || stem.strip_prefix("Test").is_some_and(|rest| rest.starts_with(char::is_uppercase)));
    is_whole || begins || ends || is_camel || language == "perl" && lower.ends_with(".t")
}

/// Whether a word ends with another that begins a part of it: `FooTest` and not `Contest`.
fn camel_ends(word: &str, end: &str) -> bool {
    word.strip_suffix(end).is_some_and(|rest| {
        rest.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_sources_of_rust_and_beside_tests_of_java_is_told_by_its_place() {
        use InputKind::Test;
        for (path, expected) in [
            ("src/tests.rs", None),
            ("src/commands/test.rs", None),
            ("a/src/tests/mod.rs", None),
            ("tests/src/lib.rs", Some(Test)),
            ("test_calc.rs", Some(Test)),
            ("src/main/java/a/SpeedTest.java", None),
            ("src/test/java/a/App.java", Some(Test)),
            ("tests/app/src/main/java/a/App.java", Some(Test)),
            ("src/test.py", Some(Test)),
        ] {
            assert_eq!(convention_of(path), expected, "{path}");
        }
    }
}
