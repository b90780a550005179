//! Which library the tests of a file are written with, where a runner takes several, and where its class ends.

use crate::domain::tests_seen::Runner;

/// A library of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    Jupiter,
    Junit4,
    Testng,
    Xunit,
    Nunit,
    Mstest,
    GoogleTest,
    /// Catch2 and doctest.
    Catch,
}

/// The library of a file; none where it is not known.
pub(super) fn flavour(runner: Runner, text: &str) -> Option<Flavour> {
    let known: &[(&str, Flavour)] = match runner {
        Runner::Maven | Runner::Gradle => &[
            ("org.junit.jupiter", Flavour::Jupiter),
            ("org.junit.Test", Flavour::Junit4),
            ("org.junit.*", Flavour::Junit4),
            ("org.testng", Flavour::Testng),
        ],
        Runner::DotnetTest => &[
            ("using Xunit", Flavour::Xunit),
            ("[Fact", Flavour::Xunit),
            ("using NUnit.Framework", Flavour::Nunit),
            ("[TestMethod", Flavour::Mstest),
        ],
        Runner::Ctest => &[
            ("gtest/gtest.h", Flavour::GoogleTest),
            ("catch2/", Flavour::Catch),
            ("catch.hpp", Flavour::Catch),
            ("doctest.h", Flavour::Catch),
        ],
        Runner::Pytest
        | Runner::Unittest
        | Runner::CargoTest
        | Runner::Nextest
        | Runner::GoTest
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::NodeTest
        | Runner::Rspec
        | Runner::Phpunit => &[],
    };
    known.iter().find(|(mark, _)| text.contains(mark)).map(|(_, flavour)| *flavour)
}

/// What marks a test inside a class.
const MARKS: &[&str] = &[
    "@Test",
    "@ParameterizedTest",
    "[Fact",
    "[Theory",
    "[Test",
    "function test",
    "#[Test",
    "@org.junit",
];

/// The place of the brace that closes the outermost class with tests of its own; none where brackets or quotes do not
/// close.
pub(super) fn class_end(text: &str) -> Option<usize> {
    /// A block: whether it is that of a class, and whether a test stands right in it.
    struct Block {
        is_class: bool,
        has_tests: bool,
    }
    let (mut open, mut found): (Vec<Block>, Option<usize>) = (Vec::new(), None);
    let (mut at, mut head) = (0, 0);
    while let Some(letter) = text.get(at..)?.chars().next() {
        let rest = text.get(at..)?;
        if let Some(length) = skipped(rest)? {
            at += length;
            continue;
        }
        if MARKS.iter().any(|mark| rest.starts_with(mark))
            && let Some(class) = open.iter_mut().rev().find(|block| block.is_class)
        {
            class.has_tests = true;
        }
        match letter {
            '{' => {
                let words = text.get(head..at)?.split_whitespace();
                let is_class = words.into_iter().any(|word| word == "class");
                open.push(Block { is_class, has_tests: false });
                head = at + 1;
            }
            '}' => {
                let block = open.pop()?;
                if block.is_class && block.has_tests {
                    found = Some(at);
                }
                head = at + 1;
            }
            ';' => head = at + 1,
            _ => {}
        }
        at += letter.len_utf8();
    }
    found.filter(|_| open.is_empty())
}

/// The length of a comment or a text at the start of a text; nothing at all where it does not close.
fn skipped(rest: &str) -> Option<Option<usize>> {
    const PAIRS: &[(&str, &str)] =
        &[("\"\"\"", "\"\"\""), ("/*", "*/"), ("//", "\n"), ("# ", "\n")];
    if rest.starts_with("<<<") {
        return None;
    }
    if let Some((start, end)) = PAIRS.iter().find(|(start, _)| rest.starts_with(start)) {
        let inside = rest.get(start.len()..)?;
        let length = match inside.find(end) {
            Some(length) => start.len() + length + end.len(),
            None if *end == "\n" => rest.len(),
            None => return None,
        };
        return Some(Some(length));
    }
    let verbatim = rest.strip_prefix("@\"");
    let (quote, from) = match (rest.chars().next()?, verbatim) {
        (_, Some(_)) => ('"', 2),
        (letter @ ('"' | '\''), None) => (letter, 1),
        (_, None) => return Some(None),
    };
    let mut letters = rest.char_indices().skip_while(|(at, _)| *at < from);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if verbatim.is_none() => {
                letters.next();
            }
            letter if letter == quote => return Some(Some(at + 1)),
            _ => {}
        }
    }
    None
}

/// Whether a text of JavaScript or TypeScript is an ES module, which has `import` and no `require`.
pub(super) fn is_module(path: &str, text: &str) -> bool {
    let ends = [".mjs", ".mts"];
    ends.iter().any(|end| path.ends_with(end))
        || text.lines().any(|line| line.starts_with("import ") || line.starts_with("export "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_added_to_the_class_that_has_some() {
        for (text, expected) in [
            ("class A { @Test void a() { \"}\"; } }\nclass Help { }", Some("}\nclass Help")),
            (
                "namespace N { public class A { [Fact] public void B() { var c = '}'; } } }",
                Some("} }"),
            ),
            ("namespace N;\nclass A { [Fact] void B() { } }\n", Some("}\n")),
            ("<?php\n# it's\nfinal class AT extends T { public function testA() { } }", Some("}")),
            ("class A { /* @Test */ void a() { } }", None),
            ("class A { @Test void a() { }", None),
            (
                "class A { @Nested class B { @Test void a() { } } @Test void c() { } }\n",
                Some("}\n"),
            ),
            ("fun a() { }", None),
        ] {
            let found = class_end(text).and_then(|at| text.get(at..));
            assert_eq!(
                found.map(str::len),
                expected.map(|it| text.len() - text.rfind(it).unwrap()),
                "{text}"
            );
        }
    }
}
