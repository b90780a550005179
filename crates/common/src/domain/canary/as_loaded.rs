//! Failing tests for the start where the text of their file does not load: with as much of it as does.
//!
//! Tests that are there before what they test do not load at the start, and such a file reports nothing there. What the
//! line makes of it shows once what fails to load is left out. What loads is loaded, so that what the product replaces at
//! the start too is no doubt.

use super::bodies::own_bodies;
use super::plant::{Change, Planted};
use super::replaced::{in_hexadecimal, replaces};
use crate::domain::tests_seen::Runner;

/// What a file in JavaScript says where it leaves tests out by itself, or ends.
const DECIDES: &[&str] = &[".only(", "fdescribe(", "fit(", "process.exit"];

/// Whether each test file of a runner is loaded by itself, so that one that does not load leaves the others as they are.
pub const fn loads_by_file(runner: Runner) -> bool {
    match runner {
        Runner::Pytest
        | Runner::Unittest
        | Runner::NodeTest
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::Rspec
        | Runner::Phpunit => true,
        Runner::CargoTest
        | Runner::Nextest
        | Runner::GoTest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Ctest => false,
    }
}

/// Whether a runner starts a program of its own for each test file.
pub const fn runs_by_file(runner: Runner) -> bool {
    match runner {
        Runner::CargoTest | Runner::Nextest | Runner::NodeTest | Runner::Jest | Runner::Vitest => {
            true
        }
        Runner::Pytest
        | Runner::Unittest
        | Runner::GoTest
        | Runner::Mocha
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit
        | Runner::Ctest => false,
    }
}

/// The same failing tests behind as much of a file's text as loads; none where that cannot be told.
pub fn plant_as_loaded(
    runner: Runner,
    path: &str,
    text: &str,
    planted: &Planted,
) -> Option<Planted> {
    let Change::Added { text: added, .. } = &planted.change else { return None };
    let whole = match runner {
        Runner::Pytest | Runner::Unittest => of_python(text, added),
        Runner::NodeTest | Runner::Jest | Runner::Vitest | Runner::Mocha => {
            let decides = DECIDES.iter().any(|word| text.contains(word));
            (!decides).then(|| of_javascript(runner, path, text, added))?
        }
        Runner::CargoTest | Runner::Nextest => {
            let is_program = path.starts_with("tests/") || path.contains("/tests/");
            let attributes = text.lines().filter(|line| line.starts_with("#!["));
            let attributes: String = attributes.map(|line| format!("{line}\n")).collect();
            is_program.then(|| format!("{attributes}{added}"))?
        }
        Runner::GoTest => {
            let head = text.find("\npackage ").map_or(0, |at| at + 1);
            let line = text.get(head..)?.lines().next()?;
            let conditions = text.get(..head)?;
            let is_plain = line.starts_with("package ")
                && !text.contains("func TestMain(")
                && ["assert.", "require."].iter().all(|call| !added.contains(call));
            is_plain.then(|| format!("{conditions}{line}\n\nimport \"testing\"\n{added}"))?
        }
        Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit
        | Runner::Ctest => return None,
    };
    // What the file itself replaces is replaced only where all of it loads.
    let counted = match replaces(text) {
        true => own_bodies(runner, path, text),
        false => planted.tests.len(),
    };
    let tests = planted.tests.iter().take(counted).cloned().collect();
    Some(Planted { tests, change: Change::Whole(whole) })
}

/// Each statement of the file is carried out by itself, and one that fails is left out. One that skips the file skips it.
fn of_python(text: &str, added: &str) -> String {
    let of_future =
        text.lines().find(|line| line.starts_with("from __future__ import annotations"));
    let future = of_future.map_or("", |_| "from __future__ import annotations\n");
    let source = in_hexadecimal(text);
    format!(
        "{future}{added}\n\
         for _statement in __import__('ast').parse(bytes.fromhex('{source}')).body:\n    \
         try:\n        \
         exec(compile(__import__('ast').Module([_statement], []), __file__, 'exec'), globals())\n    \
         except Exception as _error:\n        \
         if type(_error).__name__ == 'SkipTest':\n            \
         raise\n"
    )
}

fn of_javascript(runner: Runner, path: &str, text: &str, added: &str) -> String {
    let is_module = super::flavour::is_module(path, text);
    let names = loaded(text);
    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    let names = names.join(", ");
    // Jest makes calls of `require` of imports.
    if is_module && runner != Runner::Jest {
        return format!("for (const it of [{names}]) await import(it).catch(() => {{}});\n{added}");
    }
    format!(
        "for (const it of [{names}]) {{\n  try {{\n    require(it);\n  }} catch {{}}\n}}\n{added}"
    )
}

/// The modules that a text loads.
fn loaded(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in text.lines() {
        for call in ["require(", "from ", "import "] {
            for (at, _) in line.match_indices(call) {
                let rest = line.get(at + call.len()..).unwrap_or_default().trim_start();
                let Some(mark) = rest.chars().next().filter(|mark| "'\"".contains(*mark)) else {
                    continue;
                };
                let inside = rest.get(1..).and_then(|rest| rest.split_once(mark));
                let name = inside.map(|(name, _)| name).filter(|it| !it.contains(['\'', '\\']));
                found.extend(name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::plant::plant;
    use super::*;

    fn as_loaded(runner: Runner, path: &str, text: &str) -> Option<String> {
        let planted = plant(runner, path, text, "zx").unwrap();
        let found = plant_as_loaded(runner, path, text, &planted)?;
        assert_eq!(found.tests, planted.tests);
        Some(String::from_utf8(found.added_to(text.as_bytes().to_vec())).unwrap())
    }

    #[test]
    fn what_does_not_load_is_left_out() {
        let found = as_loaded(Runner::Unittest, "test_a.py", "from a import b\n").unwrap();
        let class = found.find("class Zzx(").unwrap();
        assert!(class < found.find("fromhex('66726f6d206120696d706f727420620a')").unwrap());
        let text =
            "const test = require('node:test');\nconst a = require('../src/a.js');\ntest();\n";
        let found = as_loaded(Runner::NodeTest, "test/a.js", text).unwrap();
        assert!(found.starts_with("for (const it of ['node:test', '../src/a.js'])"), "{found}");
        let text = "import test from 'node:test';\nimport { a } from '../a.mjs';\ntest();\n";
        let found = as_loaded(Runner::NodeTest, "test/a.mjs", text).unwrap();
        assert!(found.contains("'../a.mjs']) await import(it)"), "{found}");
        let text = "#![cfg(unix)]\nuse it::mul;\n#[test]\nfn a() {}\n";
        let found = as_loaded(Runner::CargoTest, "tests/a.rs", text).unwrap();
        assert!(found.starts_with("#![cfg(unix)]\n") && !found.contains("use it"), "{found}");
        let text =
            "//go:build unix\n\npackage it\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n";
        let found = as_loaded(Runner::GoTest, "a_test.go", text).unwrap();
        assert!(
            found.starts_with("//go:build unix\n\npackage it\n\nimport \"testing\"\n"),
            "{found}"
        );
        assert!(!found.contains("func TestA("), "{found}");
    }

    #[test]
    fn what_a_file_replaces_itself_is_no_doubt() {
        let count = |runner, path: &str, text: &str| {
            let planted = plant(runner, path, text, "zx").unwrap();
            let found = plant_as_loaded(runner, path, text, &planted).unwrap();
            planted.tests.len() - found.tests.len()
        };
        for (runner, path, text, left_out) in [
            (Runner::Pytest, "test_a.py", "from a import b\n", 0),
            (Runner::Pytest, "test_a.py", "monkeypatch.setattr('a.time.sleep', b)\n", 5),
            (Runner::Unittest, "test_a.py", "patch('time.time').start()\n", 5),
            (Runner::Unittest, "test_a.py", "self.client.patch('/a')\ndispatch(1)\n", 0),
            (Runner::Jest, "a.test.js", "jest.useFakeTimers();\n", 1),
            (Runner::Vitest, "a.test.js", "vi.spyOn(Math, 'random');\n", 1),
            (Runner::NodeTest, "test/a.js", "mock.timers.enable();\n", 5),
            (Runner::NodeTest, "test/a.js", "Date.now = () => 0;\n", 5),
            (Runner::Mocha, "test/a.js", "Object.freeze(a);\n", 0),
            (Runner::CargoTest, "tests/a.rs", "mock();\n#[test]\nfn a() {}\n", 0),
        ] {
            assert_eq!(count(runner, path, text), left_out, "{text}");
        }
        let text = "jest.useFakeTimers();\n";
        let one = super::super::plant::plant_one(Runner::Jest, "a.test.js", text, "zx").unwrap();
        assert_eq!(
            plant_as_loaded(Runner::Jest, "a.test.js", text, &one).unwrap().tests,
            one.tests
        );
    }

    #[test]
    fn a_file_that_leaves_tests_out_by_itself_is_none() {
        let text = "const test = require('node:test');\ntest.only('a', () => {});\n";
        assert_eq!(as_loaded(Runner::NodeTest, "test/a.js", text), None);
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {}\n}\n";
        assert_eq!(as_loaded(Runner::CargoTest, "src/lib.rs", text), None);
    }
}
