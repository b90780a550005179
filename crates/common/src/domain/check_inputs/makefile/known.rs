//! What the makefile of the start has, and what it may make.

use super::items::{COMPILED, COPIED, LIBRARIES, SOURCES, StartFiles, is_source};
use super::makes::Makes;
use super::order::Order;
use std::collections::BTreeSet;

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
