//! Test files that an interpreter starts, and that start a runner over their own tests.

use super::runner::Runner;
use crate::domain::path::Workspace;

/// Options of interpreters that have a value, and those behind which no file stands.
const VALUED: &[&str] =
    &["-C", "-W", "-X", "-r", "--conditions", "--import", "--loader", "--require"];
const NO_FILE: &[&str] = &["-", "-c", "-e", "-m", "-p", "--eval", "--print"];
/// Calls that make tests of `node:test`.
const CALLS: &[&str] = &["describe(", "it(", "suite(", "test(", "test.only("];

/// A test file that a line starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The runner that it starts.
    pub runner: Runner,
    /// Relative to the folder in which the line runs.
    pub path: String,
}

/// The file that an interpreter starts, from the folder in which the line runs; none where the program is no interpreter
/// whose test files start runners.
pub(super) fn file_of(
    (name, arguments): (&str, &[&str]),
    is_python: bool,
    folder: &str,
) -> Option<String> {
    let arguments = match (name, arguments.split_first()) {
        ("coverage", Some((&"run", rest))) => rest,
        ("node" | "nodejs" | "tsx", _) => arguments,
        _ if is_python => arguments,
        _ => return None,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            option if NO_FILE.contains(&option) => return None,
            option if VALUED.contains(&option) => drop(arguments.next()),
            option if option.starts_with('-') => {}
            file => {
                let whole = format!("{folder}{file}");
                let is_inside = !file.starts_with(['/', '~', '$']);
                let path = Workspace::new("").resolve(&whole).filter(|_| is_inside)?;
                return Some(path.into_owned());
            }
        }
    }
    None
}

/// Calls that make a runner over tests of other files.
const OVER_OTHERS: &[&str] =
    &["TextTestRunner(", "defaultTestLoader", "TestLoader(", "TestProgram("];

/// Calls with which such a runner looks for tests, also in the file itself.
const LOOKS: &[&str] =
    &[".discover(", "loadTestsFromModule", "loadTestsFromName", "unittest.main(", "TestProgram("];

/// The runner that a file starts, and whether over its own tests alone; else it looks for tests.
pub(super) fn runner_in(path: &str, text: &str) -> Option<(Runner, bool)> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let has = |comments: &[&str], wanted: &dyn Fn(&str) -> bool| {
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| !comments.iter().any(|it| line.starts_with(it)) && wanted(line))
    };
    match extension {
        "py" => {
            let imports = has(&["#"], &|line| {
                line.strip_prefix("from unittest import ")
                    .is_some_and(|names| names.split([',', ' ']).any(|name| name == "main"))
            });
            let of = |call: &str| has(&["#"], &|line| line.contains(call));
            let looks = LOOKS.iter().any(|call| of(call)) || imports && of("main(");
            if OVER_OTHERS.iter().any(|call| of(call)) {
                // A runner over the tests that the file names finds no others.
                if !looks && (of("def test") || of("def runTest(")) {
                    return None;
                }
                // One over its own tests finds those of its class in front of it.
                let is_own = of("def test") && !of(".discover(");
                return Some((Runner::Unittest, is_own));
            }
            if of("unittest.main(") || imports && of("main(") {
                return Some((Runner::Unittest, true));
            }
            let is_own = of("def test") || of("__file__");
            of("pytest.main(").then_some((Runner::Pytest, is_own))
        }
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => {
            let comments = &["//", "*", "/*"];
            let loads = has(comments, &|line| {
                ["'node:test'", "\"node:test\""].iter().any(|name| line.contains(name))
            });
            let is_one =
                loads && has(comments, &|line| CALLS.iter().any(|call| line.contains(call)));
            is_one.then_some((Runner::NodeTest, true))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_an_interpreter_starts_is_the_first_word_that_is_no_option() {
        for (name, arguments, expected) in [
            ("python3", vec!["-B", "./tests/a.py", "-v"], Some("w/tests/a.py")),
            ("python3", vec!["-W", "error", "a.py"], Some("w/a.py")),
            ("python3", vec!["-m", "unittest"], None),
            ("python3", vec!["/tmp/a.py"], None),
            ("coverage", vec!["run", "a.py"], Some("w/a.py")),
            ("node", vec!["--require", "x", "a.js"], Some("w/a.js")),
            ("node", vec!["-e", "a"], None),
            ("ruby", vec!["a.rb"], None),
        ] {
            let found = file_of((name, &arguments), name == "python3", "w/");
            assert_eq!(found.as_deref(), expected, "{name} {arguments:?}");
        }
    }

    #[test]
    fn a_file_says_which_runner_it_starts() {
        for (path, text, expected) in [
            ("a.py", "import unittest\nunittest.main()\n", Some((Runner::Unittest, true))),
            (
                "a.py",
                "from unittest import TestCase, main\nmain()\n",
                Some((Runner::Unittest, true)),
            ),
            ("a.py", "import pytest\npytest.main([__file__])\n", Some((Runner::Pytest, true))),
            ("a.py", "# unittest.main()\n", None),
            ("a.py", "def main(): pass\nmain()\n", None),
            (
                "a.js",
                "const test = require('node:test');\ntest('a', () => {});\n",
                Some((Runner::NodeTest, true)),
            ),
            (
                "run.py",
                "import unittest\nunittest.TextTestRunner().run(unittest.defaultTestLoader.discover('t'))\n",
                Some((Runner::Unittest, false)),
            ),
            (
                "a.py",
                "def test_a(self): pass\nunittest.TextTestRunner().run(TestLoader().loadTestsFromTestCase(A))\n",
                None,
            ),
            (
                "a.py",
                "def test_a(self): pass\nTextTestRunner().run(TestLoader().loadTestsFromModule(a))\n",
                Some((Runner::Unittest, true)),
            ),
            ("a.mjs", "import { mock } from \"node:test\";\n", None),
            ("a.rb", "unittest.main()\n", None),
        ] {
            assert_eq!(runner_in(path, text), expected, "{text}");
        }
    }
}
