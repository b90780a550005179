//! The canary of a test that no known runner starts, a script or a program in C: where it ends by itself it fails, so the
//! line has to fail.
//!
//! A product that such a script loads can end the program with 0 before any assertion, or switch assertions off. A run
//! that succeeds passes one of the script's own ends.

use super::ends::{failing_at_ends, may_end, names};
use super::masked::Script;
use super::plant::{Change, Planted};
use crate::domain::check_inputs::imported_files;

/// Whether a script loads the product into its own program, and ends only where it says. `is_check_input` says it of a
/// file of the workspace; none for one that is not there.
pub fn is_own_script(
    path: &str,
    text: &str,
    is_check_input: impl Fn(&str) -> Option<bool>,
) -> bool {
    let script = Script::of(path).filter(|script| !script.is_compiled());
    if script.and_then(|script| failing_at_ends(script, text, "")).is_none() {
        return false;
    }
    let loaded: Vec<bool> =
        imported_files(path, text).iter().filter_map(|file| is_check_input(file)).collect();
    !loaded.is_empty() && loaded.iter().all(|is_check_input| !is_check_input)
}

/// Whether a product of this text may end a script that loads it with success.
pub fn product_may_end(path: &str, text: &str) -> bool {
    Script::of(path).is_some_and(|script| may_end(script, text))
}

/// Whether a test in C is a program, and ends only where it says.
pub fn is_own_program(path: &str, text: &str) -> bool {
    let script = Script::of(path).filter(|script| script.is_compiled());
    script.and_then(|script| failing_at_ends(script, text, "")).is_some()
}

/// The failing statements of a test that no known runner starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTest {
    /// At its ends: only a program that gets there reports it.
    pub at_ends: Planted,
    /// In front of all: whatever the code of the start does, it is reported where the line runs this test.
    pub in_front: Planted,
}

/// The failing statements of such a test.
pub fn plant_own(path: &str, text: &str, token: &str) -> Option<OwnTest> {
    let script = Script::of(path)?;
    let tests = names(script, text, token);
    let at = |at_ends| {
        let change = Change::Own { script, token: token.to_owned(), at_ends };
        Planted { tests: tests.clone(), change }
    };
    Some(OwnTest { at_ends: at(true), in_front: at(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_loads_the_product_and_no_helper_has_a_canary() {
        let is_check_input = |path: &str| match path {
            "stats.py" | "src/sum.sh" | "src/slug.js" => Some(false),
            "tests/helper.py" => Some(true),
            _ => None,
        };
        for (path, text, expected) in [
            ("tests/check.py", "import os\nfrom stats import mean\nassert mean([2]) == 2\n", true),
            ("tests/check.py", "import sys, stats\nsys.exit(stats.failed)\n", true),
            ("tests/check.py", "import stats\ndef main():\n    return 0\nmain()\n", true),
            ("tests/check.py", "import stats, helper\nhelper.same(stats.x)\n", false),
            ("tests/check.py", "import os\n", false),
            ("test.sh", ". src/sum.sh\n[ \"$(sum 2 3)\" = 5 ]\nexit $?\n", true),
            ("test.sh", ". src/sum.sh\nexec sh other.sh\n", false),
            ("test.sh", "[ \"$(sh src/sum.sh 2 3)\" = 5 ]\n", false),
            (
                "test/all.js",
                "const { slug } = require('../src/slug.js');\nif (!slug) process.exitCode = 1;\n",
                true,
            ),
            ("tests/check.rb", "require 'stats'\n", false),
        ] {
            assert_eq!(is_own_script(path, text, is_check_input), expected, "{text}");
        }
        assert!(is_own_program("test_sum.c", "int main(void) { return failed; }"));
        assert!(!is_own_program("test_sum.c", "int run(void) { return failed; }"));
        let own = plant_own("test.sh", "a\n", "zx").unwrap();
        let text =
            |planted: &Planted| String::from_utf8(planted.added_to(b"a\n".to_vec())).unwrap();
        assert!(text(&own.at_ends).starts_with("a\n"));
        assert!(text(&own.in_front).ends_with("a\n"));
    }
}
