//! The test files that get the canary.

use super::flavour::{class_end, flavour};
use super::language_of_runner;
use crate::domain::check_inputs::{
    InputKind, convention_of, is_named, language_of, options_and_operands,
};
use crate::domain::source_tests::has_tests;
use crate::domain::tests_seen::Runner;

/// The most files that get all tests of the canary for one runner.
pub const MAX_HOSTS: usize = 6;
/// The most files that get one.
pub const MAX_OTHERS: usize = 200;
/// The largest file that gets it, in bytes.
const MAX_TEXT: usize = 512 << 10;

/// Whether a runner takes tests from a file of this name and text.
pub fn is_host(runner: Runner, path: &str, text: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    if text.len() > MAX_TEXT || language_of(path) != Some(language_of_runner(runner)) {
        return false;
    }
    match runner {
        Runner::Unittest => {
            let ends = ["_test", "_tests"].iter().any(|end| stem.ends_with(end));
            // A script of such a name may only start them.
            extension == "py" && (stem.starts_with("test") || ends && text.contains("TestCase"))
        }
        Runner::Pytest => {
            extension == "py" && (stem.starts_with("test_") || stem.ends_with("_test"))
        }
        Runner::GoTest => {
            stem.ends_with("_test") && text.contains("\"testing\"") && text.contains("*testing.T")
        }
        Runner::CargoTest | Runner::Nextest => {
            let is_program = path.starts_with("tests/") || path.contains("/tests/");
            is_program && text.contains("#[test]") || has_tests(path.as_bytes(), text.as_bytes())
        }
        Runner::NodeTest => {
            // Each file that it runs is a test, also a plain script.
            let is_script = convention_of(path) == Some(InputKind::Test)
                && !["fixture", "helper"].iter().any(|word| path.contains(word));
            matches!(extension, "js" | "mjs" | "cjs" | "ts" | "mts" | "cts")
                && (text.contains("node:test") || is_script)
        }
        Runner::Jest | Runner::Vitest | Runner::Mocha => {
            let calls = ["test(", "it(", "describe(", "suite("];
            extension != "vue" && calls.iter().any(|call| text.contains(call))
        }
        Runner::Rspec => stem.ends_with("_spec") && text.contains("describe"),
        Runner::Phpunit => stem.ends_with("Test") && class_end(text).is_some(),
        Runner::Maven | Runner::Gradle => {
            matches!(extension, "java" | "kt") && in_class(runner, text)
        }
        Runner::DotnetTest => extension == "cs" && in_class(runner, text),
        Runner::Ctest => flavour(runner, text).is_some(),
    }
}

/// Whether a class of a file takes tests of a library that is known.
fn in_class(runner: Runner, text: &str) -> bool {
    flavour(runner, text).is_some() && class_end(text).is_some()
}

/// The files that may get the canary, among test files with their texts: those that the line names, else all. Those that
/// mention changed files come first.
pub fn hosts<'f>(
    runner: Runner,
    line: &str,
    files: &[(&'f str, &str)],
    changed: &[&str],
) -> Vec<&'f str> {
    // What a runner only loads or leaves out, by its options, are no tests that the line names.
    let words: Vec<&str> = line.split_whitespace().collect();
    let loading =
        [(Runner::NodeTest, "node"), (Runner::Mocha, "mocha"), (Runner::Pytest, "pytest")];
    let name = loading.iter().find(|(loading, _)| *loading == runner).map(|(_, name)| name);
    let operands = name.map(|name| options_and_operands(name, &words).1.join(" "));
    let line = operands.as_deref().unwrap_or(line);
    let is_in_line = |file: &&&(&str, &str)| {
        let module = file.0.strip_suffix(".py").map(|stem| stem.replace('/', "."));
        is_named(line, file.0) || module.is_some_and(|module| line.contains(&module))
    };
    // Tests of other names are those that the line names, by themselves or by a pattern.
    let is_asked = |file: &&(&str, &str)| {
        runner == Runner::Unittest
            && file.0.ends_with(".py")
            && file.1.contains("TestCase")
            && (is_in_line(&file) || line.split_whitespace().any(|word| word.starts_with("-p")))
    };
    let fit = files.iter().filter(|file| is_host(runner, file.0, file.1) || is_asked(file));
    let fit: Vec<&(&str, &str)> = fit.collect();
    let some = fit.iter().any(|file| is_in_line(&file));
    let mut ranked: Vec<(usize, &str)> = fit
        .iter()
        .filter(|file| !some || is_in_line(file))
        .map(|(path, text)| (usize::MAX - mentions(text, changed), *path))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, path)| path).collect()
}

/// How many of the changed files a text mentions by their names.
pub fn mentions(text: &str, changed: &[&str]) -> usize {
    stems(changed).into_iter().filter(|stem| text.contains(stem)).count()
}

/// The files that get the canary, among those that a line starts one after the other: those that mention a changed file,
/// else the first ones. The line may end at the first of them that fails.
pub fn hosts_started<F>(files: Vec<(F, String)>, changed: &[&str]) -> Vec<(F, String)> {
    let stems = stems(changed);
    let mentions = |text: &String| stems.iter().any(|stem| text.contains(stem));
    let some = files.iter().any(|(_, text)| mentions(text));
    let fit = files.into_iter().filter(|(_, text)| !some || mentions(text));
    fit.take(MAX_HOSTS).collect()
}

/// The names of changed files, as other files mention them.
fn stems<'f>(changed: &[&'f str]) -> Vec<&'f str> {
    let stem = |path: &&'f str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split_once('.').map_or(name, |(stem, _)| stem)
    };
    changed.iter().map(stem).filter(|stem| stem.len() > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_line_names_and_that_mention_a_change_are_preferred() {
        let files = [
            ("tests/test_a.py", "import other"),
            ("tests/test_b.py", "from stats import mean"),
            ("tests/helper.py", "import stats"),
        ];
        let of = |line: &str| hosts(Runner::Unittest, line, &files, &["stats.py"]);
        assert_eq!(of("python3 -m unittest"), ["tests/test_b.py", "tests/test_a.py"]);
        assert_eq!(of("python3 -m unittest tests/test_a.py"), ["tests/test_a.py"]);
        let go =
            [("a/a_test.go", "import \"testing\"\nfunc TestA(t *testing.T) {}"), ("a/a.go", "")];
        assert_eq!(hosts(Runner::GoTest, "go test ./...", &go, &[]), ["a/a_test.go"]);
        assert!(hosts(Runner::Maven, "mvn test", &files, &[]).is_empty());
        let started = || vec![(1, "import other".to_owned()), (2, "import stats".to_owned())];
        assert_eq!(hosts_started(started(), &["stats.py"]), started().split_off(1));
        assert_eq!(hosts_started(started(), &["a/none.py"]), started());
        let java = "import org.junit.jupiter.api.Test;\nclass ATest { @Test void a() { } }";
        let php = "<?php class ATest extends TestCase { public function testA() {} }";
        for (runner, path, text, expected) in [
            (Runner::Maven, "src/test/java/ATest.java", java, true),
            (Runner::Gradle, "src/test/java/Help.java", "class Help { }", false),
            (Runner::Rspec, "spec/a_spec.rb", "describe A do\nend", true),
            (Runner::Rspec, "spec/spec_helper.rb", "RSpec.configure", false),
            (Runner::Phpunit, "tests/ATest.php", php, true),
            (Runner::DotnetTest, "T/A.cs", "using Xunit;\nclass A { [Fact] void B() { } }", true),
            (Runner::Ctest, "tests/a.cpp", "#include <gtest/gtest.h>", true),
            (Runner::Ctest, "tests/a.c", "int main() { }", false),
            (Runner::Unittest, "qa/mean_test.py", "class T(TestCase):\n", true),
            (Runner::Unittest, "run_tests.py", "unittest.TextTestRunner()\n", false),
            (Runner::NodeTest, "test/slug.js", "assert(slug('a'));\n", true),
            (Runner::NodeTest, "test/fixtures/slug.js", "assert(slug('a'));\n", false),
        ] {
            assert_eq!(is_host(runner, path, text), expected, "{path}");
        }
    }
}
