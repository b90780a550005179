//! Tests in Python modules: doctests in the documentation of modules, classes and functions, and classes of unittest.

use super::item::{Item, Items, Place};
use std::collections::BTreeMap;
use std::ops::Range;

/// The deepest nesting of classes and functions that is read.
const MAX_DEPTH: usize = 40;

/// The items of a file; none when a string or a bracket of it does not end.
pub(super) fn items(text: &str) -> Option<Items> {
    let lines = logical_lines(text)?;
    let mut found = Items::default();
    let cases = cases(text, &lines);
    let is_in_case =
        |line: &Logical| cases.iter().any(|case| case.range.contains(&line.range.start));
    found.places.insert(CASES.to_owned(), place_of_cases(text, &lines));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut scopes: Vec<(usize, String)> = Vec::new();
    // The scope whose documentation the next line may be, and where it goes when there is none.
    let mut waits =
        Some((String::new(), Place { at: 0, before: String::new(), after: "\n".to_owned() }));
    for (place, line) in lines.iter().enumerate() {
        let code = text.get(line.range.clone()).unwrap_or_default();
        if let Some((key, place)) = waits.take() {
            match line.string.clone().filter(|range| *range == line.range) {
                Some(range) => documented(&mut found, &key, range, text),
                None => {
                    found.places.insert(key, place);
                }
            }
        }
        // A class of tests is compared as a whole.
        let Some(name) = scope_name(code).filter(|_| !is_in_case(line)) else { continue };
        scopes.retain(|(indent, _)| *indent < line.indent);
        if scopes.len() >= MAX_DEPTH {
            return None;
        }
        let above = scopes.last().map_or("", |(_, key)| key.as_str());
        let key = if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        let key = if *count == 1 { key } else { format!("{key}[{count}]") };
        scopes.push((line.indent, key.clone()));
        // A body in the same line has no documentation that could be put back.
        if let Some(next) = lines.get(place + 1).filter(|next| next.indent > line.indent) {
            let blanks = " ".repeat(next.indent);
            let place =
                Place { at: next.range.start, before: String::new(), after: format!("\n{blanks}") };
            waits = Some((key, place));
        }
    }
    found.tests.extend(cases);
    Some(found)
}

/// The key of the place for classes of tests.
const CASES: &str = "tests!";

/// The classes of unittest at the top of a module, with their decorators.
fn cases(text: &str, lines: &[Logical]) -> Vec<Item> {
    let mut found: Vec<Item> = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let code = |line: &Logical| text.get(line.range.clone()).unwrap_or_default().to_owned();
    let is_top = |line: &&Logical| line.indent == 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_top(line)) {
        let head = code(line);
        let bases = head.strip_prefix("class ").and_then(|rest| rest.split_once('('));
        let Some((name, _)) = bases.filter(|(_, bases)| bases.contains("TestCase")) else {
            continue;
        };
        let before = lines.get(..at).unwrap_or_default().iter().rev();
        let decorators =
            before.take_while(|line| line.indent == 0 && code(line).starts_with('@')).count();
        let behind = lines.get(at + 1..).unwrap_or_default();
        let inside = behind.iter().take_while(|line| line.indent > 0).count();
        let own = lines.get(at - decorators..=at + inside).unwrap_or_default();
        let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
        let said = own.iter().map(|line| format!("{}{}", " ".repeat(line.indent), code(line)));
        let count = seen.entry(name.trim().to_owned()).or_default();
        *count += 1;
        found.push(Item {
            key: format!("class {}[{count}]", name.trim()),
            name: format!("the tests of {}", name.trim()),
            range: first.range.start..last.range.end,
            home: CASES.to_owned(),
            parts: vec![said.collect::<Vec<_>>().join("\n")],
            marks: String::new(),
        });
    }
    found
}

/// Where a class of tests is put that a module has no more: in front of what runs only where the module is started.
fn place_of_cases(text: &str, lines: &[Logical]) -> Place {
    let starts = |line: &&Logical| {
        let code = text.get(line.range.clone()).unwrap_or_default();
        line.indent == 0 && code.starts_with("if __name__")
    };
    let started = lines.iter().find(starts).map(|line| line.range.start);
    let (at, before) = started.map_or((text.len(), "\n"), |at| (at, ""));
    Place { at, before: before.to_owned(), after: "\n\n".to_owned() }
}

fn documented(found: &mut Items, key: &str, range: Range<usize>, text: &str) {
    let parts = examples(text.get(range.clone()).unwrap_or_default());
    let name = format!("the doctests of {}", if key.is_empty() { "the module" } else { key });
    let home = key.to_owned();
    found.tests.push(Item { key: key.to_owned(), name, range, home, parts, marks: String::new() });
}

/// The examples of a documentation, each with what it expects.
fn examples(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        let line = line.trim_end_matches("\"\"\"").trim_end_matches("'''").trim_end();
        let at = line.find(">>>");
        if let Some(at) = at.filter(|at| {
            line.get(..*at).is_some_and(|it| it.trim_matches(['"', '\'', 'r', 'R']).is_empty())
        }) {
            found.push(line.get(at..).unwrap_or_default().to_owned());
            open = true;
        } else if line.is_empty() {
            open = false;
        } else if let Some(last) = found.last_mut().filter(|_| open) {
            last.push('\n');
            last.push_str(line);
        }
    }
    found
}

/// The name of a class or function that a line begins.
fn scope_name(code: &str) -> Option<&str> {
    let code = code.strip_prefix("async ").map_or(code, str::trim_start);
    let rest = code.strip_prefix("def ").or_else(|| code.strip_prefix("class "))?;
    let name = rest.trim_start();
    let end = name.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    name.get(..end.unwrap_or(name.len())).filter(|name| !name.is_empty())
}

/// One statement, over as many lines as its brackets and strings have.
struct Logical {
    indent: usize,
    range: Range<usize>,
    /// The string that it begins with.
    string: Option<Range<usize>>,
}

fn logical_lines(text: &str) -> Option<Vec<Logical>> {
    let bytes = text.as_bytes();
    let (mut lines, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\x0c')) {
            at += 1;
        }
        let (indent, first) = (at - start, at);
        let mut line = Line { bytes, at, depth: 0, end: at, string: None };
        line.read()?;
        at = line.at;
        if line.end > first {
            lines.push(Logical { indent, range: first..line.end, string: line.string });
        }
    }
    Some(lines)
}

struct Line<'t> {
    bytes: &'t [u8],
    at: usize,
    depth: usize,
    /// Behind the last byte that is no blank and no comment.
    end: usize,
    string: Option<Range<usize>>,
}

impl Line<'_> {
    /// Reads to the end of a statement's last line; none when a string or a bracket does not end.
    fn read(&mut self) -> Option<()> {
        let first = self.at;
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match byte {
                b'\n' => {
                    self.at += 1;
                    if self.depth == 0 {
                        return Some(());
                    }
                }
                b'#' => {
                    while self.bytes.get(self.at).is_some_and(|byte| *byte != b'\n') {
                        self.at += 1;
                    }
                }
                b'\\' => self.at += 2,
                b'"' | b'\'' => {
                    let start = self.prefix(first);
                    self.quoted(byte)?;
                    self.end = self.at;
                    if start == first {
                        self.string.get_or_insert(start..self.at);
                    }
                }
                b' ' | b'\t' | b'\r' | b'\x0c' => self.at += 1,
                byte => {
                    match byte {
                        b'(' | b'[' | b'{' => self.depth += 1,
                        b')' | b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    self.at += 1;
                    self.end = self.at;
                }
            }
        }
        (self.depth == 0).then_some(())
    }

    /// Where a string begins, with the letters in front of its mark.
    fn prefix(&self, first: usize) -> usize {
        let letters = self.bytes.get(first..self.at).unwrap_or_default();
        let is_prefix = letters.len() <= 2 && letters.iter().all(|byte| b"rRbBuUfF".contains(byte));
        if is_prefix { first } else { self.at }
    }

    fn quoted(&mut self, mark: u8) -> Option<()> {
        let triple = self.bytes.get(self.at..self.at + 3) == Some(&[mark; 3]);
        self.at += if triple { 3 } else { 1 };
        loop {
            match *self.bytes.get(self.at)? {
                b'\\' => self.at += 2,
                b'\n' if !triple => return None,
                byte if byte == mark => {
                    if !triple {
                        self.at += 1;
                        return Some(());
                    }
                    if self.bytes.get(self.at..self.at + 3) == Some(&[mark; 3]) {
                        self.at += 3;
                        return Some(());
                    }
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }
}
