//! The bodies of failing tests. Each fails by another assertion, because only some may be patched; `«` and `»` stand
//! for two numbers, `@` for a random word.

use super::flavour::{Flavour, flavour};
use super::integrity;
use super::matchers;
use crate::domain::tests_seen::Runner;

/// The bodies for a file: those of the runner, and those of libraries that its tests assert with.
pub(super) fn bodies(runner: Runner, path: &str, text: &str) -> Vec<&'static str> {
    let own: &[&str] = match runner {
        Runner::Unittest | Runner::Pytest => PYTHON,
        Runner::CargoTest | Runner::Nextest => RUST,
        Runner::GoTest => GO,
        Runner::NodeTest | Runner::Mocha => NODE,
        Runner::Jest => JEST,
        Runner::Vitest => VITEST,
        Runner::Rspec => RSPEC,
        Runner::Phpunit => PHPUNIT,
        Runner::Maven | Runner::Gradle | Runner::DotnetTest | Runner::Ctest => {
            match flavour(runner, text) {
                Some(Flavour::Jupiter) => JUPITER,
                Some(Flavour::Junit4) => JUNIT4,
                Some(Flavour::Testng) => TESTNG,
                Some(Flavour::Xunit) => XUNIT,
                Some(Flavour::Nunit) => NUNIT,
                Some(Flavour::Mstest) => MSTEST,
                Some(Flavour::GoogleTest) => GOOGLE_TEST,
                Some(Flavour::Catch) => CATCH,
                None => &[],
            }
        }
    };
    if own.is_empty() {
        return Vec::new();
    }
    let replaced = integrity::bodies(runner, path);
    own.iter().chain(of_libraries(runner, text)).chain(replaced).copied().collect()
}

/// How many of them fail whatever else was replaced; those that compare follow.
pub(super) fn own_bodies(runner: Runner, path: &str, text: &str) -> usize {
    bodies(runner, path, text).len().saturating_sub(integrity::bodies(runner, path).len())
}

/// Assertions of libraries, by what a text says where it loads one.
fn of_libraries(runner: Runner, text: &str) -> impl Iterator<Item = &'static &'static str> {
    let known = match runner {
        Runner::Unittest | Runner::Pytest => OF_PYTHON,
        Runner::CargoTest | Runner::Nextest => OF_RUST,
        Runner::GoTest => OF_GO,
        Runner::NodeTest | Runner::Mocha | Runner::Jest | Runner::Vitest => OF_NODE,
        Runner::Maven | Runner::Gradle => OF_JVM,
        Runner::Rspec | Runner::Phpunit | Runner::DotnetTest | Runner::Ctest => &[],
    };
    let is_loaded = |(marks, _): &&Library| marks.iter().any(|mark| text.contains(mark));
    let found: Vec<_> = known.iter().filter(is_loaded).collect();
    found.into_iter().flat_map(|(_, bodies)| bodies.iter())
}

/// What a text says where it loads a library, and assertions of that library.
type Library = (&'static [&'static str], &'static [&'static str]);

const OF_PYTHON: &[Library] = &[
    (
        &["import hamcrest", "from hamcrest import"],
        &["__import__('hamcrest').assert_that(«, __import__('hamcrest').equal_to(»))"],
    ),
    (
        &["import assertpy", "from assertpy import"],
        &["__import__('assertpy').assert_that(«).is_equal_to(»)"],
    ),
];

const OF_RUST: &[Library] = &[
    (&["use pretty_assertions"], &["pretty_assertions::assert_eq!(«, »);"]),
    (&["use similar_asserts"], &["similar_asserts::assert_eq!(«, »);"]),
];

const OF_GO: &[Library] = &[
    (&["\t\"github.com/stretchr/testify/assert\""], &["assert.Equal(t, «, »)"]),
    (&["\t\"github.com/stretchr/testify/require\""], &["require.Equal(t, «, »)"]),
];

pub(super) const CHAI: &[&str] =
    &["require('chai')", "require(\"chai\")", "from 'chai'", "from \"chai\""];
const OF_NODE: &[Library] = &[(
    CHAI,
    &[
        "@_chai.expect(«).to.equal(»);",
        "@_chai.expect([«]).to.deep.equal([»]);",
        "@_chai.assert.strictEqual(«, »);",
        matchers::CHAI,
    ],
)];

const OF_JVM: &[Library] = &[
    (
        &[
            "import static org.assertj.core.api.Assertions",
            "import org.assertj.core.api.Assertions",
        ],
        &["org.assertj.core.api.Assertions.assertThat(«).isEqualTo(»);"],
    ),
    (
        &["import static org.hamcrest.MatcherAssert", "import org.hamcrest.MatcherAssert"],
        &["org.hamcrest.MatcherAssert.assertThat(«, org.hamcrest.CoreMatchers.equalTo(»));"],
    ),
];

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
    "self.assertEqual('«', '»')",
    "self.assertEqual((«,), (»,))",
    "self.assertMultiLineEqual('«', '»')",
    "self.assertListEqual([«], [»])",
    "self.assertTupleEqual((«,), (»,))",
    "self.assertSetEqual({«}, {»})",
    "self.assertSequenceEqual([«], [»])",
    "self.assertDictEqual({«: 1}, {»: 1})",
    "self.assertCountEqual([«], [»])",
    "self.assertRegex('a', '^b$')",
    "self.assertNotRegex('a', '^a$')",
    "self.assertIsNot(None, None)",
    "self.assertNotIsInstance(«, int)",
    "self.assertNotAlmostEqual(«, «)",
    "self.assertRaises(ValueError, int, «)",
    "self.assertRaisesRegex(ValueError, '^a$', int, 'b')",
    "with self.subTest(at=«): self.assertEqual(«, »)",
    "self.fail('«')",
    "assert « == »",
    "raise RuntimeError(«)",
];

const RUST: &[&str] = &[
    "assert_eq!(«, »);",
    "assert_ne!(«, «);",
    "assert!(« == »);",
    "panic!(\"«\");",
    // Texts and memory are compared by functions that a product can have of its own.
    "extern crate core as @_core; assert_eq!(@_core::hint::black_box(\"«\"), \"»\");",
    "extern crate core as @_core; assert_eq!(@_core::hint::black_box([«_u32, 1]), [»_u32, 1]);",
    "extern crate core as @_core; assert!(@_core::hint::black_box(\"«\").contains(\"»\"));",
];

const GO: &[&str] = &["t.Error(«)", "t.Fatal(«)", "t.Fail()", "if « != » { t.Errorf(\"%d\", «) }"];

const NODE: &[&str] = &[
    "@_assert.strictEqual(«, »);",
    "@_assert.equal(«, »);",
    "@_assert.notStrictEqual(«, «);",
    "@_assert.deepStrictEqual({ a: « }, { a: » });",
    "@_assert.deepEqual([«], [»]);",
    // A compiler that knows both values refuses to compare them.
    "@_assert.ok(Number(«) === Number(»));",
    "@_assert(Number(«) === Number(»));",
    "@_assert.throws(() => «);",
    "@_assert.match('a', /^b$/);",
    "throw new Error('«');",
];

const JEST: &[&str] = &[
    "expect(«).toBe(»);",
    "expect(«).toEqual(»);",
    "expect({ a: « }).toStrictEqual({ a: » });",
    "expect(«).not.toBe(«);",
    "expect(Number(«) === Number(»)).toBeTruthy();",
    "expect(«).toBeNull();",
    "expect(«).toBeCloseTo(»);",
    "expect(«).toBeGreaterThan(»);",
    "expect([«]).toContain(»);",
    "expect([«]).toHaveLength(2);",
    "expect('a').toMatch(/^b$/);",
    "expect(() => «).toThrow();",
    matchers::JEST,
    "throw new Error('«');",
];

const VITEST: &[&str] = &[
    "@_expect(«).toBe(»);",
    "@_expect(«).toEqual(»);",
    "@_expect({ a: « }).toStrictEqual({ a: » });",
    "@_expect(«).not.toBe(«);",
    "@_expect(Number(«) === Number(»)).toBeTruthy();",
    "@_expect(«).toBeNull();",
    "@_expect(«).toBeGreaterThan(»);",
    "@_expect([«]).toContain(»);",
    "@_expect('a').toMatch(/^b$/);",
    "@_expect(() => «).toThrow();",
    matchers::VITEST,
    "throw new Error('«');",
];

const RSPEC: &[&str] = &[
    "expect(«).to eq(»)",
    "expect(«).not_to eq(«)",
    "expect(« == »).to be(true)",
    "expect(nil).not_to be_nil",
    "expect([«]).to include(»)",
    "expect(«).to be > »",
    "expect('a').to match(/^b$/)",
    "expect { « }.to raise_error(ArgumentError)",
    "raise '«'",
];

const PHPUNIT: &[&str] = &[
    "$this->assertSame(«, »);",
    "$this->assertEquals(«, »);",
    "$this->assertNotSame(«, «);",
    "$this->assertTrue(« === »);",
    "$this->assertFalse(« === «);",
    "$this->assertNull(«);",
    "$this->assertCount(2, [«]);",
    "$this->assertContains(«, [»]);",
    "$this->assertGreaterThan(», «);",
    "$this->fail('«');",
    "throw new \\RuntimeException('«');",
];

const JUPITER: &[&str] = &[
    "org.junit.jupiter.api.Assertions.assertEquals(«, »);",
    "org.junit.jupiter.api.Assertions.assertNotEquals(«, «);",
    "org.junit.jupiter.api.Assertions.assertTrue(« == »);",
    "org.junit.jupiter.api.Assertions.assertFalse(« == «);",
    "org.junit.jupiter.api.Assertions.assertNull(\"«\");",
    "org.junit.jupiter.api.Assertions.assertSame(\"«\", \"»\");",
    "org.junit.jupiter.api.Assertions.fail(\"«\");",
];

const JUNIT4: &[&str] = &[
    "org.junit.Assert.assertEquals(«, »);",
    "org.junit.Assert.assertTrue(« == »);",
    "org.junit.Assert.assertFalse(« == «);",
    "org.junit.Assert.assertNull(\"«\");",
    "org.junit.Assert.assertSame(\"«\", \"»\");",
    "org.junit.Assert.fail(\"«\");",
];

const TESTNG: &[&str] = &[
    "org.testng.Assert.assertEquals(«, »);",
    "org.testng.Assert.assertTrue(« == »);",
    "org.testng.Assert.assertFalse(« == «);",
    "org.testng.Assert.assertNull(\"«\");",
    "org.testng.Assert.fail(\"«\");",
];

const XUNIT: &[&str] = &[
    "global::Xunit.Assert.Equal(«, »);",
    "global::Xunit.Assert.NotEqual(«, «);",
    "global::Xunit.Assert.True(« > »);",
    "global::Xunit.Assert.False(« < »);",
    "global::Xunit.Assert.Null(\"«\");",
    "throw new global::System.Exception(\"«\");",
];

const NUNIT: &[&str] = &[
    "global::NUnit.Framework.Assert.That(«, global::NUnit.Framework.Is.EqualTo(»));",
    "global::NUnit.Framework.Assert.That(« > », global::NUnit.Framework.Is.True);",
    "global::NUnit.Framework.Assert.Fail(\"«\");",
    "throw new global::System.Exception(\"«\");",
];

const MSTEST: &[&str] = &[
    "global::Microsoft.VisualStudio.TestTools.UnitTesting.Assert.AreEqual(«, »);",
    "global::Microsoft.VisualStudio.TestTools.UnitTesting.Assert.IsTrue(« > »);",
    "global::Microsoft.VisualStudio.TestTools.UnitTesting.Assert.Fail(\"«\");",
    "throw new global::System.Exception(\"«\");",
];

const GOOGLE_TEST: &[&str] = &[
    "EXPECT_EQ(«, »);",
    "ASSERT_EQ(«, »);",
    "EXPECT_NE(«, «);",
    "EXPECT_TRUE(« == »);",
    "ASSERT_TRUE(« == »);",
    "FAIL();",
];

const CATCH: &[&str] = &["CHECK(« == »);", "REQUIRE(« == »);", "REQUIRE_FALSE(« == «);"];
