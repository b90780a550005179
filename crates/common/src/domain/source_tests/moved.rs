//! Tests that a run moved into a source that it added, with the code that they test.

use super::item::Items;
use super::language::{Language, items, language, without_mark};
use super::roots::{Manifests, root_of};
use std::collections::{BTreeMap, BTreeSet};

/// How often each part of a test stands somewhere, by the attributes of the test: with others it may not run.
type Parts = BTreeMap<(String, String), usize>;

/// What the tests of added sources say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Those in modules that a source declares.
    modules: Parts,
    /// Those in roots of crates, by the folder with the sources of their package.
    roots: BTreeMap<String, Parts>,
}

/// What of it may come from one file.
#[derive(Debug, Default)]
pub(super) struct Here<'m> {
    modules: Option<&'m Parts>,
    root: Option<&'m Parts>,
    /// The names of items that the file had and still has.
    staying: BTreeSet<&'m str>,
}

impl Moved {
    /// Reads added Rust sources, each with its path and its text, which a module of the sources of now is built from, or
    /// which are roots of crates: what is not built has no tests that run. Without manifests no root counts.
    pub fn of(
        added: &[(&[u8], &str)],
        sources: &[&str],
        manifests: Option<&dyn Manifests>,
    ) -> Self {
        let mut moved = Self::default();
        let mut modules = Modules::default();
        sources.iter().for_each(|text| modules.add(text, false));
        for (path, text) in added {
            if language(path) != Some(Language::Rust) {
                continue;
            }
            let root = || root_of(std::str::from_utf8(path).ok()?, manifests?);
            let (parts, has_doctests) = if modules.have(path) {
                (&mut moved.modules, true)
            } else if let Some(root) = root() {
                (moved.roots.entry(root.sources).or_default(), root.has_doctests)
            } else {
                continue;
            };
            let Some(found) = items(path, without_mark(text)) else { continue };
            let runs = |key: &str| has_doctests || !key.ends_with("!doc");
            for test in found.tests.into_iter().filter(|test| runs(&test.key)) {
                for part in test.parts {
                    *parts.entry((test.marks.clone(), part)).or_default() += 1;
                }
            }
        }
        moved
    }

    /// What may come from a file, by its items at the start and now.
    pub(super) fn here<'m>(&'m self, path: &[u8], old: &'m Items, now: &Items) -> Here<'m> {
        // Another package may be tested by no check.
        let mut roots = self.roots.iter().rev();
        let root = roots.find(|(sources, _)| path.starts_with(sources.as_bytes()));
        let staying = old.others.keys().filter(|key| now.others.contains_key(*key));
        Here {
            modules: Some(&self.modules),
            root: root.map(|(_, parts)| parts),
            staying: staying.filter_map(|key| name(key)).collect(),
        }
    }
}

impl Here<'_> {
    pub(super) fn is_empty(&self) -> bool {
        let is_empty = |parts: Option<&Parts>| parts.is_none_or(BTreeMap::is_empty);
        is_empty(self.modules) && is_empty(self.root)
    }

    /// How often a part of a test with these attributes stands elsewhere.
    pub(super) fn count(&self, marks: &str, part: &str) -> usize {
        let key = (marks.to_owned(), part.to_owned());
        let of = |parts: Option<&Parts>| parts.and_then(|parts| parts.get(&key).copied());
        // Another crate has no items of this one: there the test is about a copy.
        let is_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
        let mut words = part.split(|letter| !is_of_name(letter));
        let root = self.root.filter(|_| !words.any(|word| self.staying.contains(word)));
        of(self.modules).unwrap_or_default() + of(root).unwrap_or_default()
    }
}

/// The name of an item at the top of a file that other items may use.
fn name(key: &str) -> Option<&str> {
    const KINDS: &[&str] = &[
        "const",
        "enum",
        "fn",
        "macro_rules",
        "mod",
        "static",
        "struct",
        "trait",
        "type",
        "union",
    ];
    let (kind, name) = key.split_once(' ')?;
    (KINDS.contains(&kind) && !name.contains(':')).then_some(name)
}

/// The modules that Rust sources declare in files of their own, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules(BTreeSet<String>);

impl Modules {
    /// Reads a source. What a run wrote there counts without attributes alone, as a condition may leave its module out,
    /// but for that of tests.
    pub fn add(&mut self, text: &str, is_as_at_start: bool) {
        let mut has_attribute = false;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = line.strip_prefix("#[cfg(test)]").map_or(line, str::trim_start);
            if line.is_empty() {
                continue;
            }
            let name = declared(line).filter(|_| is_as_at_start || !has_attribute);
            self.0.extend(name.map(str::to_owned));
            has_attribute = line.starts_with("#[") || line.ends_with(']');
        }
    }

    /// Whether a Rust source is built for tests: as a module, or as the root of a crate, where manifests are given.
    pub fn build(&self, path: &[u8], manifests: Option<&dyn Manifests>) -> bool {
        let root = || root_of(std::str::from_utf8(path).ok()?, manifests?);
        self.have(path) || root().is_some()
    }

    fn have(&self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        let module = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"));
        let name = module.and_then(|module| module.rsplit('/').next());
        name.is_some_and(|name| self.0.contains(name))
    }
}

/// The module that a line declares in a file of its own.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.trim_start();
        let inner = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        inner.map_or(rest, |(_, rest)| rest)
    });
    let rest = line.trim_start().strip_prefix("mod ")?;
    let (name, end) = rest.split_at(rest.find(';')?);
    let name = name.trim();
    (end.trim() == ";").then(|| name.strip_prefix("r#").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::Modules;

    #[test]
    fn a_module_is_built_where_a_source_declares_it() {
        let mut modules = Modules::default();
        let text = "mod plain;\npub mod open;\npub(crate) mod inner;\n#[cfg(test)]\nmod checks;\n#[cfg(test)] mod short;\n\
                    #[cfg(any())]\nmod never;\n#[cfg(any())]\n#[cfg(test)]\nmod neither;\nmod inline {}\nmod r#loop;\n";
        modules.add(text, false);
        for name in ["plain", "open", "inner", "checks", "short", "loop"] {
            assert!(modules.build(format!("src/{name}.rs").as_bytes(), None), "{name}");
            assert!(modules.build(format!("src/{name}/mod.rs").as_bytes(), None), "{name}");
        }
        for name in ["never", "neither", "inline", "main", "mod"] {
            assert!(!modules.build(format!("src/{name}.rs").as_bytes(), None), "{name}");
        }
        modules.add(text, true);
        assert!(modules.build(b"src/never.rs", None), "the condition was there at the start");
    }
}
