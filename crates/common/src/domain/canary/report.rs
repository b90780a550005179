//! The canary's tests in what a runner printed.

use std::collections::BTreeSet;

/// The longest output that is read, in bytes, from its end.
const MAX_BYTES: usize = 16 << 20;
/// Signs of a test that failed, in the lines of runners.
const MARKS: &[&str] = &[
    "FAIL", "ERROR", "not ok", "\u{2716}", "\u{2715}", "\u{2717}", "\u{d7}", "\u{25cf}", "panicked",
];

/// The beginnings of reports as programs in C have them, which a report itself has not.
const SOURCES: &[&str] = &["assert(!\"FAIL: ", "puts(\"FAIL: "];

/// Which of these tests the output names as failed.
pub fn reported<'t>(output: &[u8], tests: impl Iterator<Item = &'t str>) -> BTreeSet<&'t str> {
    named(output, tests, is_failed)
}

/// The same with the code of the start, where what is to prepare a test may fail. The tests of the canary fail by
/// themselves, so that pytest never says of one that it has an error.
pub fn reported_at_start<'t>(
    output: &[u8],
    tests: impl Iterator<Item = &'t str>,
) -> BTreeSet<&'t str> {
    let is_prepared = |line: &str| {
        let is_of_pytest = line.contains("::") && !line.contains("FAIL");
        let is_error = is_of_pytest && line.contains("ERROR");
        !is_error && !line.contains("ERROR at setup of")
    };
    named(output, tests, |line| is_failed(line) && is_prepared(line))
}

/// The lines by which runners name tests that failed.
pub fn failed_lines(output: &[u8]) -> BTreeSet<String> {
    let from = output.len().saturating_sub(MAX_BYTES);
    let text = String::from_utf8_lossy(output.get(from..).unwrap_or_default());
    text.lines().filter(|line| is_failed(line)).map(|line| line.trim().to_owned()).collect()
}

fn named<'t>(
    output: &[u8],
    tests: impl Iterator<Item = &'t str>,
    is_failed: impl Fn(&str) -> bool,
) -> BTreeSet<&'t str> {
    let from = output.len().saturating_sub(MAX_BYTES);
    let text = String::from_utf8_lossy(output.get(from..).unwrap_or_default());
    let mut lines = String::new();
    let mut in_failures = false;
    for line in text.lines() {
        match line.trim() {
            "failures:" => in_failures = true,
            "successes:" => in_failures = false,
            name if in_failures && !name.contains(' ') => add(&mut lines, line),
            _ if is_failed(line) => add(&mut lines, line),
            _ => {}
        }
    }
    tests.filter(|test| lines.contains(test)).collect()
}

fn add(lines: &mut String, line: &str) {
    lines.push_str(line);
    lines.push('\n');
}

fn is_failed(line: &str) -> bool {
    // A compiler that refuses what was added to a program in C shows the line that it refuses.
    if SOURCES.iter().any(|source| line.contains(source)) {
        return false;
    }
    let trimmed = line.trim_start();
    let numbered = trimmed.split_once(')').is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    // What the runners of .NET and CTest print.
    let is_named = trimmed.starts_with("Failed ") || line.ends_with("(Failed)");
    numbered
        || is_named
        || trimmed.starts_with("___")
        || MARKS.iter().any(|mark| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_reported_where_its_runner_says_that_it_failed() {
        for (line, failed) in [
            ("FAIL: test_zx_01 (tests.test_a.Zzx.test_zx_01)", true),
            ("test_zx_01 (tests.test_a.Zzx.test_zx_01) ... ok", false),
            ("ERROR: test_zx_01 (tests.test_a.Zzx)", true),
            ("FAILED tests/test_a.py::Zzx::test_zx_01 - AssertionError", true),
            ("______ Zzx.test_zx_01 ______", true),
            ("tests/test_a.py::Zzx::test_zx_01 PASSED", false),
            ("test zx::zx_01 ... FAILED", true),
            ("test zx::zx_01 ... ok", false),
            ("failures:\n    zx::zx_01\n", true),
            ("successes:\n    zx::zx_01\n", false),
            ("--- FAIL: Test_zx_01 (0.00s)", true),
            ("--- PASS: Test_zx_01 (0.00s)", false),
            ("\u{2716} zx_01 (0.5ms)", true),
            ("\u{2714} zx_01 (0.5ms)", false),
            ("not ok 3 - zx_01", true),
            ("ok 3 - zx_01", false),
            ("  1) zx_01", true),
            ("    \u{2713} zx_01", false),
            ("  \u{25cf} zx_01", true),
            ("    \u{2715} zx_01 (2 ms)", true),
            (" FAIL  test/a.test.js > zx_01", true),
            ("   \u{d7} zx_01 5ms", true),
            ("  1) Zzx zx_01", true),
            ("rspec ./spec/a_spec.rb:12 # Zzx zx_01", false),
            ("1) Tests\\ATest::test_zx_01", true),
            ("[ERROR] a.ATest.zx_01 -- Time elapsed: 0.01 s <<< FAILURE!", true),
            ("[ERROR]   ATest.zx_01:12 expected: <1> but was: <2>", true),
            ("[INFO] Tests run: 1 zx_01", false),
            ("ATest > zx_01() FAILED", true),
            ("ATest > zx_01() PASSED", false),
            ("  Failed A.T.zx_01 [12 ms]", true),
            ("  Passed A.T.zx_01 [12 ms]", false),
            ("[xUnit.net 00:00:00.50]     A.T.zx_01 [FAIL]", true),
            ("[  FAILED  ] Zzx.zx_01 (0 ms)", true),
            ("[       OK ] Zzx.zx_01 (0 ms)", false),
            ("\t  3 - Zzx.zx_01 (Failed)", true),
            ("t: a.c:4: main: Assertion `!\"FAIL: zx_01\"' failed.", true),
            ("Assertion failed: (!\"FAIL: zx_01\"), function main, file a.c, line 4.", true),
            ("    4 | exit(((void)(b), assert(!\"FAIL: zx_01\"), 97));", false),
            ("zx_01", false),
        ] {
            let found = reported(line.as_bytes(), ["zx_01", "zx_02"].into_iter());
            assert_eq!(found.contains("zx_01"), failed, "{line}");
            assert!(!found.contains("zx_02"));
        }
    }

    #[test]
    fn a_test_that_cannot_be_prepared_at_the_start_is_not_reported() {
        for (line, failed) in [
            ("ERROR tests/test_a.py::Zzx::test_zx_01 - ModuleNotFoundError: a", false),
            ("tests/test_a.py::Zzx::test_zx_01 ERROR   [ 5%]", false),
            ("____ ERROR at setup of Zzx.test_zx_01 ____", false),
            ("FAILED tests/test_a.py::Zzx::test_zx_01 - RuntimeError", true),
            ("____ Zzx.test_zx_01 ____", true),
            ("ERROR: test_zx_01 (tests.test_a.Zzx.test_zx_01)", true),
            ("[ERROR] a.ATest.zx_01 -- Time elapsed: 0.01 s <<< FAILURE!", true),
        ] {
            let found = reported_at_start(line.as_bytes(), ["zx_01"].into_iter());
            assert_eq!(found.contains("zx_01"), failed, "{line}");
        }
    }
}
