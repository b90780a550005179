//! Tests that a run moved into a source that it added, with the code that they test.

use super::language::{Language, items, language, without_mark};
use std::collections::BTreeMap;

/// What the tests of added sources say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// How often each part of a test stands in them.
    pub(super) parts: BTreeMap<String, usize>,
}

impl Moved {
    /// Reads added Rust sources, each with its path and its text, which a module of the sources of now is built from:
    /// what no module names is not built, so its tests are gone.
    pub fn of(added: &[(&[u8], &str)], sources: &[&str]) -> Self {
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        for (path, text) in added {
            let is_one = language(path) == Some(Language::Rust) && is_built(path, sources);
            let found = is_one.then(|| items(path, without_mark(text))).flatten();
            for part in found.into_iter().flat_map(|it| it.tests).flat_map(|test| test.parts) {
                *parts.entry(part).or_default() += 1;
            }
        }
        Self { parts }
    }
}

/// Whether a source declares the module of a file, without a condition.
fn is_built(path: &[u8], sources: &[&str]) -> bool {
    let path = String::from_utf8_lossy(path);
    let module = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"));
    let Some(name) = module.and_then(|module| module.rsplit('/').next()) else { return false };
    let declares = |line: &str| {
        let line = line.strip_prefix("pub").map_or(line, |rest| {
            let rest = rest.trim_start();
            let inner = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
            inner.map_or(rest, |(_, rest)| rest)
        });
        let rest = line.trim_start().strip_prefix("mod ").map(str::trim);
        rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.trim() == ";")
    };
    sources.iter().any(|text| {
        let mut above = "";
        text.lines().map(str::trim).filter(|line| !line.is_empty()).any(|line| {
            let is_one = declares(line) && !above.starts_with("#[") && !above.ends_with(']');
            above = line;
            is_one
        })
    })
}
