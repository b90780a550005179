//! The tests that a file spells by their names.

use super::parameters::further_runs;
use crate::domain::check_inputs::language_of;
use std::collections::BTreeMap;

/// The largest file that is read, in bytes.
const MAX_TEXT: usize = 512 << 10;

/// The language of the files in which a project of CMake lists its tests.
pub(super) const CMAKE: &str = "cmake";

/// The names of tests that files spell, and how often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Literals {
    times: BTreeMap<String, usize>,
    /// How many more runs of them the files spell.
    more: usize,
    is_made: bool,
}

impl Literals {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Whether a test of this name is one.
    pub fn has(&self, name: &str) -> bool {
        self.times.contains_key(name)
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.times.keys().map(String::as_str).collect()
    }

    /// How many of them run, where each file says so.
    pub fn count(&self) -> usize {
        self.more.saturating_add(self.times.values().sum())
    }

    /// Whether a number of tests that ran says nothing about these: some run more than once.
    pub const fn is_made(&self) -> bool {
        self.is_made
    }

    /// Adds those of another file.
    pub fn extend(&mut self, other: Self) {
        for (name, times) in other.times {
            *self.times.entry(name).or_default() += times;
        }
        self.more = self.more.saturating_add(other.more);
        self.is_made |= other.is_made;
    }

    /// Those that another text of the same file has, too.
    #[must_use]
    pub fn within(mut self, other: &Self) -> Self {
        self.times.retain(|name, times| {
            *times = (*times).min(other.times(name));
            *times > 0
        });
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.times.iter().map(|(name, times)| (name.as_str(), *times))
    }

    pub(super) fn times(&self, name: &str) -> usize {
        self.times.get(name).copied().unwrap_or_default()
    }
}

/// Words of files in which one spelled test runs more than once, or is one of several that ran.
const MADE: &[&str] = &[
    "InlineData",
    "TestCaseSource",
    "dataProvider",
    "generate_tests",
    "load_tests",
    "parameterized",
    "params=",
    "rstest",
    "subTest",
    "test_case",
];

/// The language in which a file may spell tests.
pub fn language_of_tests(path: &str) -> Option<&'static str> {
    language_of(path).or_else(|| lists_tests(path).then_some(CMAKE))
}

/// Whether a build file lists the tests of a project, by its name.
pub fn lists_tests(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "CMakeLists.txt" || name.ends_with(".cmake")
}

/// The tests that a test file spells. Names that are made at run time are left out.
pub fn literals(path: &str, text: &str) -> Literals {
    let mut found = Literals::default();
    if text.len() > MAX_TEXT {
        return found;
    }
    let names: Vec<String> = match language_of_tests(path) {
        Some("python") => text.lines().filter_map(python).map(str::to_owned).collect(),
        Some("rust") => rust(text),
        Some("go") => text.lines().filter_map(go).map(str::to_owned).collect(),
        Some("javascript") => javascript(text),
        Some("jvm") => jvm(path, text).into_iter().collect(),
        Some("ruby") => ruby(text),
        Some("php") => text.lines().filter_map(php).map(str::to_owned).collect(),
        Some("dotnet") => dotnet(text),
        Some(CMAKE) => cmake(text),
        Some(_) | None => Vec::new(),
    };
    for name in names {
        *found.times.entry(name).or_default() += 1;
    }
    let runs = match language_of(path) {
        Some("python") => further_runs(text, |line| python(line).is_some()),
        Some(_) | None => Some(0),
    };
    found.more = runs.unwrap_or_default();
    found.is_made =
        runs.is_none() || MADE.iter().any(|word| text.contains(word)) || has_heirs(path, text);
    found
}

/// Whether a class of Python has the tests of another one as well, by its words: each base but those of the runners.
fn has_heirs(path: &str, text: &str) -> bool {
    language_of(path) == Some("python")
        && text.lines().filter_map(|line| line.trim_start().strip_prefix("class ")).any(|class| {
            let bases = class.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            let bases = bases.map_or("", |(bases, _)| bases).split(',').map(str::trim);
            let is_plain = |base: &str| {
                let name = base.rsplit('.').next().unwrap_or(base);
                name.is_empty() || name == "object" || name.ends_with("TestCase")
            };
            !bases.into_iter().all(is_plain)
        })
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = text.get(..end.unwrap_or(text.len()))?;
    (!name.is_empty()).then_some(name)
}

fn python(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("async ").unwrap_or(line);
    identifier(line.strip_prefix("def ")?.trim_start()).filter(|name| name.starts_with("test"))
}

/// Functions below an attribute that ends with `test`.
fn rust(text: &str) -> Vec<String> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        if let Some(attribute) = line.strip_prefix("#[") {
            let name = attribute.split([']', '(']).next().unwrap_or_default().trim();
            is_test |= name == "test" || name.ends_with("::test");
        }
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let is_item = before.split_whitespace().all(|word| {
            word.starts_with("pub")
                || matches!(word, "async" | "unsafe" | "const")
                || word.ends_with(']')
        });
        if is_item && std::mem::take(&mut is_test) {
            names.extend(identifier(after).map(str::to_owned));
        }
    }
    names
}

fn go(line: &str) -> Option<&str> {
    identifier(line.strip_prefix("func ")?).filter(|name| name.starts_with("Test"))
}

/// The titles in `test("...")` and `it('...')`.
fn javascript(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for call in ["test", "it"] {
        for (at, _) in text.match_indices(call) {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let is_word =
                |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$' | '.');
            if before.is_some_and(is_word) {
                continue;
            }
            let rest = text.get(at + call.len()..).unwrap_or_default();
            let Some(rest) = rest.trim_start().strip_prefix('(') else { continue };
            names.extend(title(rest.trim_start()));
        }
    }
    names
}

/// The titles in `it "..." do` and `specify('...')`.
fn ruby(text: &str) -> Vec<String> {
    let call = |line: &str| {
        let (word, rest) = line.trim_start().split_once([' ', '('])?;
        let is_test = matches!(word, "it" | "specify" | "example" | "scenario");
        is_test.then(|| title(rest.trim_start_matches([' ', '('])))?
    };
    text.lines().filter_map(call).collect()
}

fn php(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("function ")?;
    let words = ["public", "final", "static"];
    let is_method = before.split_whitespace().all(|word| words.contains(&word));
    identifier(after).filter(|name| is_method && name.starts_with("test"))
}

/// Methods below an attribute of xUnit, NUnit or MSTest.
fn dotnet(text: &str) -> Vec<String> {
    let attributes = ["Fact", "Theory", "Test", "TestCase", "TestMethod", "DataTestMethod"];
    let (mut names, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim_start) {
        if let Some(attribute) = line.strip_prefix('[') {
            let name = attribute.split([']', '(', ',']).next().unwrap_or_default();
            is_test |= attributes.contains(&name.trim());
            continue;
        }
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit(|letter: char| letter.is_whitespace()).next();
        if std::mem::take(&mut is_test) {
            names.extend(name.and_then(identifier).map(str::to_owned));
        }
    }
    names
}

/// The names in `add_test(NAME adds COMMAND ...)` and `add_test(adds ...)`.
fn cmake(text: &str) -> Vec<String> {
    let text: Vec<&str> = text.lines().filter_map(|line| line.split('#').next()).collect();
    let text = text.join("\n");
    let lower = text.to_ascii_lowercase();
    let call = |(at, call): (usize, &str)| {
        let rest = text.get(at + call.len()..)?.trim_start().strip_prefix('(')?;
        let mut words = rest.split([' ', '\t', '\r', '\n', ')']).filter(|word| !word.is_empty());
        let first = words.next()?;
        let name = if first == "NAME" { words.next()? } else { first };
        let is_made = name.contains(['$', '\\', '"', ';']);
        (!is_made).then(|| name.to_owned())
    };
    lower.match_indices("add_test").filter_map(call).collect()
}

fn title(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '\'' | '"' | '`'))?;
    let (title, _) = text.get(1..)?.split_once(mark)?;
    // Runners print these in another way, or make them.
    let is_odd = title.contains(['\\', '\n', '#', '$', '%']) || title.contains(" > ");
    let title = title.trim();
    (!is_odd && !title.is_empty()).then(|| title.to_owned())
}

/// The class of a file, because runners of the JVM name classes.
fn jvm(path: &str, text: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.split('.').next()?;
    text.contains(&format!("class {name}")).then(|| name.to_owned())
}
