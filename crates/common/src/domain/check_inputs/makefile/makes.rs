//! What a makefile may make beyond the targets that it names.

use super::items::{Item, name_of};
use std::collections::BTreeMap;

/// What the start makes beyond the targets that it names.
pub(super) struct Makes {
    /// The targets of patterns.
    patterns: Vec<String>,
    /// Whether names are computed, or rules stand in a file that is included: then it may make any target.
    is_anything: bool,
    /// Whether a file is included that is no list of what sources include.
    pub(super) includes: bool,
}

impl Makes {
    pub(super) fn of(items: &[Item]) -> Self {
        let mut makes = Self { patterns: Vec::new(), is_anything: false, includes: false };
        let variables: BTreeMap<&str, &[String]> = items
            .iter()
            .filter_map(|item| match item {
                Item::Variable(name, values) => Some((name_of(name), values.as_slice())),
                Item::Rule(..) | Item::Other(_) => None,
            })
            .collect();
        let of_variable = |word: &str| {
            let name = word.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
            name.and_then(|name| variables.get(name)).copied()
        };
        let is_known = |word: &str| !word.contains(['$', '%']) || is_elsewhere(word);
        let is_list =
            |word: &str| of_variable(word).is_some_and(|it| it.iter().all(|it| is_known(it)));
        for item in items {
            let targets: Vec<&str> = match item {
                Item::Variable(..) => continue,
                Item::Rule(targets, ..) => targets.iter().map(String::as_str).collect(),
                Item::Other(text) => {
                    let line = text.lines().next().unwrap_or_default();
                    if let Some(files) = included(line) {
                        let words = of_variable(files.trim()).map(|words| words.join(" "));
                        let files = words.as_deref().unwrap_or(files).trim_end();
                        let is_of_sources = files.ends_with(".d") || files.ends_with(".d)");
                        makes.includes |= !is_of_sources;
                        continue;
                    }
                    let targets = line.split_once([':', '=']).map(|(targets, _)| targets);
                    makes.is_anything |= targets.is_none() && line.trim_start().starts_with('$');
                    targets.unwrap_or_default().split_whitespace().collect()
                }
            };
            for target in targets.into_iter().filter(|target| !is_elsewhere(target)) {
                if target.contains('%') {
                    makes.patterns.push(target.to_owned());
                } else {
                    makes.is_anything |= target.contains('$') && !is_list(target);
                }
            }
        }
        makes
    }

    pub(super) fn may_make(&self, name: &str) -> bool {
        let matches = |pattern: &String| {
            let (before, after) = pattern.split_once('%').unwrap_or((pattern, ""));
            pattern.contains('$')
                || name.len() > before.len() + after.len()
                    && name.starts_with(before)
                    && name.ends_with(after)
        };
        self.is_anything || self.includes || self.patterns.iter().any(matches)
    }
}

/// Whether a computed name has a slash or a dot whatever its variables are: no new target has one.
fn is_elsewhere(word: &str) -> bool {
    let before = word.split_once('$').map_or("", |(before, _)| before);
    let after = word.rsplit_once([')', '}']).map_or("", |(_, after)| after);
    word.contains('$') && (before.contains(['/', '.']) || after.contains(['/', '.']))
}

/// The files that a line includes.
pub(super) fn included(line: &str) -> Option<&str> {
    let words = ["include ", "-include ", "sinclude "];
    words.iter().find_map(|word| line.trim_start().strip_prefix(word))
}
