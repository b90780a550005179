//! Failing tests, as each runner's files have them.

use super::bodies::{CHAI, bodies};
use super::ends::{failing_at_ends, failing_in_front, failing_late};
use super::flavour::{Flavour, class_end, flavour, is_module};
use super::masked::{Script, masked, words};
use crate::domain::shell_line::as_source;
use crate::domain::tests_seen::Runner;
use std::fmt::Write;

/// Two numbers that differ; the second is larger.
const LESS: u32 = 40_971;
const MORE: u32 = 71_209;

/// Failing tests for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// The names of the tests; none is a part of another.
    pub tests: Vec<String>,
    /// What becomes of its text.
    pub(super) change: Change,
}

/// What becomes of a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Tests are added.
    Added {
        /// The tests.
        text: String,
        /// Where they stand.
        place: Place,
    },
    /// It is another one.
    Whole(String),
    /// It is a program without a known runner, which fails.
    Own {
        /// Its language.
        script: Script,
        /// The word with which its reports begin.
        token: String,
        /// Where it fails.
        place: Failing,
    },
}

/// Where a program fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    /// At each of its own ends.
    AtEnds,
    /// In front of all.
    InFront,
    /// Whatever it does, once it has ended.
    Late,
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The end of the file.
    End,
    /// The end of the class with its tests.
    Class,
    /// In front of the statement that starts a runner.
    Main,
}

impl Planted {
    /// The text of a file with these tests. One without such a place, or that is no text, stays as it is.
    pub fn added_to(&self, mut text: Vec<u8>) -> Vec<u8> {
        let Ok(given) = std::str::from_utf8(&text) else { return text };
        match &self.change {
            Change::Added { text: added, place } => {
                let at = match place {
                    Place::End => Some(given.len()),
                    Place::Class => class_end(given),
                    Place::Main => main_start(given),
                };
                if let Some(at) = at {
                    text.splice(at..at, added.bytes());
                }
                text
            }
            Change::Whole(text) => text.clone().into_bytes(),
            Change::Own { script, token, place } => {
                let failing = match place {
                    Failing::AtEnds => failing_at_ends,
                    Failing::InFront => failing_in_front,
                    Failing::Late => failing_late,
                };
                failing(*script, given, token).map_or(text, String::into_bytes)
            }
        }
    }
}

/// The place in front of the statement of a module in Python that starts a runner over its tests.
fn main_start(text: &str) -> Option<usize> {
    let code = masked(Script::Python, text)?;
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let is_inside = line.starts_with([' ', '\t', ')', ']', '}']);
        let is_head = line.starts_with("def ") || line.starts_with("async def ");
        let calls = words(line, "main").any(|at| {
            line.get(at + "main".len()..).is_some_and(|rest| rest.trim_start().starts_with('('))
        });
        if line.starts_with("if __name__") || !is_inside && !is_head && calls {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// Failing tests for a file that a line starts, and that starts a runner over its own tests. None where it has no place
/// for them.
pub fn plant_started(runner: Runner, path: &str, text: &str, token: &str) -> Option<Planted> {
    let path = &*as_source(path, text);
    let planted = plant(runner, path, text, token)?;
    match planted.change {
        Change::Added { text: added, place: Place::End } if path.ends_with(".py") => {
            main_start(text)?;
            // What follows stands on a line of its own.
            let added = format!("{added}\n\n");
            Some(Planted { change: Change::Added { text: added, place: Place::Main }, ..planted })
        }
        Change::Added { .. } | Change::Whole(_) | Change::Own { .. } => Some(planted),
    }
}

/// Failing tests for a test file. `token` is a random lower-case word, which no other file has. None where the file is
/// written with a library without a canary.
pub fn plant(runner: Runner, path: &str, text: &str, token: &str) -> Option<Planted> {
    plant_bodies(runner, (path, text), token, bodies(runner, path, text))
}

/// One failing test for a file.
pub fn plant_one(runner: Runner, path: &str, text: &str, token: &str) -> Option<Planted> {
    let mut bodies = bodies(runner, path, text);
    bodies.truncate(1);
    plant_bodies(runner, (path, text), token, bodies)
}

fn plant_bodies(
    runner: Runner,
    (path, text): (&str, &str),
    token: &str,
    bodies: Vec<&'static str>,
) -> Option<Planted> {
    if bodies.is_empty() {
        return None;
    }
    let tests: Vec<String> = (0..bodies.len()).map(|at| format!("{token}_{at:02}")).collect();
    let mut added = head(runner, path, text, token);
    for (body, name) in bodies.iter().zip(&tests) {
        let body = body.replace('«', &LESS.to_string()).replace('»', &MORE.to_string());
        // A mark of PHP and of attributes as well.
        let body = body.replace("@_", &format!("{token}_"));
        added.push_str(&test(runner, (path, text), (name, &body), token)?);
    }
    if is_inside(runner, path) {
        added.push_str("}\n");
    }
    if runner == Runner::Rspec {
        added.push_str("end\n");
    }
    let in_class =
        matches!(runner, Runner::Maven | Runner::Gradle | Runner::DotnetTest | Runner::Phpunit);
    let place = if in_class { Place::Class } else { Place::End };
    Some(Planted { tests, change: Change::Added { text: added, place } })
}

/// One failing test.
fn test(
    runner: Runner,
    (path, text): (&str, &str),
    (name, body): (&str, &str),
    token: &str,
) -> Option<String> {
    Some(match runner {
        Runner::Pytest | Runner::Unittest => {
            format!("    def test_{name}(self):\n        {body}\n")
        }
        Runner::CargoTest | Runner::Nextest => format!("#[test]\nfn {name}() {{ {body} }}\n"),
        Runner::GoTest => format!("func Test_{name}(t *testing.T) {{ {body} }}\n"),
        Runner::NodeTest | Runner::Vitest => {
            format!("{token}_test('{name}', () => {{ {body} }});\n")
        }
        Runner::Jest => format!("test('{name}', () => {{ {body} }});\n"),
        Runner::Mocha => {
            format!("(typeof it === 'function' ? it : test)('{name}', () => {{ {body} }});\n")
        }
        Runner::Rspec => format!("  it '{name}' do\n    {body}\n  end\n"),
        Runner::Phpunit => format!("\n    public function test_{name}(): void {{ {body} }}\n"),
        Runner::Maven | Runner::Gradle | Runner::DotnetTest | Runner::Ctest => {
            let is_kotlin = path.ends_with(".kt");
            let head = if is_kotlin { "fun" } else { "public void" };
            match flavour(runner, text)? {
                Flavour::Jupiter => {
                    format!("\n    @org.junit.jupiter.api.Test\n    {head} {name}() {{ {body} }}\n")
                }
                Flavour::Junit4 => {
                    format!("\n    @org.junit.Test\n    {head} {name}() {{ {body} }}\n")
                }
                Flavour::Testng => {
                    format!(
                        "\n    @org.testng.annotations.Test\n    {head} {name}() {{ {body} }}\n"
                    )
                }
                Flavour::Xunit => {
                    format!("\n    [global::Xunit.Fact]\n    {head} {name}() {{ {body} }}\n")
                }
                Flavour::Nunit => {
                    format!(
                        "\n    [global::NUnit.Framework.Test]\n    {head} {name}() {{ {body} }}\n"
                    )
                }
                Flavour::Mstest => format!(
                    "\n    [global::Microsoft.VisualStudio.TestTools.UnitTesting.TestMethod]\n    {head} {name}() {{ {body} }}\n"
                ),
                Flavour::GoogleTest => format!("TEST(Z{token}, {name}) {{ {body} }}\n"),
                Flavour::Catch => format!("TEST_CASE(\"{name}\") {{ {body} }}\n"),
            }
        }
    })
}

/// Whether Rust's tests stand in a source file, and so need a module of their own.
fn is_inside(runner: Runner, path: &str) -> bool {
    matches!(runner, Runner::CargoTest | Runner::Nextest)
        && !(path.starts_with("tests/") || path.contains("/tests/"))
}

/// What stands in front of the tests.
fn head(runner: Runner, path: &str, text: &str, token: &str) -> String {
    let mut head = String::from("\n\n");
    let is_module = is_module(path, text);
    // The same object as that of the file's own tests.
    let assert = if text.contains("assert/strict") { "assert/strict" } else { "assert" };
    let written = match runner {
        // With `-f` it would end at the first failure, which with the code of the start is another one.
        Runner::Pytest | Runner::Unittest => write!(
            head,
            "import unittest as {token}_unittest\n\n{token}_unittest.TestResult.failfast = property(\n    lambda self: False, lambda self, value: None\n)\n\n\nclass Z{token}({token}_unittest.TestCase):\n"
        ),
        Runner::CargoTest | Runner::Nextest if is_inside(runner, path) => {
            write!(head, "#[cfg(test)]\nmod {token} {{\n#[allow(unused_imports)]\nuse super::*;\n")
        }
        Runner::NodeTest if is_module => write!(
            head,
            "import {token}_test from 'node:test';\nimport {token}_assert from 'node:{assert}';\n"
        ),
        Runner::NodeTest => write!(
            head,
            "const {token}_test = require('node:test');\nconst {token}_assert = require('node:{assert}');\n"
        ),
        Runner::Vitest => writeln!(
            head,
            "import {{ test as {token}_test, expect as {token}_expect }} from 'vitest';"
        ),
        Runner::Mocha if is_module => writeln!(head, "import {token}_assert from '{assert}';"),
        Runner::Mocha => writeln!(head, "const {token}_assert = require('{assert}');"),
        Runner::Rspec => writeln!(head, "RSpec.describe 'Z{token}' do"),
        Runner::CargoTest
        | Runner::Nextest
        | Runner::GoTest
        | Runner::Jest
        | Runner::Ctest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Phpunit => Ok(()),
    };
    debug_assert!(written.is_ok());
    let is_script =
        matches!(runner, Runner::NodeTest | Runner::Mocha | Runner::Jest | Runner::Vitest);
    if is_script && CHAI.iter().any(|mark| text.contains(mark)) {
        let chai = match is_module {
            true => format!("import * as {token}_chai from 'chai';\n"),
            false => format!("const {token}_chai = require('chai');\n"),
        };
        head.push_str(&chai);
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(runner: Runner, path: &str, text: &str) -> String {
        let planted = plant(runner, path, text, "zx").unwrap();
        assert!(planted.tests.len() > 1);
        String::from_utf8(planted.added_to(text.as_bytes().to_vec())).unwrap()
    }

    #[test]
    fn each_runner_has_failing_tests_where_it_looks_for_them() {
        for (runner, path, text, expected) in [
            (
                Runner::Rspec,
                "spec/a_spec.rb",
                "RSpec.describe A do\nend\n",
                "end\n\n\nRSpec.describe 'Zzx' do\n  it 'zx_00' do\n    expect(40971).to eq(71209)\n  end\n",
            ),
            (
                Runner::Phpunit,
                "tests/ATest.php",
                "<?php\nclass ATest extends TestCase {\n    public function testA() { }\n}\n",
                "testA() { }\n\n\n\n    public function test_zx_00(): void { $this->assertSame(40971, 71209); }\n",
            ),
            (
                Runner::Maven,
                "src/test/java/ATest.java",
                "import org.junit.jupiter.api.Test;\nclass ATest {\n    @Test\n    void a() { }\n}\nclass Help { }\n",
                "    @org.junit.jupiter.api.Test\n    public void zx_00() { org.junit.jupiter.api.Assertions.assertEquals(40971, 71209); }\n",
            ),
            (
                Runner::Gradle,
                "src/test/kotlin/ATest.kt",
                "import org.junit.Test\nimport org.assertj.core.api.Assertions\nclass ATest {\n    @Test\n    fun a() { }\n}\n",
                "    fun zx_06() { org.assertj.core.api.Assertions.assertThat(40971).isEqualTo(71209); }\n",
            ),
            (
                Runner::DotnetTest,
                "A.Tests/A.cs",
                "using Xunit;\nnamespace A { public class T { [Fact] public void A() { } } }\n",
                "    [global::Xunit.Fact]\n    public void zx_00() { global::Xunit.Assert.Equal(40971, 71209); }\n",
            ),
            (
                Runner::Ctest,
                "tests/a_test.cpp",
                "#include <gtest/gtest.h>\nTEST(A, B) {}\n",
                "TEST(Zzx, zx_00) { EXPECT_EQ(40971, 71209); }\n",
            ),
            (
                Runner::Mocha,
                "test/a.js",
                "const { expect } = require('chai');\n",
                "const zx_chai = require('chai');\n",
            ),
            (
                Runner::CargoTest,
                "tests/a.rs",
                "use pretty_assertions::assert_eq;\n#[test]\nfn a() {}\n",
                "fn zx_07() { pretty_assertions::assert_eq!(40971, 71209); }\n",
            ),
        ] {
            let found = planted(runner, path, text);
            assert!(found.contains(expected), "{path}: {found}");
        }
        let java = planted(
            Runner::Maven,
            "ATest.java",
            "import org.junit.Test;\nclass ATest { @Test void a() { } }\nclass Help { }\n",
        );
        assert!(java.ends_with("}\n}\nclass Help { }\n"), "{java}");
        assert_eq!(plant(Runner::Ctest, "tests/a.c", "int main() {}", "zx"), None);
        let strict = "const assert = require('node:assert/strict');\n";
        let found = planted(Runner::NodeTest, "test/a.js", strict);
        assert!(found.contains("const zx_assert = require('node:assert/strict');"), "{found}");
    }

    #[test]
    fn a_file_that_starts_its_runner_has_the_tests_in_front_of_that() {
        let text =
            "import unittest\nx = 'main('\n\nif __name__ == '__main__':\n    unittest.main()\n";
        let started = |text: &str| {
            let planted = plant_started(Runner::Unittest, "check.py", text, "zx")?;
            Some(String::from_utf8(planted.added_to(text.as_bytes().to_vec())).unwrap())
        };
        let found = started(text).unwrap();
        let class = found.find("class Zzx(").unwrap();
        assert!(
            class > found.find("x = 'main('").unwrap()
                && class < found.find("if __name__").unwrap()
        );
        assert!(
            found.ends_with("\n\nif __name__ == '__main__':\n    unittest.main()\n"),
            "{found}"
        );
        assert!(started("import unittest\nunittest.main()\n").is_some());
        assert_eq!(started("import unittest\ndef run():\n    unittest.main()\nrun()\n"), None);
    }
}
