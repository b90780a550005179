//! The check inputs of one run: the rules, applied to the workspace of its start.

use super::line::{Role, Script, is_product, scripts};
use super::linked::{Linked, follow, linked_sources};
use super::shadow::module_in_place;
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

    /// Why a path is a check input of every check.
    pub fn kind_of(&self, path: &[u8]) -> Option<InputKind> {
        let linked = || self.linked.kind_of(path).filter(|_| !self.rules.may_change(path));
        self.rules.kind_of(path).or_else(linked)
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
        self.kind_of(path).or_else(takes_place)
    }

    /// The scripts of a line that are there at the start, with what is assumed of each. A link stands for what it
    /// leads to as well.
    pub fn scripts(&self, line: &str) -> BTreeMap<Vec<u8>, (Script, Assumed)> {
        let mut found = BTreeMap::new();
        for script in scripts(line) {
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

/// The files whose importers decide whether they are products: scripts of these lines, and sources that links
/// of check inputs lead to.
pub fn imports_wanted(
    rules: &InputRules,
    start: &Manifest,
    root: &[u8],
    lines: &[&str],
) -> BTreeSet<String> {
    let scripts = lines.iter().flat_map(|line| scripts(line)).filter(|script| !script.is_product);
    let mut wanted: BTreeSet<String> = scripts.map(|script| script.path).collect();
    wanted.extend(linked_sources(rules, start, root));
    wanted.retain(|path| start.get(path.as_bytes()).is_some_and(|it| it.kind != Kind::Folder));
    wanted
}
