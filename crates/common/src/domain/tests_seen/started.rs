//! Test files that an interpreter starts, and that start a runner over their own tests.

use super::runner::Runner;
use crate::domain::path::Workspace;
use crate::domain::shell_line::{OfPython, as_source, given_to_python, names_of_node};

/// Options of interpreters that have a value, and those behind which no file stands.
const VALUED: &[&str] = &["-C", "-r", "--conditions", "--import", "--loader", "--require"];
const NO_FILE: &[&str] = &["-", "-e", "-p", "--eval", "--print"];
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

/// What an interpreter starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// The first of these files that is there, from the folder in which the line runs.
    Files(Vec<String>),
    /// This text of Python.
    Code(&'a str),
}

/// What an interpreter starts; none where the program is no interpreter whose test files start runners.
pub(super) fn source_of<'a>(
    (name, arguments): (&str, &[&'a str]),
    is_python: bool,
    folder: &str,
) -> Option<Source<'a>> {
    let inside = |file: &str| {
        let is_inside = !file.starts_with(['/', '~', '$']);
        let whole = format!("{folder}{file}");
        let path = Workspace::new("").resolve(&whole).filter(|_| is_inside)?;
        Some(path.into_owned())
    };
    let all_inside = |files: &[String]| {
        let found: Vec<_> = files.iter().filter_map(|file| inside(file)).collect();
        (!found.is_empty()).then_some(Source::Files(found))
    };
    let arguments = match (name, arguments.split_first()) {
        ("coverage", Some((&"run", rest))) => rest,
        ("node" | "nodejs" | "tsx", _) => {
            let script = script_of_node(arguments)?;
            return all_inside(&names_of_node(script));
        }
        _ if is_python => arguments,
        _ => return None,
    };
    match given_to_python(arguments)?.0 {
        // Of a folder it starts the main program.
        OfPython::File(file) => {
            let inner = format!("{}/__main__.py", file.trim_end_matches('/'));
            all_inside(&[file.to_owned(), inner])
        }
        OfPython::Code(text) => Some(Source::Code(text)),
        OfPython::Module(module) => {
            let path = module.replace('.', "/");
            let files = [format!("{path}.py"), format!("{path}/__main__.py")];
            all_inside(&files)
        }
    }
}

fn script_of_node<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            option if NO_FILE.contains(&option) => return None,
            option if VALUED.contains(&option) => drop(arguments.next()),
            option if option.starts_with('-') => {}
            file => return Some(file),
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

/// How a file starts a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Over its own tests.
    Own,
    /// It looks for tests.
    Others,
    /// As another program, whose report it may keep.
    Spawned,
}

/// The runner that a file starts, and how.
pub(super) fn runner_in(path: &str, text: &str) -> Option<(Runner, Over)> {
    let path = as_source(path, text);
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "py" => runner_in_python(text),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => runner_in_javascript(text),
        _ => None,
    }
}

/// Whether a line of a text, comments apart, is one of those that are wanted.
fn has(text: &str, comments: &[&str], wanted: &dyn Fn(&str) -> bool) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| !comments.iter().any(|it| line.starts_with(it)) && wanted(line))
}

fn runner_in_python(text: &str) -> Option<(Runner, Over)> {
    let imports = has(text, &["#"], &|line| {
        line.strip_prefix("from unittest import ")
            .is_some_and(|names| names.split([',', ' ']).any(|name| name == "main"))
    });
    let of = |call: &str| has(text, &["#"], &|line| line.contains(call));
    let mut lines = text.lines().map(str::trim_start);
    let is_renamed = lines.any(|line| {
        let module = line.strip_prefix("import unittest as ");
        let mut names = line.strip_prefix("from unittest import ").unwrap_or_default().split(',');
        let function = names.find_map(|name| name.trim().strip_prefix("main as "));
        module.is_some_and(|name| of(&format!("{}.main(", name.trim())))
            || function.is_some_and(|name| of(&format!("{}(", name.trim())))
    });
    let looks = LOOKS.iter().any(|call| of(call)) || imports && of("main(");
    if OVER_OTHERS.iter().any(|call| of(call)) {
        // A runner over the tests that the file names finds no others.
        if !looks && (of("def test") || of("def runTest(")) {
            return None;
        }
        // One over its own tests finds those of its class in front of it.
        let is_own = of("def test") && !of(".discover(");
        return Some((Runner::Unittest, if is_own { Over::Own } else { Over::Others }));
    }
    if of("unittest.main(") || imports && of("main(") || is_renamed {
        let is_own = !of("module=None");
        return Some((Runner::Unittest, if is_own { Over::Own } else { Over::Others }));
    }
    if of("pytest.main(") {
        let is_own = of("def test") || of("__file__");
        return Some((Runner::Pytest, if is_own { Over::Own } else { Over::Others }));
    }
    let spawns = |module: &str| {
        let forms = |line: &str| {
            let plain: String = line.chars().filter(|it| !" \"'".contains(*it)).collect();
            let words = [format!("-m,{module}"), format!("run_module({module}")];
            words.iter().any(|word| plain.contains(word)) || line.contains(&format!("-m {module}"))
        };
        has(text, &["#"], &forms)
    };
    let runners = [("unittest", Runner::Unittest), ("pytest", Runner::Pytest)];
    runners.into_iter().find(|(module, _)| spawns(module)).map(|(_, it)| (it, Over::Spawned))
}

fn runner_in_javascript(text: &str) -> Option<(Runner, Over)> {
    let has = |wanted: &dyn Fn(&str) -> bool| has(text, &["//", "*", "/*"], wanted);
    let quoted = |line: &str, name: &str| {
        ["'", "\"", "`"].iter().any(|quote| line.contains(&format!("{quote}{name}{quote}")))
    };
    if has(&|line| quoted(line, "node:test")) {
        if has(&|line| CALLS.iter().any(|call| line.contains(call))) {
            return Some((Runner::NodeTest, Over::Own));
        }
        if has(&|line| line.contains("run(")) {
            return Some((Runner::NodeTest, Over::Spawned));
        }
    }
    let spawns = has(&|line| line.contains("child_process"))
        && has(&|line| quoted(line, "--test") || line.contains("node --test"));
    spawns.then_some((Runner::NodeTest, Over::Spawned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_an_interpreter_starts_is_the_first_word_that_is_no_option() {
        for (name, arguments, expected) in [
            (
                "python3",
                vec!["-B", "./tests/a.py", "-v"],
                Some("w/tests/a.py w/tests/a.py/__main__.py"),
            ),
            ("python3", vec!["-W", "error", "a.py"], Some("w/a.py w/a.py/__main__.py")),
            ("python3", vec!["tests/"], Some("w/tests w/tests/__main__.py")),
            ("python3", vec!["-Bm", "tests"], Some("w/tests.py w/tests/__main__.py")),
            ("python3", vec!["-c", "pass"], Some("pass")),
            ("python3", vec!["/tmp/a.py"], None),
            ("coverage", vec!["run", "a.py"], Some("w/a.py w/a.py/__main__.py")),
            ("node", vec!["--require", "x", "a.js"], Some("w/a.js")),
            ("node", vec!["test/run"], Some("w/test/run w/test/run.js w/test/run/index.js")),
            ("node", vec!["-e", "a"], None),
            ("ruby", vec!["a.rb"], None),
        ] {
            let found = source_of((name, &arguments), name == "python3", "w/");
            let found = found.map(|found| match found {
                Source::Files(files) => files.join(" "),
                Source::Code(text) => text.to_owned(),
            });
            assert_eq!(found.as_deref(), expected, "{name} {arguments:?}");
        }
    }

    #[test]
    fn a_file_says_which_runner_it_starts() {
        for (path, text, expected) in [
            ("a.py", "import unittest\nunittest.main()\n", Some((Runner::Unittest, Over::Own))),
            (
                "a.py",
                "from unittest import TestCase, main\nmain()\n",
                Some((Runner::Unittest, Over::Own)),
            ),
            ("a.py", "import unittest as ut\nut.main()\n", Some((Runner::Unittest, Over::Own))),
            (
                "a.py",
                "from unittest import TestCase, main as run\nrun()\n",
                Some((Runner::Unittest, Over::Own)),
            ),
            ("a.py", "import pytest\npytest.main([__file__])\n", Some((Runner::Pytest, Over::Own))),
            ("a.py", "# unittest.main()\n", None),
            ("a.py", "def main(): pass\nmain()\n", None),
            (
                "a.js",
                "const test = require('node:test');\ntest('a', () => {});\n",
                Some((Runner::NodeTest, Over::Own)),
            ),
            (
                "run.py",
                "import unittest\nunittest.TextTestRunner().run(unittest.defaultTestLoader.discover('t'))\n",
                Some((Runner::Unittest, Over::Others)),
            ),
            (
                "a.py",
                "def test_a(self): pass\nunittest.TextTestRunner().run(TestLoader().loadTestsFromTestCase(A))\n",
                None,
            ),
            (
                "a.py",
                "def test_a(self): pass\nTextTestRunner().run(TestLoader().loadTestsFromModule(a))\n",
                Some((Runner::Unittest, Over::Own)),
            ),
            ("a.py", "unittest.main(module=None)\n", Some((Runner::Unittest, Over::Others))),
            (
                "a.py",
                "subprocess.call([sys.executable, '-m', \"unittest\"])\n",
                Some((Runner::Unittest, Over::Spawned)),
            ),
            ("a.py", "os.system('python3 -m pytest -q')\n", Some((Runner::Pytest, Over::Spawned))),
            ("a.py", "runpy.run_module('pytest')\n", Some((Runner::Pytest, Over::Spawned))),
            ("a.py", "subprocess.call([sys.executable, '-m', 'http.server'])\n", None),
            (
                "a.js",
                "const { spawnSync } = require('node:child_process');\nspawnSync(process.execPath, ['--test']);\n",
                Some((Runner::NodeTest, Over::Spawned)),
            ),
            (
                "a.mjs",
                "import { run } from 'node:test';\nrun({ files });\n",
                Some((Runner::NodeTest, Over::Spawned)),
            ),
            ("a.mjs", "import { mock } from \"node:test\";\n", None),
            ("a.rb", "unittest.main()\n", None),
        ] {
            assert_eq!(runner_in(path, text), expected, "{text}");
        }
    }
}
