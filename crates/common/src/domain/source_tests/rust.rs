//! Tests inside Rust files, by the tokens of Rust's own grammar.

mod doc;
mod tokens;

use super::item::{Item, Items, Place};
use std::collections::BTreeMap;
use tokens::{Tokens, flat};

/// The deepest nesting of modules and implementations that is read.
const MAX_DEPTH: usize = 40;

/// The items of a file; none when it is not Rust.
pub(super) fn items(text: &str) -> Option<Items> {
    let tokens = flat(text)?;
    let mut reader = Reader {
        text,
        tokens: &tokens,
        found: Items::default(),
        seen: BTreeMap::new(),
        conditions: Vec::new(),
    };
    let end = Place { at: text.len(), before: "\n".to_owned(), after: "\n".to_owned() };
    reader.found.places.insert(String::new(), end);
    reader.level("", 0, tokens.len(), 0);
    let Reader { mut found, conditions, .. } = reader;
    for test in &mut found.tests {
        for (_, condition) in conditions.iter().filter(|(start, _)| test.key.starts_with(start)) {
            test.marks.push_str(condition);
        }
    }
    Some(found)
}

struct Reader<'t> {
    text: &'t str,
    tokens: &'t Tokens,
    found: Items,
    /// How often a key was met.
    seen: BTreeMap<String, usize>,
    /// On which conditions items are built, or tested: the beginning of their keys, and the attribute.
    conditions: Vec<(String, String)>,
}

/// One item of a file, as indices of tokens.
struct Found {
    /// From its first attribute on.
    start: usize,
    /// Behind its attributes.
    head: usize,
    end: usize,
    /// The index of the brace that opens its body.
    body: Option<usize>,
    attributes: Vec<(usize, usize)>,
}

impl Reader<'_> {
    /// Reads the items between two tokens of one level.
    fn level(&mut self, above: &str, from: usize, to: usize, depth: usize) {
        let mut at = self.inner_docs(above, from, to);
        while at < to {
            let Some(found) = self.next(at, to) else { return };
            at = found.end.max(at + 1);
            self.item(above, &found, depth);
        }
    }

    /// The documentation of the file or of a module itself; answers the index behind it.
    fn inner_docs(&mut self, above: &str, from: usize, to: usize) -> usize {
        let mut at = from;
        let mut attributes = Vec::new();
        while self.tokens.is(at, "#") && self.tokens.is(at + 1, "!") && self.tokens.is(at + 2, "[")
        {
            let Some(close) = self.tokens.close_of(at + 2).filter(|close| *close < to) else {
                break;
            };
            attributes.push((at, close + 1));
            let text = self.tokens.normal(at + 3, close);
            if is_conditional(&text) {
                self.conditions.push((above.to_owned(), text));
            }
            at = close + 1;
        }
        let start = if from == 0 { 0 } else { self.tokens.end(from - 1) };
        let place = Place { at: start, before: "\n".to_owned(), after: "\n".to_owned() };
        self.docs(&format!("{above}!doc"), &attributes, Some(place));
        at
    }

    /// The item that begins at a token.
    fn next(&self, start: usize, to: usize) -> Option<Found> {
        let tokens = self.tokens;
        let mut at = start;
        let mut attributes = Vec::new();
        while tokens.is(at, "#") && tokens.is(at + 1, "[") {
            let close = tokens.close_of(at + 1).filter(|close| *close < to)?;
            attributes.push((at, close + 1));
            at = close + 1;
        }
        let head = at;
        let whole = self.ends_with_semicolon(head, to);
        while at < to {
            if tokens.is(at, ";") {
                return Some(Found { start, head, end: at + 1, body: None, attributes });
            }
            let close = tokens.close_of(at);
            if tokens.is(at, "{") && !whole {
                let close = close?;
                return Some(Found { start, head, end: close + 1, body: Some(at), attributes });
            }
            at = close.unwrap_or(at) + 1;
        }
        Some(Found { start, head, end: to, body: None, attributes })
    }

    /// Whether an item ends at a semicolon, whatever braces it has.
    fn ends_with_semicolon(&self, head: usize, to: usize) -> bool {
        let mut words = (head..to.min(head + 8)).map(|at| self.tokens.text(at));
        match words.find(|word| !matches!(*word, "pub" | "(" | "crate" | "super" | "in" | ")")) {
            Some("use" | "static" | "type" | "let") => true,
            Some("const") => !words
                .next()
                .is_some_and(|word| matches!(word, "fn" | "unsafe" | "async" | "extern")),
            Some(_) | None => false,
        }
    }

    fn item(&mut self, above: &str, found: &Found, depth: usize) {
        let (kind, name) = self.name(found);
        let key = self.unique(format!("{above}{kind} {name}"));
        let attributes: Vec<String> = found
            .attributes
            .iter()
            .map(|(from, to)| self.tokens.normal(from + 2, to - 1))
            .collect();
        let for_tests = attributes.iter().any(|text| is_for_tests(text));
        let is_test = attributes.iter().any(|text| is_test(text));
        let named = if name.is_empty() { kind.to_owned() } else { name.clone() };
        let path = format!("{}{named}", readable(above));
        if is_test || for_tests {
            let parts = match found.body.filter(|_| kind == "mod") {
                Some(open) => self.parts(open + 1, found.end - 1),
                None => vec![self.tokens.normal(found.head, found.end)],
            };
            // What decides whether the test runs belongs to it.
            let marks = attributes.iter().filter(|text| !text.starts_with("doc ="));
            let parts = parts.into_iter().chain(marks.clone().cloned()).collect();
            let marks: Vec<&str> =
                marks.map(String::as_str).filter(|text| !is_of_lints(text)).collect();
            let marks = marks.join(" ");
            let range = self.tokens.start(found.start)..self.tokens.end(found.end - 1);
            let home = above.to_owned();
            self.found.tests.push(Item { key: key.clone(), name: path, range, home, parts, marks });
            let has_tests = kind == "mod" && (found.body.is_none() || self.has_test(found));
            if !is_test && !has_tests {
                self.ask(&key, &attributes.join(" "));
            }
            return;
        }
        let range = self.tokens.start(found.start)..self.tokens.end(found.end - 1);
        self.found.others.insert(key.clone(), range);
        let place = self.place_in_front(found);
        let docs = found.attributes.clone();
        self.docs(&format!("{key}!doc"), &docs, Some(place));
        for text in attributes.iter().filter(|text| asks(text)) {
            self.ask(&key, text);
        }
        let body =
            found.body.filter(|_| matches!(kind, "mod" | "impl" | "trait") && depth < MAX_DEPTH);
        if let Some(open) = body {
            let inside = format!("{key}::");
            let conditions = attributes.iter().filter(|text| is_conditional(text));
            self.conditions.extend(conditions.map(|text| (inside.clone(), text.clone())));
            let close = found.end - 1;
            let place =
                Place { at: self.tokens.start(close), before: "\n".into(), after: "\n".into() };
            self.found.places.insert(inside.clone(), place);
            self.level(&inside, open + 1, close, depth + 1);
        } else {
            for question in self.tokens.questions(found.head, found.end) {
                self.ask(&key, &question);
            }
        }
    }

    fn ask(&mut self, key: &str, question: &str) {
        *self.found.conditions.entry((readable(key), question.to_owned())).or_default() += 1;
    }

    /// What the items of a test module say.
    fn parts(&self, from: usize, to: usize) -> Vec<String> {
        let (mut at, mut parts) = (from, Vec::new());
        while at < to {
            let Some(found) = self.next(at, to) else { break };
            parts.push(self.tokens.normal(found.start, found.end));
            at = found.end.max(at + 1);
        }
        parts
    }

    /// Whether a test stands anywhere in an item.
    fn has_test(&self, found: &Found) -> bool {
        let attribute = |at: usize| {
            let close = self.tokens.close_of(at + 1)?;
            let is_one = self.tokens.is(at, "#") && self.tokens.is(at + 1, "[");
            (is_one && is_test(&self.tokens.normal(at + 2, close))).then_some(())
        };
        (found.head..found.end).any(|at| attribute(at).is_some())
    }

    /// The keyword and the name of an item.
    fn name(&self, found: &Found) -> (&'static str, String) {
        const KINDS: &[&str] = &[
            "fn",
            "mod",
            "struct",
            "enum",
            "union",
            "trait",
            "type",
            "static",
            "impl",
            "use",
            "macro_rules",
            "const",
        ];
        let end = found.body.unwrap_or(found.end);
        let mut at = found.head;
        while at < end {
            let word = self.tokens.text(at);
            let is_const_fn = word == "const"
                && matches!(self.tokens.text(at + 1), "fn" | "unsafe" | "async" | "extern");
            if let Some(kind) = KINDS.iter().find(|kind| **kind == word).filter(|_| !is_const_fn) {
                let name = match *kind {
                    "impl" | "use" => self.tokens.normal(at + 1, end),
                    "macro_rules" => self.tokens.text(at + 2).to_owned(),
                    _ => self.tokens.text(at + 1).to_owned(),
                };
                return (kind, name);
            }
            at = self.tokens.close_of(at).unwrap_or(at) + 1;
        }
        ("item", self.tokens.normal(found.head, end.min(found.head + 8)))
    }

    fn unique(&mut self, key: String) -> String {
        let count = self.seen.entry(key.clone()).or_default();
        *count += 1;
        if *count == 1 { key } else { format!("{key}[{count}]") }
    }

    /// In front of an item, at its indentation.
    fn place_in_front(&self, found: &Found) -> Place {
        let at = self.tokens.start(found.start);
        let line = self.text.get(..at).and_then(|before| before.rsplit('\n').next());
        let blanks = line.filter(|line| line.trim().is_empty()).unwrap_or_default();
        Place { at, before: String::new(), after: format!("\n{blanks}") }
    }

    /// The code in the documentation of an item.
    fn docs(&mut self, key: &str, attributes: &[(usize, usize)], place: Option<Place>) {
        let is_doc = |(from, to): &&(usize, usize)| {
            let open = if self.tokens.is(from + 1, "!") { from + 2 } else { from + 1 };
            self.tokens.is(open + 1, "doc") && self.tokens.is(open + 2, "=") && open + 5 == *to
        };
        let docs: Vec<(usize, usize)> = attributes.iter().filter(is_doc).copied().collect();
        let texts = docs.iter().map(|(_, to)| self.tokens.text(to - 2));
        let parts = doc::tests(texts);
        let in_one_piece = docs.windows(2).all(|pair| matches!(pair, [a, b] if a.1 == b.0));
        let range = docs
            .first()
            .zip(docs.last())
            .map(|(first, last)| self.tokens.start(first.0)..self.tokens.end(last.1 - 1));
        match range.filter(|_| in_one_piece) {
            Some(range) if !parts.is_empty() => {
                let name =
                    format!("the documentation of {}", readable(key.trim_end_matches("!doc")));
                let home = key.to_owned();
                self.found.tests.push(Item {
                    key: key.to_owned(),
                    name,
                    range,
                    home,
                    parts,
                    marks: String::new(),
                });
            }
            // The original documentation replaces what stands there now.
            Some(range) => {
                let home = key.to_owned();
                let name = String::new();
                self.found.tests.push(Item {
                    key: key.to_owned(),
                    name,
                    range,
                    home,
                    parts,
                    marks: String::new(),
                });
            }
            None => {
                if let Some(place) = place.filter(|_| docs.is_empty()) {
                    self.found.places.insert(key.to_owned(), place);
                }
            }
        }
    }
}

/// The examples of a document.
pub(super) fn examples(text: &str) -> Vec<String> {
    doc::tests_of_lines(text.lines())
}

/// A key without the keywords of its parts.
fn readable(key: &str) -> String {
    let parts = key.split("::").map(|part| part.split_once(' ').map_or(part, |(_, name)| name));
    parts.collect::<Vec<_>>().join("::")
}

/// Whether an attribute marks a test, such as `test`, `tokio :: test` and `bench`.
fn is_test(attribute: &str) -> bool {
    let path = attribute.split(" (").next().unwrap_or_default();
    let last = path.rsplit(' ').next().unwrap_or_default();
    last.ends_with("test") || matches!(last, "bench" | "quickcheck" | "test_case" | "proptest")
}

/// Whether an attribute leaves an item out of what is no test.
fn is_for_tests(attribute: &str) -> bool {
    attribute.starts_with("cfg (") && asks(attribute) && !has_word(attribute, "not")
}

/// Whether an attribute asks whether tests are built.
fn asks(attribute: &str) -> bool {
    (attribute.starts_with("cfg (") || attribute.starts_with("cfg_attr ("))
        && has_word(attribute, "test")
}

/// Whether what an attribute stands at is built on a condition other than tests, or its tests run by other means than
/// the harness of Rust.
fn is_conditional(attribute: &str) -> bool {
    let inside = attribute.strip_prefix("cfg_attr (");
    attribute.starts_with("cfg (") && attribute != "cfg ( test )"
        || inside.is_some_and(|inside| inside.contains("cfg ("))
        || has_word(attribute, "test_runner")
        || has_word(attribute, "no_main")
}

/// Whether an attribute only says what linters report.
fn is_of_lints(attribute: &str) -> bool {
    ["allow (", "deny (", "expect (", "forbid (", "warn ("]
        .iter()
        .any(|start| attribute.starts_with(start))
}

fn has_word(text: &str, wanted: &str) -> bool {
    text.split(' ').any(|word| word == wanted)
}
