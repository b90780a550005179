//! Build files whose statements make products and declare tests: CMake, Meson, Bazel, dune, sbt, Zig, Mix. A view
//! gets the statements about tests of the start in the file of now.

use super::keys_back::KeysBack;
use std::ops::Range;

/// The largest text that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// How a build file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Syntax {
    /// What begins a comment up to the end of its line.
    comment: &'static str,
    /// Marks of texts.
    quotes: &'static str,
    /// Whether a statement ends with its line, or with its brackets.
    by_line: bool,
    /// Words of statements about tests, in lower case.
    words: &'static [&'static str],
    /// Words that begin and end a block of statements; one of the first may go on it.
    blocks: &'static [(&'static str, &'static str)],
}

const CMAKE: Syntax = Syntax {
    comment: "#",
    quotes: "\"",
    by_line: true,
    words: &["test", "return(", "ndebug", "cmake_build_type", "_flags", "compile_definitions"],
    blocks: &[
        ("if", "endif"),
        ("foreach", "endforeach"),
        ("while", "endwhile"),
        ("function", "endfunction"),
        ("macro", "endmacro"),
    ],
};
const MESON: Syntax = Syntax {
    quotes: "'",
    words: &["test", "subdir_done", "ndebug"],
    blocks: &[("if", "endif"), ("foreach", "endforeach")],
    ..CMAKE
};
const STARLARK: Syntax = Syntax { quotes: "\"'", words: &["test"], blocks: &[], ..CMAKE };
const DUNE: Syntax =
    Syntax { comment: ";", by_line: false, words: &["test", "cram"], blocks: &[], ..CMAKE };
const SBT: Syntax = Syntax {
    comment: "//",
    words: &["test /", "in test", "testoptions", "testonly", "testframeworks", "aggregate"],
    blocks: &[],
    ..CMAKE
};
/// Files of which lines about tests alone are compared.
const LINES: &[(&str, &[&str])] = &[
    ("build.zig", &["test"]),
    ("mix.exs", &["aliases", "test_paths", "test_pattern", "elixirc_paths", "test_coverage"]),
];

/// The configuration of Vite may hold that of its runner of tests. What begins the name, and the words of its lines.
const VITE: (&str, &[&str]) = (
    "vite.config.",
    &["test:", "exclude", "setupfiles", "globalsetup", "passwithnotests", "retry", "threshold"],
);

fn syntax_of(name: &str) -> Option<Syntax> {
    match name {
        "CMakeLists.txt" => Some(CMAKE),
        "meson.build" => Some(MESON),
        "BUILD" | "BUILD.bazel" => Some(STARLARK),
        "dune" => Some(DUNE),
        "build.sbt" => Some(SBT),
        _ => None,
    }
}

/// Whether a file is such a build file.
pub(super) fn has_statements(name: &str) -> bool {
    syntax_of(name).is_some()
        || LINES.iter().any(|(known, _)| *known == name)
        || name.starts_with(VITE.0)
}

/// One statement about tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Statement {
    /// The heads of the blocks around it.
    above: Vec<String>,
    /// What it says, without layout.
    text: String,
    span: Range<usize>,
}

impl Statement {
    fn says(&self) -> (&[String], &str) {
        (&self.above, &self.text)
    }

    /// Whether it declares what another one declares: the same command with the same first word.
    fn declares(&self, other: &Self) -> bool {
        let head = |text: &str| {
            let mut words = text.split(|letter: char| " (,='\"".contains(letter));
            let first = words.next().map(str::to_owned);
            (first, words.find(|word| !word.is_empty() && *word != "name").map(str::to_owned))
        };
        self.above == other.above && head(&self.text) == head(&other.text)
    }
}

/// The file of now with the statements about tests of the start; none where they are the same.
pub(super) fn merged_statements(name: &str, start: &str, now: &str) -> Option<KeysBack> {
    let Some(syntax) = syntax_of(name) else { return merged_lines(name, start, now) };
    let Some(old) = statements(&syntax, start) else { return Some(KeysBack::Lost) };
    let Some(own) = statements(&syntax, now) else { return Some(KeysBack::Original) };
    let (mut missing, mut added) = (Vec::new(), own.clone());
    for statement in &old {
        match added.iter().position(|it| it.says() == statement.says()) {
            Some(at) => drop(added.remove(at)),
            None => missing.push(statement),
        }
    }
    if missing.is_empty() && added.is_empty() {
        return None;
    }
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for statement in missing {
        let text = start.get(statement.span.clone())?;
        match added.iter().position(|it| it.declares(statement)) {
            Some(at) => edits.push((added.remove(at).span, text.to_owned())),
            None if statement.above.is_empty() => {
                edits.push((now.len()..now.len(), format!("\n{text}\n")));
            }
            None => return Some(KeysBack::Original),
        }
    }
    edits.extend(added.into_iter().map(|statement| (statement.span, String::new())));
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let (mut out, mut at) = (String::with_capacity(now.len()), 0);
    for (span, text) in edits {
        let Some(kept) = now.get(at..span.start) else { return Some(KeysBack::Original) };
        out.push_str(kept);
        out.push_str(&text);
        at = span.end;
    }
    out.push_str(now.get(at..).unwrap_or_default());
    Some(KeysBack::Merged(out))
}

/// The file of the start, where lines about tests are missing; for Vite also where there are others, if the start
/// had some.
fn merged_lines(name: &str, start: &str, now: &str) -> Option<KeysBack> {
    let known = LINES.iter().find(|(known, _)| *known == name).map(|(_, words)| *words);
    let words = known.unwrap_or(VITE.1);
    let lines = |text: &str| {
        let lines = text.lines().map(normal);
        let is_one =
            |line: &String| words.iter().any(|word| line.to_ascii_lowercase().contains(word));
        lines.filter(is_one).collect::<Vec<_>>()
    };
    let (before, own) = (lines(start), lines(now));
    let is_same = match known {
        Some(_) => before.iter().all(|line| own.contains(line)),
        None => before.is_empty() || before == own,
    };
    (!is_same).then_some(KeysBack::Original)
}

fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The statements about tests; none where brackets or quotes do not close, or the text is too long.
fn statements(syntax: &Syntax, text: &str) -> Option<Vec<Statement>> {
    let mut found = Vec::new();
    let mut above: Vec<String> = Vec::new();
    for span in spans(syntax, text)? {
        let own = text.get(span.clone())?;
        let said = normal(&without_comments(syntax, own));
        let lower = said.to_ascii_lowercase();
        let word = lower.split(|letter: char| " (".contains(letter)).next().unwrap_or_default();
        if syntax.blocks.iter().any(|(_, end)| *end == word) {
            above.pop();
            continue;
        }
        if matches!(word, "else" | "elseif" | "elif") {
            if let Some(last) = above.last_mut() {
                *last = format!("{last} {said}");
            }
            continue;
        }
        if syntax.blocks.iter().any(|(begin, _)| *begin == word) {
            above.push(said);
            continue;
        }
        if syntax.words.iter().any(|known| lower.contains(known)) {
            found.push(Statement { above: above.clone(), text: said, span });
        }
    }
    Some(found)
}

/// The places of all statements.
fn spans(syntax: &Syntax, text: &str) -> Option<Vec<Range<usize>>> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (mut found, mut depth, mut from, mut at) = (Vec::new(), 0_usize, None, 0);
    while let Some(letter) = text.get(at..)?.chars().next() {
        let rest = text.get(at..)?;
        if rest.starts_with(syntax.comment) {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if syntax.quotes.contains(letter) {
            from.get_or_insert(at);
            at += quoted(rest, letter)?;
            continue;
        }
        at += letter.len_utf8();
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        let ends = match syntax.by_line {
            true => letter == '\n' && depth == 0,
            false => letter == ')' && depth == 0,
        };
        if ends {
            let end = if letter == '\n' { at - 1 } else { at };
            found.extend(from.take().map(|from| from..end));
        } else if !letter.is_whitespace() {
            from.get_or_insert(at - letter.len_utf8());
        }
    }
    found.extend(from.map(|from| from..text.len()));
    (depth == 0).then_some(found)
}

/// The length of a text in quotes at the front; none where it does not end.
fn quoted(rest: &str, mark: char) -> Option<usize> {
    let triple: String = [mark; 3].iter().collect();
    if let Some(inside) = rest.strip_prefix(&triple) {
        return Some(inside.find(&triple)? + 2 * triple.len());
    }
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            letter if letter == mark => return Some(at + letter.len_utf8()),
            _ => {}
        }
    }
    None
}

fn without_comments(syntax: &Syntax, text: &str) -> String {
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(letter) = rest.chars().next() else { break };
        let length = if rest.starts_with(syntax.comment) {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if syntax.quotes.contains(letter) {
            quoted(rest, letter).unwrap_or(rest.len())
        } else {
            letter.len_utf8()
        };
        out.push_str(rest.get(..length).unwrap_or_default());
        at += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(name: &str, start: &str, now: &str) -> String {
        match merged_statements(name, start, now) {
            Some(KeysBack::Merged(text)) => normal(&text),
            Some(KeysBack::Original) => "original".to_owned(),
            Some(KeysBack::Lost) => "lost".to_owned(),
            None => "same".to_owned(),
        }
    }

    const CMAKE_START: &str = "# all\nadd_library(calc a.c)\nif(BUILD_TESTING)\n  add_executable(unit tests/a.c)\n  \
                               add_test(NAME unit # x\n    COMMAND unit)\nendif()\nadd_test(NAME all COMMAND all)\n";

    #[test]
    fn statements_about_tests_are_those_of_the_start() {
        let start = CMAKE_START;
        let product = start.replace("a.c)\nif", "a.c b.c)\nif");
        assert_eq!(back("CMakeLists.txt", start, &product), "same");
        assert_eq!(back("CMakeLists.txt", start, &product.replace("# x", "# y")), "same");
        let weaker = [
            product.replace("add_test(NAME all COMMAND all)\n", ""),
            product.replace("COMMAND all", "COMMAND true"),
            product.replace("    COMMAND unit)", "    COMMAND true)"),
            product.replace("unit tests/a.c", "unit tests/none.c"),
            format!("{product}set_tests_properties(unit PROPERTIES DISABLED ON)\n"),
            format!("return()\n{product}"),
        ];
        for now in &weaker {
            assert_eq!(back("CMakeLists.txt", start, now), normal(&product), "{now}");
        }
        let off = product.replace("if(BUILD_TESTING)", "if(FALSE)");
        assert_eq!(back("CMakeLists.txt", start, &off), "original");
        assert_eq!(back("CMakeLists.txt", start, "add_library(calc"), "original");
        assert_eq!(back("CMakeLists.txt", "add_library(calc", start), "lost");
    }

    #[test]
    fn every_syntax_has_its_statements() {
        for (name, start, weaker, product) in [
            (
                "meson.build",
                "lib = library('a', 'a.c')\ntest('a', exe)\n",
                "test('a', other)",
                "'b.c'",
            ),
            (
                "BUILD.bazel",
                "cc_library(\n  name = \"a\",\n  srcs = [\"a.c\"],\n)\ncc_test(name = \"a_test\", srcs = [\"t.c\"])\n",
                "cc_test(name = \"a_test\", srcs = [])",
                "\"b.c\"",
            ),
            (
                "dune",
                "(library (name a))\n(test (name t))\n",
                "(test (name t) (enabled_if false))",
                "b)",
            ),
            (
                "build.sbt",
                "version := \"1\"\nTest / fork := true\n",
                "Test / fork := false",
                "\"2\"",
            ),
        ] {
            assert!(has_statements(name));
            let line = start.lines().find(|line| line.to_lowercase().contains("test")).unwrap();
            assert_eq!(back(name, start, &start.replace(line, weaker)), normal(start), "{name}");
            assert_eq!(back(name, start, &start.replace(line, "")), normal(start), "{name}");
            let old = if name == "build.sbt" {
                "\"1\""
            } else if name == "dune" {
                "a)"
            } else if name == "meson.build" {
                "'a.c'"
            } else {
                "\"a.c\""
            };
            assert_eq!(back(name, start, &start.replace(old, product)), "same", "{name}");
        }
        let vite =
            "export default {\n  plugins: [],\n  test: {\n    environment: 'node',\n  },\n}\n";
        let weaker = vite.replace("environment", "exclude: ['a'],\n environment");
        assert_eq!(back("vite.config.ts", vite, &weaker), "original");
        assert_eq!(back("vite.config.ts", vite, &vite.replace("[]", "[a()]")), "same");
        assert_eq!(back("vite.config.ts", "export default {}\n", vite), "same");
        let zig = "const t = b.addTest(.{});\nrun.step(&t.step);\n";
        assert_eq!(back("build.zig", zig, "run.step(&t.step);\n"), "original");
        assert_eq!(back("build.zig", zig, &format!("{zig}const x = 1;\n")), "same");
    }
}
