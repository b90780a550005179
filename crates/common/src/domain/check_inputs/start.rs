//! The check inputs of one run: the rules, applied to the workspace of its start.

use super::line::{Role, Script, is_product, scripts};
use super::linked::{Linked, follow, linked_sources};
use super::shadow::module_in_place;
use super::texts::Texts;
use super::{Imports, InputKind, InputRules};
use crate::domain::manifest::{Kind, Manifest};
use std::collections::{BTreeMap, BTreeSet};

/// Which paths are check inputs of a run.
#[derive(Debug, Clone)]
pub struct StartInputs<'s> {
    rules: &'s InputRules,
    imports: &'s Imports,
    start: &'s Manifest,
    root: &'s [u8],
    linked: Linked,
}

/// A script of a line that is there at the start, and what is assumed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumed {
    /// It is what the check is about, by its folder or its name.
    Product,
    /// It is what the check is about, because another file imports it.
    ImportedProduct,
    /// It is a part of the check: runs have it as it was at the start.
    Protected,
}

impl<'s> StartInputs<'s> {
    /// The check inputs of a workspace with this root.
    pub fn new(
        rules: &'s InputRules,
        imports: &'s Imports,
        start: &'s Manifest,
        root: &'s [u8],
    ) -> Self {
        Self { rules, imports, start, root, linked: Linked::of(rules, imports, start, root) }
    }

    /// The rules of the run's policy.
    pub const fn rules(&self) -> &'s InputRules {
        self.rules
    }

    /// What the texts of the start say.
    pub(super) const fn texts(&self) -> &'s Texts {
        self.imports.texts()
    }

    /// Why a path is a check input of every check.
    pub fn kind_of(&self, path: &[u8]) -> Option<InputKind> {
        let linked = || self.linked.kind_of(path);
        let told = || self.texts().kind_of(&String::from_utf8_lossy(path));
        let found = || linked().or_else(told).filter(|_| !self.rules.may_change(path));
        self.rules.kind_of(path).or_else(found)
    }

    /// Whether a path is a document whose examples are tests.
    pub fn is_document(&self, path: &[u8]) -> bool {
        let is_one = self.texts().is_document(&String::from_utf8_lossy(path));
        is_one && !self.rules.may_change(path) && self.rules.kind_of(path).is_none()
    }

    /// Why a path that the run added is a check input: its name may take the place of a module that a source of
    /// the start imports.
    pub(super) fn kind_of_added(&self, path: &[u8]) -> Option<InputKind> {
        let text = String::from_utf8_lossy(path);
        let takes_place = || {
            let module = module_in_place(&text)?;
            let is_one = self.imports.has_module(module) && !self.rules.may_change(path);
            is_one.then_some(InputKind::Shadow)
        };
        self.kind_of(path).or_else(takes_place).or_else(|| self.kind_of_module(&text))
    }

    /// A `go.mod` inside a module takes a folder with its tests out of that module.
    fn kind_of_module(&self, path: &str) -> Option<InputKind> {
        let folder = path.strip_suffix("/go.mod")?;
        let mut above = folder.match_indices('/').filter_map(|(end, _)| folder.get(..end));
        let was_there = |path: &str| self.start.get(path.as_bytes()).is_some();
        let is_inside =
            was_there("go.mod") || above.any(|above| was_there(&format!("{above}/go.mod")));
        let whole = format!("{folder}/");
        let is_test =
            |path: &[u8]| path.starts_with(whole.as_bytes()) && path.ends_with(b"_test.go");
        let has_tests = || self.start.entries().iter().any(|entry| is_test(&entry.path));
        let is_one = is_inside && has_tests() && !self.rules.may_change(path.as_bytes());
        is_one.then_some(InputKind::Configuration)
    }

    /// The scripts of a line that are there at the start, with what is assumed of each. A link stands for what it
    /// leads to as well.
    pub fn scripts(&self, line: &str) -> BTreeMap<Vec<u8>, (Script, Assumed)> {
        let mut found = BTreeMap::new();
        let of_recipes = self.texts().recipe_scripts(line).map(|path| Script {
            path: path.clone(),
            is_product: is_product(path),
            role: Role::Script,
        });
        for script in of_recipes.chain(scripts(line)) {
            let followed = follow(self.start, self.root, script.path.as_bytes());
            for path in followed.into_iter().flat_map(|it| it.links.into_iter().chain([it.target]))
            {
                let is_there = self.start.get(&path).is_some_and(|it| it.kind != Kind::Folder);
                let text = String::from_utf8_lossy(&path);
                let assumed = if script.is_product || is_product(&text) {
                    Assumed::Product
                } else if script.role != Role::Configuration
                    && (self.imports.has(&script.path) || self.imports.has(&text))
                {
                    Assumed::ImportedProduct
                } else {
                    Assumed::Protected
                };
                if is_there {
                    found.insert(path, (script.clone(), assumed));
                }
            }
        }
        found
    }

    /// The paths that a view of this line has as they were at the start, because the line starts them.
    pub(super) fn protected_scripts(&self, line: &str) -> BTreeSet<Vec<u8>> {
        let is_one = |path: &Vec<u8>, assumed: Assumed| {
            assumed == Assumed::Protected && !self.rules.may_change(path)
        };
        let scripts = self.scripts(line).into_iter();
        scripts.filter(|(path, (_, it))| is_one(path, *it)).map(|(path, _)| path).collect()
    }
}

/// Words in the names of scripts that check, and folders of scripts.
const CHECKING: &[&str] = &[
    "assert", "audit", "check", "compare", "e2e", "lint", "qa", "regress", "smoke", "spec",
    "suite", "test", "valid", "verify",
];
const SCRIPT_FOLDERS: &[&str] = &["ci", ".ci", "hack", "script", "scripts", "tool", "tools"];
/// Words in the names of scripts that make something: such a script may be what a run is about.
const MAKING: &[&str] = &[
    "build", "bundle", "compile", "deploy", "fmt", "format", "gen", "install", "make", "migrat",
    "prepare", "release", "seed", "serve", "setup", "start",
];

/// The scripts that a command of a recipe starts and that are a part of the check by their names. What lies beside
/// the recipe and has any other name may be the product.
pub fn scripts_of_recipe(folder: &str, command: &str) -> Vec<String> {
    let is_part = |script: &Script| {
        let (above, name) = script.path.rsplit_once('/').unwrap_or(("", &script.path));
        let stem = name.split_once('.').map_or(name, |(stem, _)| stem).to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| stem.contains(word));
        let in_folder = above.split('/').any(|folder| SCRIPT_FOLDERS.contains(&folder));
        let is_configuration = script.role == Role::Configuration;
        !script.is_product
            && (is_configuration || has(CHECKING) || stem == "ci" || in_folder && !has(MAKING))
    };
    let whole = |script: Script| match folder.trim_end_matches('/') {
        "" => script.path,
        folder => format!("{folder}/{}", script.path),
    };
    scripts(command).into_iter().filter(is_part).map(whole).collect()
}

/// The files whose importers decide whether they are products: scripts of these lines and of their recipes, and sources that links
/// of check inputs lead to.
pub fn imports_wanted(
    rules: &InputRules,
    start: &Manifest,
    root: &[u8],
    lines: &[&str],
    recipes: &[String],
) -> BTreeSet<String> {
    let scripts = lines.iter().flat_map(|line| scripts(line)).filter(|script| !script.is_product);
    let mut wanted: BTreeSet<String> = scripts.map(|script| script.path).collect();
    wanted.extend(recipes.iter().cloned());
    wanted.extend(linked_sources(rules, start, root));
    wanted.retain(|path| start.get(path.as_bytes()).is_some_and(|it| it.kind != Kind::Folder));
    wanted
}
