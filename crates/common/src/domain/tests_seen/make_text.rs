//! The text that a makefile writes as `$(...)`: its variables, and the functions that only change text.

use crate::domain::shell_line::{is_assignment, segments};
use std::collections::BTreeMap;

/// The variables of a makefile.
pub(super) type Variables = BTreeMap<String, String>;

/// The deepest nesting of values that is followed.
const MAX_DEPTH: usize = 8;
/// How much is read and copied for all texts of a makefile, in bytes.
pub(super) const MAX_ALL: usize = 64 << 20;
/// How much is read and copied for one text, in bytes.
const MAX_WORK: usize = 1 << 20;
/// What one value takes of it, beside its text.
const OF_VALUE: usize = 64;
/// The longest text, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Variables that make sets by itself.
const OWN: &[(&str, &str)] = &[
    ("AR", "ar"),
    ("CC", "cc"),
    ("CURDIR", "."),
    ("CXX", "c++"),
    ("FC", "f77"),
    ("LD", "ld"),
    ("MAKE", "make"),
    ("RM", "rm -f"),
    ("SHELL", "/bin/sh"),
];

/// The variables that make sets by itself.
pub(super) fn own_variables() -> Variables {
    OWN.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A text with the values of `$(NAME)` and `$(function ...)`. What is not set is empty, as make has it, and so is what
/// only make can tell. A pattern of `wildcard` stands for its files.
/// `left` is what is left for all texts of a makefile, in bytes.
pub(super) fn expanded(text: &str, variables: &Variables, left: &mut usize) -> String {
    let given = MAX_WORK.min(*left);
    let mut reader = Reader { variables, left: given };
    let found = reader.text(text, 0);
    let used = (given - reader.left).max(found.len());
    *left = left.saturating_sub(used);
    found
}

struct Reader<'v> {
    variables: &'v Variables,
    left: usize,
}

impl Reader<'_> {
    fn text(&mut self, text: &str, depth: usize) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            if let Some(behind) = after.strip_prefix('$') {
                out.push_str("$$");
                rest = behind;
                continue;
            }
            let Some((inside, behind)) = in_brackets(after) else {
                out.push('$');
                rest = after;
                if after.starts_with(['(', '{']) {
                    // A bracket that is not closed, as are all that follow in it.
                    break;
                }
                continue;
            };
            out.push_str(&self.value(inside, depth));
            rest = behind;
            if out.len() > MAX_BYTES {
                rest = "";
                break;
            }
        }
        out.push_str(rest);
        out.truncate(out.floor_char_boundary(MAX_BYTES));
        out
    }

    fn value(&mut self, inside: &str, depth: usize) -> String {
        if depth >= MAX_DEPTH || self.left == 0 {
            return String::new();
        }
        self.left = self.left.saturating_sub(OF_VALUE);
        if let Some((function, arguments)) = inside.split_once([' ', '\t']) {
            return self.function(function, arguments.trim_start(), depth + 1);
        }
        let name = self.text(inside, depth + 1);
        // `$(TESTS:.c=.o)`
        if let Some((name, (from, to))) =
            name.split_once(':').and_then(|(name, ends)| Some((name, ends.split_once('=')?)))
        {
            let words = self.variable(name, depth);
            let whole =
                |end: &str| if from.contains('%') { end.to_owned() } else { format!("%{end}") };
            let (from, to) = (whole(from), whole(to));
            return self.of_words(&words, to.len(), |word| replaced(word, &from, &to));
        }
        self.variable(&name, depth)
    }

    fn variable(&mut self, name: &str, depth: usize) -> String {
        let variables = self.variables;
        let Some(value) = variables.get(name) else { return String::new() };
        self.left = self.left.saturating_sub(value.len());
        self.text(value, depth + 1)
    }

    fn function(&mut self, name: &str, arguments: &str, depth: usize) -> String {
        let parts = at_commas(arguments);
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        match name {
            "foreach" => return self.for_each(part(0), part(1), part(2), depth),
            "call" => return self.call(&parts, depth),
            "shell" => return found_program(&self.text(arguments, depth)).unwrap_or_default(),
            "or" => {
                let mut values = parts.iter().map(|part| self.text(part.trim(), depth));
                return values.find(|value| !value.is_empty()).unwrap_or_default();
            }
            "if" => {
                let is_set = !self.text(part(0).trim(), depth).is_empty();
                return self.text(part(if is_set { 1 } else { 2 }), depth);
            }
            _ => {}
        }
        let parts: Vec<String> = parts.iter().map(|part| self.text(part, depth)).collect();
        let part = |at: usize| parts.get(at).map_or("", |part| part.trim());
        let whole = || parts.join(",");
        let is_listed = |word: &str| part(0).split_whitespace().any(|it| stem(word, it).is_some());
        match name {
            "abspath" | "realpath" | "sort" | "strip" | "wildcard" => whole(),
            "firstword" => whole().split_whitespace().next().unwrap_or_default().to_owned(),
            "lastword" => whole().split_whitespace().next_back().unwrap_or_default().to_owned(),
            "addprefix" => {
                self.of_words(part(1), part(0).len(), |word| format!("{}{word}", part(0)))
            }
            "addsuffix" => {
                self.of_words(part(1), part(0).len(), |word| format!("{word}{}", part(0)))
            }
            "notdir" => self
                .of_words(&whole(), 0, |word| word.rsplit('/').next().unwrap_or(word).to_owned()),
            "basename" => self.of_words(&whole(), 0, |word| {
                word.rsplit_once('.').map_or(word, |(stem, _)| stem).to_owned()
            }),
            "patsubst" => {
                self.of_words(part(2), part(1).len(), |word| replaced(word, part(0), part(1)))
            }
            "subst" if !part(0).is_empty() => {
                let grown = part(2).matches(part(0)).count().saturating_mul(part(1).len());
                if self.affords(part(2).len().saturating_add(grown)) {
                    part(2).replace(part(0), part(1))
                } else {
                    String::new()
                }
            }
            "filter" | "filter-out" => {
                let all = |at: usize| part(at).split_whitespace().count();
                if !self.affords(all(0).saturating_mul(all(1))) {
                    return String::new();
                }
                let words = part(1).split_whitespace();
                let found = words.filter(|word| is_listed(word) == (name == "filter"));
                found.collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        }
    }

    /// Takes so many bytes from what is left; false where there are not so many, and then nothing is left.
    fn affords(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    /// Words that are changed one by one, each by at most so many bytes.
    fn of_words(&mut self, words: &str, more: usize, change: impl Fn(&str) -> String) -> String {
        let grown = words.split_whitespace().count().saturating_mul(more);
        if !self.affords(words.len().saturating_add(grown)) {
            return String::new();
        }
        words.split_whitespace().map(change).collect::<Vec<_>>().join(" ")
    }

    fn for_each(&mut self, name: &str, words: &str, text: &str, depth: usize) -> String {
        let (name, words) = (self.text(name.trim(), depth), self.text(words, depth));
        let mut found = Vec::new();
        for word in words.split_whitespace() {
            if self.left == 0 {
                break;
            }
            found.push(self.with(&[(&name, word)], text, depth));
        }
        found.join(" ")
    }

    fn call(&mut self, parts: &[&str], depth: usize) -> String {
        let Some((name, given)) = parts.split_first() else { return String::new() };
        let name = self.text(name.trim(), depth);
        let variables = self.variables;
        let Some(text) = variables.get(&name) else { return String::new() };
        let given: Vec<(String, String)> = given
            .iter()
            .enumerate()
            .map(|(at, it)| ((at + 1).to_string(), self.text(it, depth)))
            .collect();
        let given: Vec<(&str, &str)> =
            given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.with(&given, text, depth)
    }

    /// A text with some more variables.
    fn with(&mut self, more: &[(&str, &str)], text: &str, depth: usize) -> String {
        let mut variables = self.variables.clone();
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        variables.extend(more);
        let bytes: usize = variables.values().map(String::len).sum();
        self.left = self.left.saturating_sub(bytes + OF_VALUE * variables.len());
        let mut inner = Reader { variables: &variables, left: self.left };
        let found = inner.text(text, depth + 1);
        self.left = inner.left;
        found
    }
}

/// What stands in the brackets at the front of a text, and what follows them.
fn in_brackets(text: &str) -> Option<(&str, &str)> {
    let (open, close) = match text.chars().next()? {
        '(' => ('(', ')'),
        '{' => ('{', '}'),
        _ => return None,
    };
    let mut depth = 0_usize;
    let (end, _) = text.char_indices().find(|(_, letter)| {
        depth += usize::from(*letter == open);
        depth -= usize::from(*letter == close);
        depth == 0
    })?;
    Some((text.get(1..end)?, text.get(end + 1..)?))
}

/// The parts of a text at its commas, those in brackets apart.
fn at_commas(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter| {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

/// What `%` stands for where a word has the form of a pattern; nothing for a pattern without it.
pub(super) fn stem<'w>(word: &'w str, pattern: &str) -> Option<&'w str> {
    match pattern.split_once('%') {
        Some((before, after)) => word.strip_prefix(before)?.strip_suffix(after),
        None => (word == pattern).then_some(""),
    }
}

fn replaced(word: &str, from: &str, to: &str) -> String {
    stem(word, from).map_or_else(|| word.to_owned(), |stem| to.replacen('%', stem, 1))
}

/// The program that a line only looks for: `which python3`, `command -v python3 || command -v python`.
fn found_program(line: &str) -> Option<String> {
    let looked_for = |words: &[String]| match words {
        [which, name, ..] if which == "which" => Some(name.clone()),
        [command, option, name, ..] if command == "command" && option == "-v" => Some(name.clone()),
        _ => None,
    };
    let is_name = |name: &String| !name.starts_with(['-', '$']) && !is_assignment(name);
    segments(line).iter().find_map(|segment| looked_for(&segment.words)).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_functions_are_followed() {
        let of = |pairs: &[(&str, &str)]| -> Variables {
            let pairs = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            own_variables().into_iter().chain(pairs).collect()
        };
        let variables = of(&[
            ("PYTHON", "$(shell which python3)"),
            ("RUN", "$(PYTHON) -m $(1) $(2)"),
            ("TESTS", "$(wildcard tests/*.py)"),
            ("NAMES", "a.c b.c"),
            ("LOOP", "x $(LOOP)"),
            ("MODE", "NAMES"),
        ]);
        for (text, expected) in [
            ("$(PYTHON) a.py", "python3 a.py"),
            ("$(shell command -v python3 2>/dev/null || command -v python) a", "python3 a"),
            ("$(shell date) a", " a"),
            ("$(or $(PY),python3) a", "python3 a"),
            ("$(or ${PY},$(PYTHON)) a", "python3 a"),
            ("$(if $(PY),a,b)$(if $(MODE),a,b)", "ba"),
            ("$(call RUN,unittest,-v)", "python3 -m unittest -v"),
            (
                "for t in $(TESTS); do python3 $$t; done",
                "for t in tests/*.py; do python3 $$t; done",
            ),
            (
                "$(foreach t,$(TESTS) a.py,python3 $(t) &&) true",
                "python3 tests/*.py && python3 a.py && true",
            ),
            ("$(TESTS:.py=.ok)", "tests/*.ok"),
            ("$(NAMES:%.c=build/%)", "build/a build/b"),
            ("$(patsubst %.c,build/%,$(NAMES))", "build/a build/b"),
            ("$(addprefix t/,$(basename $(NAMES)))", "t/a t/b"),
            ("$(filter-out b.c,$(NAMES)) $(filter %.c,$(NAMES) x)", "a.c a.c b.c"),
            ("$($(MODE))", "a.c b.c"),
            ("$(CC) $(CFLAGS) -o a", "cc  -o a"),
            ("$@ $(", "$@ $("),
        ] {
            assert_eq!(expanded(text, &variables, &mut MAX_ALL.clone()), expected, "{text}");
        }
        assert!(expanded("$(LOOP)", &variables, &mut MAX_ALL.clone()).len() < 100);
    }

    #[test]
    fn a_text_that_would_grow_without_bound_is_empty() {
        let pairs = [("V", "a".repeat(400_000)), ("W", "a ".repeat(100_000))];
        let variables: Variables =
            pairs.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        let of = |text: &str| expanded(text, &variables, &mut MAX_ALL.clone());
        for text in [
            "$(subst a,$(V),$(V))",
            "$(addprefix $(V),$(W))",
            "$(patsubst %,$(V),$(W))",
            "$(W:%=%$(V))",
            "$(filter $(W),$(W))",
        ] {
            assert_eq!(of(text), "", "{text}");
        }
        let open = "$(".repeat(200_000);
        assert!(of(&open).len() <= open.len());
        let mut left = 1000;
        expanded("$(V)", &variables, &mut left);
        assert_eq!((left, expanded("$(V)", &variables, &mut left)), (0, String::new()));
    }
}
