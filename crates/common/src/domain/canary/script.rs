//! The canary of a test that no known runner starts, a script or a program in C: where it ends by itself it fails, so the
//! line has to fail.
//!
//! A product that such a script loads can end the program with 0 before any assertion, or switch assertions off. A run
//! that succeeds passes one of the script's own ends.

use super::ends::{failing_at_ends, failing_late, may_end, names};
use super::masked::Script;
use super::plant::{Change, Failing, Planted};

/// Whether a script ends only where it says.
pub fn ends_as_it_says(path: &str, text: &str) -> bool {
    let script = Script::of(path, text).filter(|script| !script.is_compiled());
    script.and_then(|script| failing_at_ends(script, text, "")).is_some()
}

/// Whether a product of this text may end a script that loads it with success.
pub fn product_may_end(path: &str, text: &str) -> bool {
    Script::of(path, text).is_some_and(|script| may_end(script, text))
}

/// Whether a test in C is a program, and ends only where it says.
pub fn is_own_program(path: &str, text: &str) -> bool {
    let script = Script::of(path, text).filter(|script| script.is_compiled());
    script.and_then(|script| failing_at_ends(script, text, "")).is_some()
}

/// The failing statements of a test that no known runner starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTest {
    /// At its ends: only a program that gets there reports it.
    pub at_ends: Planted,
    /// In front of all: whatever the code does, it is reported where the line runs this test.
    pub in_front: Planted,
    /// Once it has ended, with what was replaced until then; none where the end tells nothing more.
    pub late: Option<Planted>,
}

/// The failing statements of such a test.
pub fn plant_own(path: &str, text: &str, token: &str) -> Option<OwnTest> {
    let script = Script::of(path, text)?;
    let tests = names(script, text, token);
    let at = |place| {
        let change = Change::Own { script, token: token.to_owned(), place };
        Planted { tests: tests.clone(), change }
    };
    let is_late = failing_late(script, text, token).is_some();
    Some(OwnTest {
        at_ends: at(Failing::AtEnds),
        in_front: at(Failing::InFront),
        late: is_late.then(|| at(Failing::Late)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_ends_only_where_it_says() {
        for (path, text, expected) in [
            ("tests/check.py", "import os\nfrom stats import mean\nassert mean([2]) == 2\n", true),
            ("tests/check.py", "import sys, stats\nsys.exit(stats.failed)\n", true),
            ("test.sh", ". src/sum.sh\n[ \"$(sum 2 3)\" = 5 ]\nexit $?\n", true),
            ("test.sh", ". src/sum.sh\nexec sh other.sh\n", false),
            ("tests/check.rb", "require 'stats'\n", false),
            ("test_sum.c", "int main(void) { return failed; }", false),
        ] {
            assert_eq!(ends_as_it_says(path, text), expected, "{text}");
        }
        assert!(is_own_program("test_sum.c", "int main(void) { return failed; }"));
        assert!(!is_own_program("test_sum.c", "int run(void) { return failed; }"));
        let own = plant_own("test.sh", "a\n", "zx").unwrap();
        let text =
            |planted: &Planted| String::from_utf8(planted.added_to(b"a\n".to_vec())).unwrap();
        assert!(text(&own.at_ends).starts_with("a\n"));
        assert!(text(&own.in_front).ends_with("a\n"));
        assert_eq!(own.late, None);
    }
}
