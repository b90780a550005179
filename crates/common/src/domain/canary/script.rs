//! The canary of a test that no known runner starts, a script or a program in C: its end fails, so the line has to fail.
//!
//! A product that such a script loads can end the program with 0 before any assertion. It is known only of scripts that
//! reach their end wherever they succeed: they end nowhere else with 0, and load no helper that might.

use super::plant::{Place, Planted};
use super::program::program_end;
use crate::domain::check_inputs::{imported_files, language_of};

/// Words by which a script hands its end over.
const ENDS: &[&str] = &[
    "abort",
    "describe(",
    "exec",
    "kill",
    "main(",
    "node:test",
    "pytest",
    "quit",
    "return",
    "trap",
    "unittest",
];

/// Whether a script that succeeds reaches its end, and loads the product into its own program. `is_check_input` says it
/// of a file of the workspace; none for one that is not there.
pub fn reaches_its_end(
    path: &str,
    text: &str,
    is_check_input: impl Fn(&str) -> Option<bool>,
) -> bool {
    let known = matches!(language_of(path), Some("python" | "javascript" | "shell"));
    if !known || ENDS.iter().any(|word| text.contains(word)) || ends_well(text) {
        return false;
    }
    let loaded: Vec<bool> =
        imported_files(path, text).iter().filter_map(|file| is_check_input(file)).collect();
    !loaded.is_empty() && loaded.iter().all(|is_check_input| !is_check_input)
}

/// Whether a text may end a program with 0: one that names another number, or a message, does not.
fn ends_well(text: &str) -> bool {
    text.match_indices("xit").any(|(at, _)| {
        let rest = text.get(at + 3..).unwrap_or_default().trim_start_matches([' ', '(']);
        !rest.starts_with(['1', '2', '3', '4', '5', '6', '7', '8', '9', '"', '\''])
    })
}

/// Whether a test in C is a program that asserts with `assert` and ends nowhere else with 0.
pub fn own_program(path: &str, text: &str) -> bool {
    let asserts = text.contains("<assert.h>") || text.contains("<cassert>");
    language_of(path) == Some("c") && asserts && program_end(text).is_some() && !ends_well(text)
}

/// The failing statements of a test that no known runner starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTest {
    /// At its end: only a program that asserts and gets there reports it.
    pub at_end: Planted,
    /// In front of all: whatever the code of the start does, it is reported where the line runs this test.
    pub in_front: Planted,
}

/// The failing statements of such a test.
pub fn plant_own(path: &str, token: &str) -> OwnTest {
    let name = format!("{token}_00");
    let (statement, end) = match language_of(path) {
        Some("python") => (format!("raise SystemExit('FAIL: {name}')\n"), Place::End),
        Some("javascript") => (format!("throw new Error('FAIL: {name}');\n"), Place::End),
        Some("c") => (format!("assert(!\"FAIL: {name}\");\n"), Place::Program),
        Some(_) | None => (format!("echo 'FAIL: {name}'\nexit 97\n"), Place::End),
    };
    let at = |place, added| Planted { added, tests: vec![name.clone()], place };
    OwnTest {
        at_end: at(end, format!("\n{statement}")),
        in_front: at(Place::Front, statement.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reaches_its_end_where_nothing_else_ends_it_with_0() {
        let is_check_input = |path: &str| match path {
            "stats.py" | "src/sum.sh" | "src/slug.js" => Some(false),
            "tests/helper.py" => Some(true),
            _ => None,
        };
        for (path, text, expected) in [
            ("tests/check.py", "import os\nfrom stats import mean\nassert mean([2]) == 2\n", true),
            ("tests/check.py", "import sys, stats\nif stats.x:\n    sys.exit('not ok')\n", true),
            ("tests/check.py", "import sys, stats\nsys.exit(stats.failed)\n", false),
            ("tests/check.py", "import stats, helper\nhelper.same(stats.x)\n", false),
            ("tests/check.py", "import unittest, stats\n", false),
            ("tests/check.py", "import os\n", false),
            ("test.sh", ". src/sum.sh\n[ \"$(sum 2 3)\" = 5 ] || exit 1\n", true),
            ("test.sh", ". src/sum.sh\n[ \"$(sum 2 3)\" = 5 ]\nexit $?\n", false),
            ("test.sh", "[ \"$(sh src/sum.sh 2 3)\" = 5 ]\n", false),
            (
                "test/all.js",
                "const { slug } = require('../src/slug.js');\nif (!slug) process.exit(1);\n",
                true,
            ),
            ("tests/check.rb", "require 'stats'\n", false),
        ] {
            assert_eq!(reaches_its_end(path, text, is_check_input), expected, "{text}");
        }
        let own = plant_own("test.sh", "zx");
        let text =
            |planted: &Planted| String::from_utf8(planted.added_to(b"#!/bin/sh\nx\n".to_vec()));
        assert_eq!(text(&own.at_end).unwrap(), "#!/bin/sh\nx\n\necho 'FAIL: zx_00'\nexit 97\n");
        assert_eq!(text(&own.in_front).unwrap(), "#!/bin/sh\necho 'FAIL: zx_00'\nexit 97\nx\n");
        let test = "#include <assert.h>\nint main(void) { assert(sum(2, 3) == 5); return 0; }\n";
        assert!(
            own_program("test_sum.c", test)
                && !own_program("test_sum.c", "int main(void) { return 0; }")
        );
        let own = plant_own("test_sum.c", "zx");
        let planted = String::from_utf8(own.at_end.added_to(test.as_bytes().to_vec())).unwrap();
        assert!(planted.contains("5); \nassert(!\"FAIL: zx_00\");\nreturn 0;"), "{planted}");
    }
}
