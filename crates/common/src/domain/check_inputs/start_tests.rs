//! What the start has of tests: an added check input may stay where it replaces none of them.

use super::configuration::{language_of_configuration, recipe_of, runs_tests};
use super::language::{extension, language_of, name_of};
use super::line::{Named, Package, named, names_file, packages, starts};
use super::{InputKind, StartInputs, convention_of, ecosystem_of};
use crate::domain::manifest::{Kind, Manifest};
use std::collections::BTreeSet;

/// Files in test folders that are no tests themselves.
const NO_TESTS: &[&str] = &["__init__.py", "conftest.py", ".gitkeep", ".keep", ".gitignore"];
/// Languages whose tests usually stand inside the sources.
const INSIDE: &[&str] = &["rust", "zig"];

/// Languages whose test files are programs of their own, so that those of one package change nothing for others.
const APART: &[&str] = &["c", "go", "javascript", "rust", "shell"];

/// What the start has of tests.
#[derive(Debug, Clone)]
pub struct StartTests {
    /// Tests by convention, sorted.
    tests: BTreeSet<String>,
    /// The languages of these.
    languages: BTreeSet<&'static str>,
    /// The languages of all files.
    sources: BTreeSet<&'static str>,
    has_doctests: bool,
    asks_doctests: bool,
    /// The root of the workspace, which lines may name.
    root: String,
}

impl StartTests {
    /// Reads them from the manifest of the start.
    pub fn of(inputs: &StartInputs<'_>, start: &Manifest) -> Self {
        let texts = inputs.texts();
        let mut found = Self {
            tests: BTreeSet::new(),
            languages: BTreeSet::new(),
            sources: BTreeSet::new(),
            has_doctests: texts.has_doctests,
            asks_doctests: texts.asks_doctests,
            root: inputs.root_text().into_owned(),
        };
        for entry in start.entries().iter().filter(|it| !it.ignored && it.kind != Kind::Folder) {
            let path = String::from_utf8_lossy(&entry.path);
            found.sources.extend(language_of(&path));
            let is_test = convention_of(&path) == Some(InputKind::Test);
            if is_test && !NO_TESTS.contains(&name_of(&path)) {
                found.languages.extend(language_of(&path));
                found.tests.insert(path.into_owned());
            }
        }
        found
    }

    /// Whether the start has tests that a manifest of this name decides.
    pub fn decides(&self, manifest: &str) -> bool {
        let language = match ecosystem_of(manifest) {
            Some("node") => "javascript",
            Some(ecosystem) => ecosystem,
            None => return false,
        };
        self.runs(language, "")
    }

    fn runs(&self, language: &str, line: &str) -> bool {
        let doctests = language == "python"
            && self.has_doctests
            && (self.asks_doctests || line.contains("doctest"));
        let inside = INSIDE.contains(&language) && self.sources.contains(language);
        self.languages.contains(language) || doctests || inside
    }

    fn has_below(&self, folder: &str) -> bool {
        let whole = format!("{folder}/");
        self.tests.range(whole.clone()..).next().is_some_and(|test| test.starts_with(&whole))
    }

    fn has_module(&self, path: &str) -> bool {
        self.tests.contains(&format!("{path}.py"))
    }

    /// Whether an added check input replaces nothing of the start, for the check that this line runs.
    pub(super) fn is_new(
        &self,
        line: &str,
        (path, kind): (&str, InputKind),
        (inputs, start): (&StartInputs<'_>, &Manifest),
    ) -> bool {
        let asked = || inputs.asked(line).iter().map(String::as_str).chain([line]);
        // What runners find by themselves is not asked for by a recipe of the run that names it.
        let is_found = kind == InputKind::Configuration || NO_TESTS.contains(&name_of(path));
        let is_named = || {
            names_file(line, &self.root, path)
                || !is_found && asked().any(|line| names_file(line, &self.root, path))
        };
        match kind {
            InputKind::Shadow | InputKind::Protected | InputKind::Git => false,
            InputKind::Script => true,
            InputKind::Test | InputKind::Configuration if is_named() => true,
            InputKind::Test => {
                let is_first = match language_of(path) {
                    Some("python") => !self.runs("python", line),
                    Some(language) => !self.languages.contains(language),
                    None if is_snapshot(path) => self.tests.is_empty(),
                    None => self.tests.is_empty() || !self.has_below(test_folder(path)),
                };
                let is_empty = |it: &Named| match it {
                    Named::File => !is_found,
                    // Python takes a package before the module of that name.
                    Named::Below(folder) => !self.has_below(folder) && !self.has_module(folder),
                };
                let is_of_new_package = || {
                    let package = test_folder(path).rsplit_once('/').map(|(package, _)| package);
                    language_of(path).is_some_and(|language| APART.contains(&language))
                        && package.is_some_and(|package| !exists(start, package))
                };
                is_first
                    || is_of_new_package()
                    || asked().any(|line| named(line, &self.root, path).iter().any(is_empty))
                    || packages(line, &self.root).iter().any(|it| self.is_first_of(it, path, start))
            }
            InputKind::Configuration => self.is_new_configuration(line, path, start),
        }
    }

    /// Whether a file is in a package that a line names and that has no test yet.
    fn is_first_of(&self, package: &Package, path: &str, start: &Manifest) -> bool {
        let folder = match package {
            Package::Folder(folder) => Some(folder.clone()),
            Package::Name(name) => folder_of_crate(name, start),
        };
        folder.is_some_and(|folder| {
            let rest = path.strip_prefix(&folder);
            rest.is_some_and(|rest| rest.starts_with('/')) && !self.has_below(&folder)
        })
    }

    fn is_new_configuration(&self, line: &str, path: &str, start: &Manifest) -> bool {
        if path.ends_with(".mk") {
            // What the first recipe includes.
            let is_recipe = |name: &str| ["makefile", "gnumakefile"].contains(&name);
            let has_one = start.entries().iter().any(|entry| {
                is_recipe(&name_of(&String::from_utf8_lossy(&entry.path)).to_ascii_lowercase())
            });
            return starts(line, &["make", "gmake"]) && !has_one;
        }
        if let Some((programs, recipes)) = recipe_of(path) {
            return starts(line, programs) && !has_recipe(start, path, recipes);
        }
        let is_first = || {
            let language = language_of_configuration(path);
            language.is_some_and(|language| !self.runs(language, line))
        };
        // All that the line runs is new with it.
        let is_inside = |it: &Named| match it {
            Named::File => true,
            Named::Below(folder) => !exists(start, folder),
        };
        let is_of_new = || {
            let runs_old = self.tests.iter().any(|test| !named(line, &self.root, test).is_empty());
            !runs_old && named(line, &self.root, path).iter().any(is_inside)
        };
        runs_tests(path) && (is_first() || is_of_new())
    }
}

/// Whether an added file is data like that beside it at the start, which tests read for each file of a product: with
/// such a file that is added too it decides nothing about the others.
pub(super) fn is_counterpart(path: &str, start: &Manifest) -> bool {
    let Some(own) = extension(name_of(path)) else { return false };
    let Some((folder, _)) = path.rsplit_once('/') else { return false };
    let is_beside = |other: &str| {
        let (above, name) = other.rsplit_once('/').unwrap_or(("", other));
        above == folder && extension(name) == Some(own)
    };
    language_of(path).is_none()
        && !is_snapshot(path)
        && start
            .beginning(format!("{folder}/").as_bytes())
            .iter()
            .any(|entry| is_beside(&String::from_utf8_lossy(&entry.path)))
}

/// Whether a file in a folder of tests is no test and decides about the tests beside it.
pub fn is_setting_of_tests(path: &str) -> bool {
    NO_TESTS.contains(&name_of(path))
}

/// The name of a file up to its first dot.
pub(super) fn stem(path: &str) -> String {
    let name = name_of(path);
    name.split_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

/// Whether a file holds what a test gave before.
fn is_snapshot(path: &str) -> bool {
    matches!(extension(name_of(path)), Some("snap" | "golden"))
}

/// The outermost folder of tests that a file lies in.
fn test_folder(path: &str) -> &str {
    let ends = path.match_indices('/').map(|(end, _)| end);
    let folders = ends.filter_map(|end| path.get(..end));
    let mut of_tests =
        folders.filter(|folder| convention_of(&format!("{folder}/x")) == Some(InputKind::Test));
    of_tests.next().unwrap_or(path)
}

/// The folder of a package of cargo: the one with its name, else the only one whose name its own ends with.
fn folder_of_crate(name: &str, start: &Manifest) -> Option<String> {
    let name = name.replace('_', "-");
    let mut ending = Vec::new();
    for entry in start.entries() {
        let path = String::from_utf8_lossy(&entry.path);
        let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
        let last = name_of(folder).replace('_', "-");
        if last == name {
            return Some(folder.to_owned());
        }
        let rest = name.strip_suffix(&last);
        ending.extend(rest.is_some_and(|rest| rest.ends_with('-')).then(|| folder.to_owned()));
    }
    let only = ending.len() == 1;
    ending.pop().filter(|_| only)
}

fn exists(start: &Manifest, folder: &str) -> bool {
    let whole = format!("{folder}/");
    !start.beginning(whole.as_bytes()).is_empty()
}

/// Whether the start has a recipe of the same program in the same folder.
fn has_recipe(start: &Manifest, path: &str, recipes: &[&str]) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    start.beginning(whole.as_bytes()).iter().any(|entry| {
        let path = String::from_utf8_lossy(&entry.path);
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        above == folder && recipes.contains(&name.to_ascii_lowercase().as_str())
    })
}
