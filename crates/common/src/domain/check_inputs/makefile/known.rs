//! What the makefile of the start has, and what it may make.

use super::items::{COMPILED, COPIED, Item, LIBRARIES, SOURCES, StartFiles, is_source, name_of};
use super::order::Order;
use std::collections::{BTreeMap, BTreeSet};

/// Extensions of which no object is made.
const OF_NO_OBJECT: &[&str] = &["h", "hh", "hpp", "java", "o"];

/// What the makefile of the start and the files beside it have.
pub(super) struct Known<'a> {
    pub(super) words: BTreeSet<&'a str>,
    /// Where it reads the first words of its lists.
    pub(super) order: Order<'a>,
    /// The targets of its rules.
    pub(super) targets: BTreeSet<&'a str>,
    /// Those of rules with recipes.
    pub(super) with_recipe: BTreeSet<&'a str>,
    pub(super) makes: Makes,
    /// Whether it looks for libraries nowhere but where the system has them.
    pub(super) links: bool,
    /// Whether it makes names of files out of parts.
    pub(super) computes_files: bool,
    pub(super) files: &'a dyn StartFiles,
}

impl Known<'_> {
    /// A library of the system, and no file of the workspace.
    pub(super) fn is_library(&self, word: &str) -> bool {
        self.links
            && !self.makes.includes
            && !self.files.is_in_a_line("LIBRARY_PATH")
            && LIBRARIES.contains(&word)
    }

    /// A source that the run removed, or what is made from one.
    pub(super) fn is_gone(&self, word: &str) -> bool {
        let stem = || word.rsplit_once('.').map_or(word, |(stem, _)| stem);
        let from_source = || {
            // Headers make no object: one that is gone says nothing about its source.
            let mut sources = SOURCES.iter().filter(|it| !OF_NO_OBJECT.contains(*it));
            word.ends_with(".o")
                && sources.any(|extension| self.files.is_gone(&format!("{}.{extension}", stem())))
        };
        is_source(word, self.files) && (self.files.is_gone(word) || from_source())
    }

    /// A target without a file: the start has no word of it, no rule that makes it by a pattern, and no file that a
    /// rule of make could make it from.
    pub(super) fn is_new_target(&self, name: &str) -> bool {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        !name.is_empty()
            && (name.chars().all(is_plain) && !self.files.has_stem(name) || self.is_new_file(name))
            && !self.words.contains(name)
            && !self.makes.may_make(name)
    }

    /// A file by its path or its extension, such as `dist/app.tar.gz`: none of the start, and none that its makefile may
    /// come to need by a name that it computes or by a rule of make.
    fn is_new_file(&self, path: &str) -> bool {
        const COMPUTES: &[&str] = &[
            "addprefix",
            "addsuffix",
            "call",
            "eval",
            "foreach",
            "patsubst",
            "shell",
            "subst",
            "wildcard",
            "SECONDEXPANSION",
            ".SECONDEXPANSION",
        ];
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_made_from = |extension: &str| {
            SOURCES.contains(&extension)
                || COMPILED.contains(&extension)
                || COPIED.contains(&extension)
        };
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        path.chars().all(is_plain)
            && !path.starts_with(['.', '/'])
            && !path.contains("..")
            && !name.is_empty()
            && !is_made_from(extension)
            && !["d", "mk"].contains(&extension)
            && !COMPUTES.iter().any(|word| self.words.contains(word))
            && !self.computes_files
            && !self.files.has(name)
            && !self.files.is_check_input(path)
    }

    /// A target of which no file is made: to name it so makes no recipe run that did not run before, and keeps none from it.
    pub(super) fn may_be_phony(&self, name: &str) -> bool {
        // make looks for no pattern rule for a phony target.
        let is_known = self.targets.contains(name) && !self.makes.may_make(name);
        // make looks for no rule of its own for a target with a recipe.
        let is_made_of_none = || match self.with_recipe.contains(name) {
            true => !self.files.has(name),
            false => !self.files.has_stem(name),
        };
        self.is_new_target(name) || is_known && is_made_of_none()
    }
}

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

    fn may_make(&self, name: &str) -> bool {
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

/// Whether a makefile makes names of files out of parts, recipes apart: `$(BUILD)/app`, `$(PAGES:.md=.html)`.
pub(super) fn computes_files(text: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_./%".contains(letter);
    let mut lines = text.lines().filter(|line| !line.starts_with('\t'));
    lines.any(|line| {
        line.match_indices('$').any(|(at, _)| {
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            let rest = line.get(at + 1..).unwrap_or_default();
            let rest = match rest.strip_prefix(['(', '{']) {
                Some(rest) => rest.trim_start_matches(is_of_name),
                None => rest.get(1..).unwrap_or_default(),
            };
            // What stands behind a name in brackets is no part of one.
            let after = rest.strip_prefix([')', '}']).unwrap_or(rest).chars().next();
            let is_whole = rest.is_empty() || rest.starts_with([')', '}', ' ']);
            !is_whole || before.is_some_and(is_of_name) || after.is_some_and(is_of_name)
        })
    })
}
