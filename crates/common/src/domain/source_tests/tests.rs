use super::*;

/// As [`super::compare`], where nothing moved.
fn compare(path: &[u8], before: &str, after: &str) -> Comparison {
    super::compare(path, before, after, &Moved::default())
}

const LIB: &str = "\
//! Adds.
//!
//! ```
//! assert_eq!(it::add(1, 1), 2);
//! ```
use std::fmt;

/// Adds two numbers.
///
/// ```
/// assert_eq!(it::add(1, 2), 3);
/// ```
pub fn add(a: u8, b: u8) -> u8 { a + b }

impl fmt::Display for X { fn fmt(&self) {} }

pub mod deep {
    #[cfg(test)]
    mod tests {
        #[test]
        fn below() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

/// As [`super::compare`], where nothing moved.
fn compare(path: &[u8], before: &str, after: &str) -> Comparison {
    super::compare(path, before, after, &Moved::default())
}
    const THREE: u8 = 3;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), THREE);
    }

    #[tokio::test]
    #[should_panic(expected = \"overflow\")]
    async fn overflows() { add(255, 1); }
}
";

fn rust(after: &str) -> Comparison {
    compare(b"src/lib.rs", LIB, after)
}

/// Compares the file with one text replaced.
fn with(from: &str, to: &str) -> Comparison {
    assert!(LIB.contains(from), "{from}");
    rust(&LIB.replacen(from, to, 1))
}

#[test]
fn product_layout_comments_and_new_tests_are_no_change() {
    for (from, to) in [
        ("{ a + b }", "{ b.wrapping_add(a) }"),
        ("/// Adds two numbers.", "/// Adds two small numbers."),
        (
            "assert_eq!(add(1, 2), THREE);",
            "// it adds\n        assert_eq!(\n            add(1, 2),\n            THREE,\n        );",
        ),
        (
            "    #[test]\n    fn adds",
            "    #[test]\n    fn more() {}\n    use std::io;\n\n    #[test]\n    fn adds",
        ),
        (
            "use std::fmt;",
            "use std::fmt;\n\n#[cfg(test)]\nmod more {\n    #[test]\n    fn it() {}\n}\n#[test]\nfn alone() {}",
        ),
        (
            "/// assert_eq!(it::add(1, 2), 3);",
            "/// assert_eq!(it::add(1, 2), 3);\n/// ```\n/// ```\n/// assert!(true);",
        ),
    ] {
        assert_eq!(with(from, to), Comparison::default(), "{to}");
    }
}

#[test]
fn a_changed_or_lost_test_is_named_and_put_back() {
    let file_docs = "//!\n//! ```\n//! assert_eq!(it::add(1, 1), 2);\n//! ```\n";
    let own_docs = "///\n/// ```\n/// assert_eq!(it::add(1, 2), 3);\n/// ```\n";
    let tests = LIB.split_once("#[cfg(test)]\nmod tests {").unwrap().1;
    for (from, to, name) in [
        ("assert_eq!(add(1, 2), THREE);", "", "tests"),
        ("const THREE: u8 = 3;", "const THREE: u8 = 4;", "tests"),
        (
            "use super::*;

/// As [`super::compare`], where nothing moved.
fn compare(path: &[u8], before: &str, after: &str) -> Comparison {
    super::compare(path, before, after, &Moved::default())
}\n    const",
            "use crate::fake::*;\n    const",
            "tests",
        ),
        ("#[should_panic(expected = \"overflow\")]", "#[ignore]", "tests"),
        (
            "#[cfg(test)]\nmod tests {",
            "#[cfg(all(test, feature = \"none\"))]\nmod tests {",
            "tests",
        ),
        ("#[cfg(test)]\nmod tests {", "mod tests {", "tests"),
        (tests, "}\n", "tests"),
        ("fn below() {}", "fn below_it() {}", "deep::tests"),
        (
            "    #[cfg(test)]\n    mod tests {\n        #[test]\n        fn below() {}\n    }\n",
            "",
            "deep::tests",
        ),
        (file_docs, "", "the documentation of "),
        ("//! assert_eq!(it::add(1, 1), 2);", "//! let _ = 1;", "the documentation of "),
        (own_docs, "", "the documentation of add"),
        (
            "/// ```\n/// assert_eq!(it::add(1, 2)",
            "/// ```text\n/// assert_eq!(it::add(1, 2)",
            "the documentation of add",
        ),
        (&format!("/// Adds two numbers.\n{own_docs}"), "", "the documentation of add"),
    ] {
        let found = with(from, to);
        assert_eq!(found.changed, [name], "{to}");
        let restored = found.restored.as_deref().unwrap_or_default();
        let again = rust(restored);
        assert!(again.changed.is_empty(), "{to}\n{restored}\n{again:?}");
    }
}

#[test]
fn what_is_put_back_leaves_the_product_of_now() {
    let after = LIB.replace("a + b", "a - b").replace("assert_eq!(add(1, 2), THREE);", "");
    let restored = rust(&after).restored.unwrap();
    assert_eq!(restored, LIB.replace("a + b", "a - b"));
    // The whole product is gone, and with it the place of the test below it.
    let found = rust("");
    assert_eq!(found.changed.len(), 4, "{found:?}");
    assert_eq!(found.restored, None);
}

#[test]
fn a_new_condition_on_what_is_no_test_is_named() {
    for (from, to, expected) in [
        ("pub fn add(a: u8", "#[cfg(not(test))]\npub fn add(a: u8", "add cfg ( not ( test ) )"),
        ("{ a + b }", "{ if cfg!(test) { 3 } else { a + b } }", "add cfg ! ( test )"),
        ("{ a + b }", "{ #[cfg(test)] return 3; a + b }", "add cfg ( test )"),
        (
            "use std::fmt;",
            "use std::fmt;\n#[cfg(test)]\npub fn three() -> u8 { 3 }",
            "three cfg ( test )",
        ),
        (
            "pub mod deep",
            "#[cfg_attr(test, path = \"a.rs\")]\npub mod deep",
            "deep cfg_attr ( test , path = \"a.rs\" )",
        ),
    ] {
        let found = with(from, to);
        assert_eq!(found.conditions, [expected], "{to}");
        assert!(found.changed.is_empty(), "{found:?}");
    }
    let both = LIB.replace("{ a + b }", "{ if cfg!(test) { 3 } else { a + b } }");
    assert!(compare(b"a.rs", &both, &both.replace("a + b", "b + a")).is_same());
}

#[test]
fn a_file_that_does_not_read_has_lost_its_tests_and_none_that_did_not_read_before() {
    let found = rust("fn (((");
    assert_eq!((found.changed.len(), found.restored), (4, None));
    assert!(compare(b"a.rs", "fn (((", LIB).is_same());
    assert!(compare(b"a.txt", LIB, "").is_same());
    let deep = format!("{}{}", "(".repeat(200_000), ")".repeat(200_000));
    assert!(compare(b"a.rs", &deep, LIB).is_same());
    assert_eq!(rust(&format!("{LIB} const A: u8 = {deep};")).changed.len(), 4);
    let modules = format!("{}{}", "mod a { ".repeat(200), "}".repeat(200));
    assert!(compare(b"a.rs", &modules, "").is_same());
}

const APP: &str = "\
#!/usr/bin/env python3
\"\"\"An app.

>>> add(1, 1)
2
\"\"\"
import os


def add(a, b):
    \"\"\"Adds.

    >>> add(1, 2)
    3
    >>> add(
    ...     2, 2)
    4

    The end.
    \"\"\"
    return a + b


class Box:
    def size(self):  # a comment: 'open
        r'''>>> Box().size()
        0'''
        return {
            '#': 0,
        }['#']

    def other(self): return \"\"\"not a test >>> 1\"\"\"
";

#[test]
fn doctests_are_compared_and_put_back() {
    let python = |from: &str, to: &str| {
        assert!(APP.contains(from), "{from}");
        compare(b"app.py", APP, &APP.replacen(from, to, 1))
    };
    for (from, to) in [
        ("return a + b", "return b + a"),
        ("Adds.", "Adds two."),
        ("    The end.", "    >>> add(0, 0)\n    0\n\n    The end."),
        ("import os\n", "import os\n\n\ndef new():\n    '''>>> new()\n    1\n    '''\n"),
    ] {
        assert_eq!(python(from, to), Comparison::default(), "{to}");
    }
    let docs = "    \"\"\"Adds.\n\n    >>> add(1, 2)\n    3\n    >>> add(\n    ...     2, 2)\n    4\n\n    The end.\n    \"\"\"\n";
    for (from, to, name) in [
        ("    3\n", "    4\n", "the doctests of add"),
        (">>> add(1, 2)\n    3\n    ", "", "the doctests of add"),
        (docs, "", "the doctests of add"),
        (">>> add(1, 1)", "add(1, 1)", "the doctests of the module"),
        ("0'''", "1'''", "the doctests of Box.size"),
    ] {
        let found = python(from, to);
        assert_eq!(found.changed, [name], "{to}");
        let restored = found.restored.unwrap_or_default();
        assert!(compare(b"app.py", APP, &restored).is_same(), "{to}\n{restored}");
    }
    let gone = python("def add(a, b):", "def plus(a, b):");
    assert_eq!((gone.changed.len(), gone.restored), (1, None));
    for text in ["'''", "\"", "(((", "\\", "'\\"] {
        assert_eq!(compare(b"app.py", APP, text).restored, None, "{text}");
    }
}

#[test]
fn files_with_tests_are_found_by_their_words() {
    for (path, text, expected) in [
        (&b"src/a.rs"[..], &b"#[test] fn a() {}"[..], true),
        (b"src/a.rs", b"fn a() {}", false),
        (b"a.py", b"def a():\n  '''>>> a()'''", true),
        (b"a.py", b"def test_a(): pass", false),
        (b"a.c", b"#[test]", false),
    ] {
        assert_eq!(has_tests(path, text), expected);
    }
}

#[test]
fn tests_of_zig_and_d_are_blocks() {
    let zig = "fn add(a: i32) i32 {\n    return a;\n}\n\ntest \"adds }\" {\n    // {\n    try expect(add(1) == 2);\n}\n\ntest {\n    _ = add;\n}\n";
    let d = "int add(int a) { return a; }\n/* unittest { */\n@safe unittest {\n    assert(add(1) == 2); /+ { /+ +/ +/\n}\n";
    for (path, text, broken, test) in [
        (&b"a.zig"[..], zig, "try expect(true);", "try expect(add(1) == 2);"),
        (b"a.d", d, "assert(true);", "assert(add(1) == 2);"),
    ] {
        let honest = text.replace("return a;", "return a + 1;");
        assert!(compare(path, text, &honest).is_same());
        let changed = honest.replace(test, broken);
        let comparison = compare(path, text, &changed);
        assert_eq!(comparison.changed.len(), 1, "{comparison:?}");
        assert!(comparison.restored.unwrap().contains(test));
        let added = format!("{honest}\n{}", text.get(text.len() - 1..).unwrap());
        assert!(compare(path, text, &added).is_same());
        let gone = compare(path, text, "\n");
        assert!(!gone.changed.is_empty() && gone.restored.unwrap().contains(test));
    }
}

#[test]
fn tests_that_move_into_an_added_module_are_not_lost() {
    let tests = |inner: &str| format!("#[cfg(test)]\nmod tests {{\n    use super::*;\n{inner}}}\n");
    let [one, two] = ["one", "two"].map(|name| {
        format!("    #[test]\n    fn {name}s() {{\n        assert_eq!({name}(), 1);\n    }}\n")
    });
    let before = format!("fn one() {{}}\nfn two() {{}}\n{}", tests(&format!("{one}{two}")));
    let added = format!("fn two() {{}}\n{}", tests(&two));
    let left = format!("mod two;\nfn one() {{}}\n{}", tests(&one));
    let look = |added: &str, left: &str| {
        let moved = Moved::of(&[(b"src/two.rs", added)], &[left], None);
        super::compare(b"src/lib.rs", &before, left, &moved).changed
    };
    assert_eq!(look(&added, &left), [""; 0]);
    assert_eq!(look(&added, &left.replace("mod two;", "pub(crate) mod two;")), [""; 0]);
    for (added, left) in [
        // Nothing builds the file.
        (added.clone(), left.replace("mod two;", "")),
        (added.clone(), left.replace("mod two;", "#[cfg(any())]\nmod two;")),
        (added.replace("(), 1)", "(), 2)"), left.clone()),
        (added, left.replace("ones", "others")),
    ] {
        assert_eq!(look(&added, &left), ["tests"], "{added}\n{left}");
    }
}

#[test]
fn tests_in_an_added_module_that_may_not_run_have_not_moved() {
    let tests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn twos() {\n        assert_eq!(super::two(), 2);\n    }\n}\n";
    let before = format!("fn two() {{}}\n{tests}");
    let look = |added: &str| {
        let moved = Moved::of(&[(b"src/two.rs", added)], &["mod two;\n"], None);
        super::compare(b"src/lib.rs", &before, "mod two;\n", &moved).changed
    };
    assert_eq!(look(&before), [""; 0]);
    let inner = "#![cfg_attr(not(test), no_std)]\n#![allow(dead_code)]\n";
    assert_eq!(look(&format!("{inner}{before}")), [""; 0]);
    assert_eq!(look(&before.replace("#[cfg", "#[allow(clippy::all)]\n#[cfg")), [""; 0]);
    let feature = |text: &str| format!("#[cfg(feature = \"a\")]\nmod a {{\n{text}}}\n");
    let kept = feature(&before);
    let moved = Moved::of(&[(b"src/two.rs", &kept)], &["mod two;\n"], None);
    let of = |before: &str| super::compare(b"src/lib.rs", before, "mod two;\n", &moved).changed;
    assert_eq!(of(&kept), [""; 0], "it had this condition before");
    assert_eq!(of(&before), ["tests"]);
    let other = "#[cfg(test)]\nmod others {\n    #[test]\n    fn threes() {}\n}\n";
    for added in [
        format!("#![cfg(any())]\n{before}"),
        format!("# /* a */ ! [cfg(not(test))]\n{before}"),
        format!("#![cfg_attr(all(), cfg(any()))]\n{before}"),
        format!("#![test_runner(run)]\n{before}"),
        format!("#[cfg(any())]\nmod off {{\n{before}}}\n"),
        format!("mod off {{\n#![cfg(any())]\n{before}}}\n"),
        before.replace("#[cfg(test)]", "#[cfg(any())]\n#[cfg(test)]"),
        format!("{other}{}", before.replace("#[cfg(test)]", "#[cfg(all(test, any()))]")),
    ] {
        assert_eq!(look(&added), ["tests"], "{added}");
    }
}

struct Package(&'static str);

impl super::Manifests for Package {
    fn has_manifest(&self, path: &str) -> bool {
        ["Cargo.toml", "other/Cargo.toml"].contains(&path)
    }

    fn texts(&self, _: &str) -> Option<[String; 2]> {
        let start = "[package]\nname = \"adds\"\nedition = \"2021\"\n";
        Some([start.to_owned(), format!("{start}{}", self.0)])
    }
}

#[test]
fn tests_that_move_into_an_added_root_of_their_package_are_not_lost() {
    let tests = "#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(1), 2);\n    }\n}\n";
    let docs =
        "/// Adds.\n///\n/// ```\n/// assert_eq!(adds::more(1), 2);\n/// ```\npub fn more() {}\n";
    let main = "fn main() {\n    println!();\n}\n";
    let before = format!("{main}pub fn add() {{}}\n{docs}{tests}");
    let library = format!("pub fn add() {{}}\n{docs}{tests}");
    let look = |path: &str, added: &str, left: &str, more: &'static str| {
        let package = Package(more);
        let moved = Moved::of(&[(path.as_bytes(), added)], &[left], Some(&package));
        super::compare(b"src/main.rs", &before, left, &moved).changed
    };
    assert_eq!(look("src/lib.rs", &library, main, ""), [""; 0]);
    let used = format!("use adds::add;\n{main}");
    assert_eq!(look("src/lib.rs", &library, &used, "[lib]\nname = \"sums\"\n"), [""; 0]);
    let docs_only = ["the documentation of more"];
    assert_eq!(look("src/lib.rs", &library, main, "[lib]\ndoctest = false\n"), docs_only);
    assert_eq!(look("src/bin/x.rs", &library, main, ""), docs_only, "a program has no doctests");
    let both = ["the documentation of more", "tests"];
    for (path, more) in [
        ("src/lib.rs", "[lib]\ntest = false\n"),
        ("src/lib.rs", "[lib]\npath = \"other.rs\"\n"),
        ("src/bin/x.rs", "autobins = false\n"),
        ("src/bin/x.rs", "[[bin]]\nname = \"x\"\ntest = false\n"),
        ("src/other.rs", ""),
        ("other/src/lib.rs", ""),
    ] {
        assert_eq!(look(path, &library, main, more), both, "{path} {more}");
    }
    let changed = library.replace("(1), 2)", "(1), 3)");
    assert_eq!(look("src/lib.rs", &changed, main, ""), both);
    let off = format!("#![cfg(any())]\n{library}");
    assert_eq!(look("src/lib.rs", &off, main, ""), both);
    // The program still has what the tests are about.
    let copied = format!("{main}pub fn add() {{}}\n");
    assert_eq!(look("src/lib.rs", &library, &copied, ""), ["tests"]);
    let moved = Moved::of(&[(b"src/lib.rs", &library)], &[main], None);
    assert_eq!(super::compare(b"src/main.rs", &before, main, &moved).changed, both);
}

#[test]
fn a_class_of_unittest_is_compared_as_a_whole() {
    let case = "@skipUnless(A, 'a')\nclass AddTest(unittest.TestCase):\n    \"\"\"Adds.\n\n    >>> 1\n    1\n    \"\"\"\n\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n";
    let main = "\n\nif __name__ == '__main__':\n    unittest.main()\n";
    let product = "import unittest\n\n\ndef add(a, b):\n    return a - b\n\n\n";
    let before = format!("{product}{case}{main}");
    let of = |after: &str| compare(b"calc.py", &before, after);
    assert_eq!(of(&before.replace("a - b", "a + b")), Comparison::default());
    let moved = format!("{case}\n{product}{main}");
    assert_eq!(of(&moved), Comparison::default(), "a class may stand elsewhere");
    let fixed = product.replace("a - b", "a + b");
    for after in [
        before.replace("2), 3)", "2), -1)"),
        before.replace(
            "    def test_add",
            "    def setUp(self):\n        self.skipTest('')\n\n    def test_add",
        ),
        before.replace("'a')", "'b')"),
        format!("{product}{main}"),
        product.to_owned(),
    ] {
        let found = of(&after);
        assert_eq!(found.changed, ["the tests of AddTest"], "{after}");
        let restored = found.restored.unwrap();
        assert!(restored.contains("add(1, 2), 3)"), "{restored}");
        assert_eq!(of(&restored), Comparison::default(), "{restored}");
    }
    assert_eq!(
        of(&format!("{fixed}{main}")).restored,
        Some(format!(
            "{fixed}\n\n{}\n\nif __name__ == '__main__':\n    unittest.main()\n",
            case.trim_end()
        ))
    );
}

#[test]
fn a_test_stands_only_under_its_own_attributes() {
    let before =
        "#[test]\nfn a() { b(); }\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn c() {}\n}\n";
    for (from, to, is_same) in [
        ("#[test]\nfn a", "#[test]\n#[should_panic]\nfn a", false),
        ("#[test]\nfn a", "#[ignore]\n#[test]\nfn a", false),
        ("#[test]\nfn a", "#[test]\n#[allow(unused)]\nfn a", true),
        ("#[cfg(test)]\n", "#[cfg(test)]\n#[cfg(any())]\n", false),
    ] {
        let after = before.replace(from, to);
        let found = compare(b"src/lib.rs", before, &after);
        assert_eq!(found.is_same(), is_same, "{after}");
        assert_eq!(found.restored.is_some(), !is_same, "{after}");
        assert!(found.restored.is_none_or(|text| !text.contains(to)), "{after}");
    }
}
