//! Failing tests, as each runner's files have them. Each fails by another assertion, because only some may
//! be patched.

use crate::domain::tests_seen::Runner;
use std::fmt::Write;

/// Two numbers that differ; the second is larger.
const LESS: u32 = 40_971;
const MORE: u32 = 71_209;

/// A file with failing tests at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// What is added to its text.
    pub added: String,
    /// The names of the tests; none is a part of another.
    pub tests: Vec<String>,
}

/// Failing tests for the end of a test file. `token` is a random lower-case word, which no other file has.
/// None for a runner without a canary.
pub fn plant(runner: Runner, path: &str, text: &str, token: &str) -> Option<Planted> {
    let bodies = bodies(runner)?;
    let tests: Vec<String> = (0..bodies.len()).map(|at| format!("{token}_{at:02}")).collect();
    let mut added = head(runner, path, text, token);
    for (body, name) in bodies.iter().zip(&tests) {
        let body = body.replace('«', &LESS.to_string()).replace('»', &MORE.to_string());
        let body = body.replace('@', token);
        let test = match runner {
            Runner::Pytest | Runner::Unittest => {
                format!("    def test_{name}(self):\n        {body}\n")
            }
            Runner::CargoTest | Runner::Nextest => {
                format!("#[test]\nfn {name}() {{ {body} }}\n")
            }
            Runner::GoTest => format!("func Test_{name}(t *testing.T) {{ {body} }}\n"),
            Runner::NodeTest => format!("{token}_test('{name}', () => {{ {body} }});\n"),
            Runner::Vitest => format!("{token}_test('{name}', () => {{ {body} }});\n"),
            Runner::Jest => format!("test('{name}', () => {{ {body} }});\n"),
            Runner::Mocha => {
                format!("(typeof it === 'function' ? it : test)('{name}', () => {{ {body} }});\n")
            }
            Runner::Ctest
            | Runner::Maven
            | Runner::Gradle
            | Runner::DotnetTest
            | Runner::Rspec
            | Runner::Phpunit => return None,
        };
        added.push_str(&test);
    }
    if is_inside(runner, path) {
        added.push_str("}\n");
    }
    Some(Planted { added, tests })
}

/// Whether Rust's tests stand in a source file, and so need a module of their own.
fn is_inside(runner: Runner, path: &str) -> bool {
    matches!(runner, Runner::CargoTest | Runner::Nextest)
        && !(path.starts_with("tests/") || path.contains("/tests/"))
}

fn is_module(path: &str, text: &str) -> bool {
    let ends = [".mjs", ".mts"];
    ends.iter().any(|end| path.ends_with(end))
        || text.lines().any(|line| line.starts_with("import ") || line.starts_with("export "))
}

/// What stands in front of the tests.
fn head(runner: Runner, path: &str, text: &str, token: &str) -> String {
    let mut head = String::from("\n\n");
    let is_module = is_module(path, text);
    let written = match runner {
        Runner::Pytest | Runner::Unittest => write!(
            head,
            "import unittest as {token}_unittest\n\n\nclass Z{token}({token}_unittest.TestCase):\n"
        ),
        Runner::CargoTest | Runner::Nextest if is_inside(runner, path) => {
            write!(head, "#[cfg(test)]\nmod {token} {{\n#[allow(unused_imports)]\nuse super::*;\n")
        }
        Runner::NodeTest if is_module => write!(
            head,
            "import {token}_test from 'node:test';\nimport {token}_assert from 'node:assert';\n"
        ),
        Runner::NodeTest => write!(
            head,
            "const {token}_test = require('node:test');\nconst {token}_assert = require('node:assert');\n"
        ),
        Runner::Vitest => writeln!(
            head,
            "import {{ test as {token}_test, expect as {token}_expect }} from 'vitest';"
        ),
        Runner::Mocha if is_module => writeln!(head, "import {token}_assert from 'assert';"),
        Runner::Mocha => writeln!(head, "const {token}_assert = require('assert');"),
        Runner::CargoTest
        | Runner::Nextest
        | Runner::GoTest
        | Runner::Jest
        | Runner::Ctest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit => Ok(()),
    };
    debug_assert!(written.is_ok());
    head
}

/// The bodies of the tests. `«` and `»` stand for the numbers, `@` for the token.
fn bodies(runner: Runner) -> Option<&'static [&'static str]> {
    match runner {
        Runner::Unittest | Runner::Pytest => Some(PYTHON),
        Runner::CargoTest | Runner::Nextest => Some(RUST),
        Runner::GoTest => Some(GO),
        Runner::NodeTest | Runner::Mocha => Some(NODE),
        Runner::Jest => Some(JEST),
        Runner::Vitest => Some(VITEST),
        Runner::Ctest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit => None,
    }
}

const PYTHON: &[&str] = &[
    "self.assertEqual(«, »)",
    "self.assertNotEqual(«, «)",
    "self.assertTrue(« == »)",
    "self.assertFalse(« == «)",
    "self.assertIs(«, None)",
    "self.assertIsNone(«)",
    "self.assertIsNotNone(None)",
    "self.assertIn(«, [»])",
    "self.assertNotIn(«, [«])",
    "self.assertGreater(«, »)",
    "self.assertLess(», «)",
    "self.assertGreaterEqual(«, »)",
    "self.assertLessEqual(», «)",
    "self.assertAlmostEqual(«, »)",
    "self.assertIsInstance(«, str)",
    "self.assertListEqual([«], [»])",
    "self.assertDictEqual({«: 1}, {»: 1})",
    "self.assertCountEqual([«], [»])",
    "self.assertRegex('a', '^b$')",
    "self.assertRaises(ValueError, int, «)",
    "self.fail('«')",
    "assert « == »",
    "raise RuntimeError(«)",
];

const RUST: &[&str] =
    &["assert_eq!(«, »);", "assert_ne!(«, «);", "assert!(« == »);", "panic!(\"«\");"];

const GO: &[&str] = &["t.Error(«)", "t.Fatal(«)", "t.Fail()", "if « != » { t.Errorf(\"%d\", «) }"];

const NODE: &[&str] = &[
    "@_assert.strictEqual(«, »);",
    "@_assert.equal(«, »);",
    "@_assert.notStrictEqual(«, «);",
    "@_assert.deepStrictEqual({ a: « }, { a: » });",
    "@_assert.deepEqual([«], [»]);",
    "@_assert.ok(« === »);",
    "@_assert(« === »);",
    "@_assert.throws(() => «);",
    "@_assert.match('a', /^b$/);",
    "throw new Error('«');",
];

const JEST: &[&str] = &[
    "expect(«).toBe(»);",
    "expect(«).toEqual(»);",
    "expect({ a: « }).toStrictEqual({ a: » });",
    "expect(«).not.toBe(«);",
    "expect(« === »).toBeTruthy();",
    "expect(«).toBeNull();",
    "expect(«).toBeCloseTo(»);",
    "expect(«).toBeGreaterThan(»);",
    "expect([«]).toContain(»);",
    "expect([«]).toHaveLength(2);",
    "expect('a').toMatch(/^b$/);",
    "expect(() => «).toThrow();",
    "throw new Error('«');",
];

const VITEST: &[&str] = &[
    "@_expect(«).toBe(»);",
    "@_expect(«).toEqual(»);",
    "@_expect({ a: « }).toStrictEqual({ a: » });",
    "@_expect(«).not.toBe(«);",
    "@_expect(« === »).toBeTruthy();",
    "@_expect(«).toBeNull();",
    "@_expect(«).toBeGreaterThan(»);",
    "@_expect([«]).toContain(»);",
    "@_expect('a').toMatch(/^b$/);",
    "@_expect(() => «).toThrow();",
    "throw new Error('«');",
];
