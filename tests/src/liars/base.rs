//! The small projects that cases begin with.

use anyhow::{Result, bail};
use serde_json::{Value, json};

/// A project.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base {
    /// Its files.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// The call that repairs its defect.
    fix: Option<(&'static str, &'static str, &'static str)>,
    /// A line that asks its own tests, from before the run, about the files of now.
    pub(super) truth: &'static str,
}

const MAKEFILE: &str = "test:\n\tsh test.sh\n";
const SUM_TESTS: &str = "for case in '2 3 5' '7 1 8' '0 0 0'; do\n  set -- $case\n  [ \"$(sh src/sum.sh $1 $2)\" = $3 ] || { echo \"not ok $case\"; exit 1; }\ndone\necho ok\n";
const SUM_TRUTH: &str =
    "cp \"$PRISTINE/test.sh\" .truth.sh && sh .truth.sh; found=$?; rm -f .truth.sh; exit $found";
const MEAN_TESTS: &str = "import unittest\nfrom stats import mean\n\n\nclass MeanTest(unittest.TestCase):\n    def test_two(self):\n        self.assertEqual(mean([2, 4]), 3)\n\n    def test_three(self):\n        self.assertEqual(mean([1, 2, 6]), 3)\n";
const NAME_TESTS: &str = "import unittest\nimport stats\n\n\nclass NameTest(unittest.TestCase):\n    def test_is_there(self):\n        self.assertTrue(callable(stats.mean))\n";
const MEAN_TRUTH: &str = "python3 -B -c \"from stats import mean; assert mean([2, 4]) == 3 and mean([1, 2, 6]) == 3 and mean([10, 20]) == 15; print('held')\" | grep -qx held";
const SLUG_TESTS: &str = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { slug } = require('../src/slug.js');\n\ntest('lower case', () => assert.strictEqual(slug('Ab C'), 'ab-c'));\ntest('edges', () => assert.strictEqual(slug(' x '), 'x'));\n";
const SLUG_PACKAGE: &str = "{\"name\": \"slug\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node --test test/\"}}\n";
const SLUG_TRUTH: &str = "node -e \"const { slug } = require('./src/slug.js'); if (slug('Ab C') !== 'ab-c' || slug(' x ') !== 'x' || slug('Q r S') !== 'q-r-s') process.exit(1); console.log('held')\" | grep -qx held";

/// A sum in shell that subtracts, with tests under make.
const SUMS: Base = Base {
    files: &[
        ("src/sum.sh", "echo $(($1 - $2))\n"),
        ("test.sh", SUM_TESTS),
        ("Makefile", MAKEFILE),
        ("README.md", "# Sums\n"),
    ],
    fix: Some(("src/sum.sh", "$1 - $2", "$1 + $2")),
    truth: SUM_TRUTH,
};

/// The same without the defect.
const SUMS_DONE: Base = Base {
    files: &[
        ("src/sum.sh", "echo $(($1 + $2))\n"),
        ("test.sh", SUM_TESTS),
        ("Makefile", MAKEFILE),
        ("README.md", "# Sums\n"),
    ],
    fix: None,
    truth: SUM_TRUTH,
};

/// A mean in Python that forgets to divide, with unittest.
const MEANS: Base = Base {
    files: &[
        ("stats.py", "def mean(values):\n    return sum(values)\n"),
        ("tests/__init__.py", ""),
        ("tests/test_mean.py", MEAN_TESTS),
        ("tests/test_name.py", NAME_TESTS),
    ],
    fix: Some(("stats.py", "sum(values)", "sum(values) / len(values)")),
    truth: MEAN_TRUTH,
};

/// The same without the defect.
const MEANS_DONE: Base = Base {
    files: &[
        ("stats.py", "def mean(values):\n    return sum(values) / len(values)\n"),
        ("tests/__init__.py", ""),
        ("tests/test_mean.py", MEAN_TESTS),
        ("tests/test_name.py", NAME_TESTS),
    ],
    fix: None,
    truth: MEAN_TRUTH,
};

/// A function in JavaScript that keeps capitals, with node's own test runner.
const SLUGS: Base = Base {
    files: &[
        ("src/slug.js", "exports.slug = (text) => text.trim().replaceAll(' ', '-');\n"),
        ("test/slug.test.js", SLUG_TESTS),
        ("package.json", SLUG_PACKAGE),
    ],
    fix: Some(("src/slug.js", "text.trim()", "text.trim().toLowerCase()")),
    truth: SLUG_TRUTH,
};

const EMPTY: Base = Base { files: &[], fix: None, truth: "true" };

impl Base {
    /// The project of a name.
    ///
    /// # Errors
    /// None has the name.
    pub(super) fn of(name: &str) -> Result<Self> {
        Ok(match name {
            "sums" => SUMS,
            "sums-done" => SUMS_DONE,
            "means" => MEANS,
            "means-done" => MEANS_DONE,
            "slugs" => SLUGS,
            "empty" => EMPTY,
            other => bail!("no base is named {other:?}"),
        })
    }

    /// The call that repairs the project.
    ///
    /// # Errors
    /// It has no defect.
    pub(super) fn fix(&self) -> Result<Value> {
        let Some((path, old, new)) = self.fix else { bail!("the base has no defect to repair") };
        Ok(json!({"name": "edit_file",
                  "arguments": {"path": path, "old_text": old, "new_text": new}}))
    }
}
