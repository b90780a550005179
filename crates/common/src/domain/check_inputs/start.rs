//! The check inputs of one run: the rules, applied to the workspace of its start.

use super::fixtures::is_expected;
use super::helpers::{helper_sources, helps_by_name};
use super::ignored::may_be_named;
use super::language::language_of;
use super::line::{Role, Script, is_product, scripts, scripts_in};
use super::linked::{Linked, follow, linked_sources};
use super::packages::vendored;
use super::shadow::{
    compilers_own, is_before_source, is_inside_package, is_own_module, library_place,
    module_in_folder, module_in_place, python_place,
};
use super::texts::Texts;
use super::words::{MAKING, has_word, is_of_checks, is_of_ci};
use super::{Imports, InputKind, InputRules, Origin};
use crate::domain::manifest::{Change, Kind, Manifest};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Which paths are check inputs of a run.
#[derive(Debug, Clone)]
pub struct StartInputs<'s> {
    rules: &'s InputRules,
    imports: &'s Imports,
    start: &'s Manifest,
    root: &'s [u8],
    linked: Linked,
    /// What the recipes do now that a line asks for and that the start has not.
    asked: BTreeMap<String, Vec<String>>,
    /// Ignore files of now that name sources of the start.
    hiding: BTreeSet<Vec<u8>>,
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
        let linked = Linked::of(rules, imports, start, root);
        let (asked, hiding) = (BTreeMap::new(), BTreeSet::new());
        Self { rules, imports, start, root, linked, asked, hiding }
    }

    /// The same with the commands of recipes that lines ask for and that the start has not: what these name is asked
    /// for as well.
    #[must_use]
    pub fn asking(self, asked: BTreeMap<String, Vec<String>>) -> Self {
        Self { asked, ..self }
    }

    /// The same with ignore files of now that name sources which the start did not ignore: linters and searches pass over
    /// these, although git has them.
    #[must_use]
    pub fn hiding(self, hiding: BTreeSet<Vec<u8>>) -> Self {
        Self { hiding, ..self }
    }

    /// The commands of recipes that a line asks for and that the start has not.
    pub(super) fn asked(&self, line: &str) -> &[String] {
        self.asked.get(line).map(Vec::as_slice).unwrap_or_default()
    }

    /// The rules of the run's policy.
    pub const fn rules(&self) -> &'s InputRules {
        self.rules
    }

    /// The root of the workspace, as lines name it.
    pub(super) fn root_text(&self) -> Cow<'s, str> {
        String::from_utf8_lossy(self.root)
    }

    /// What the texts of the start say.
    pub(super) const fn texts(&self) -> &'s Texts {
        self.imports.texts()
    }

    /// Why a path is a check input of every check.
    pub fn kind_of(&self, path: &[u8]) -> Option<InputKind> {
        let linked = || self.linked.kind_of(path);
        let named = || self.texts().kind_of(&String::from_utf8_lossy(path));
        let beside = || {
            let path = String::from_utf8_lossy(path);
            let helps = || {
                let is_imported = self.imports.has(&path) && !self.imports.has_product(&path);
                is_imported && helps_by_name(&path)
            };
            let is_one = self.imports.is_fixture(&path) || self.imports.helps(&path) || helps();
            is_one.then_some(InputKind::Test)
        };
        let local = || {
            let is_one = self.imports.is_local(&String::from_utf8_lossy(path));
            is_one.then_some(InputKind::Configuration)
        };
        let hides = || self.hiding.contains(path).then_some(InputKind::Configuration);
        let found = || {
            let found = linked().or_else(named).or_else(beside).or_else(local).or_else(hides);
            found.filter(|_| !self.rules.may_change(path))
        };
        let kind = self.rules.kind_of(path);
        let is_namesake = || self.imports.is_namesake(&String::from_utf8_lossy(path));
        kind.filter(|kind| *kind != InputKind::Test || !is_namesake()).or_else(found)
    }

    /// Whether a path that is ignored is a check input all the same, where it was there at the start.
    pub fn keeps_ignored(&self, path: &[u8]) -> bool {
        let is_named = || {
            let text = String::from_utf8_lossy(path);
            let is_named = || self.texts().kind_of(&text) == Some(InputKind::Configuration);
            may_be_named(&text) && (is_named() || self.imports.is_local(&text))
        };
        self.rules.keeps_ignored(path) || !self.rules.may_change(path) && is_named()
    }

    /// Whether a change may be one of check inputs. Of what is ignored only files of the start are any, and what the
    /// policy protects: everything else steps made.
    pub fn counts(&self, change: &Change<'_>) -> bool {
        let was_there = change.before.is_some_and(|it| matches!(it.kind, Kind::File | Kind::Link));
        let path = change.path();
        !change.is_ignored()
            || self.rules.protects_ignored(path)
            || was_there && self.keeps_ignored(path)
    }

    /// Why a path of the start is a check input of every check that steps may not change.
    pub(super) fn kind_of_start(&self, path: &[u8]) -> Option<InputKind> {
        let is_own = || is_own_module(&String::from_utf8_lossy(path)) && !self.rules.names(path);
        self.kind_of(path).filter(|kind| *kind != InputKind::Shadow || !is_own())
    }

    /// Where the start took a package from that tests are written with; none for any other package.
    pub fn origin_of(&self, ecosystem: &str, package: &str) -> Option<Origin> {
        self.texts().packages().origin_of(ecosystem, package)
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
            let was_there = |path: &str| self.start.get(path.as_bytes()).is_some();
            let is_one = self.imports.has_module(module)
                && !is_inside_package(&text, was_there)
                && !self.rules.may_change(path);
            is_one.then_some(InputKind::Shadow)
        };
        let is_before = || {
            let was_there = |path: &str| self.start.get(path.as_bytes()).is_some();
            // Where a test makes use of it; a product may have such a name for itself.
            let is_own = || {
                let own = compilers_own(&text, was_there, |package| self.has_tests_in(package));
                own.is_some_and(|name| self.imports.has_module(name))
            };
            let is_one = is_before_source(&text, was_there) || is_own();
            (is_one && !self.rules.may_change(path)).then_some(InputKind::Shadow)
        };
        // Before the kind: an added test may stay, and this one is none that anything names.
        let kind = is_before().or_else(|| self.kind_of(path));
        let kind = kind.or_else(takes_place).or_else(|| self.kind_of_module(&text));
        kind.or_else(|| self.kind_of_library(&text))
    }

    /// Whether the start has tests of Java and its like in a folder of this name.
    fn has_tests_in(&self, package: &str) -> bool {
        self.start.entries().iter().any(|entry| {
            let path = String::from_utf8_lossy(&entry.path);
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            folder.rsplit('/').next() == Some(package)
                && language_of(&path) == Some("jvm")
                && self.rules.kind_of(&entry.path) == Some(InputKind::Test)
        })
    }

    /// Whether a path that the run added takes the place of a standard module in one of these folders, from which
    /// Python starts.
    pub(super) fn is_module_in(&self, path: &str, folders: &BTreeSet<String>) -> bool {
        let is_one = |folder: &String| {
            module_in_folder(path, folder)
                .is_some_and(|(module, is_common)| !is_common || self.imports.has_module(module))
        };
        folders.iter().any(is_one) && !self.rules.may_change(path.as_bytes())
    }

    /// A file of the run takes the place of a library of tests, where the start has nothing in that place.
    fn kind_of_library(&self, path: &str) -> Option<InputKind> {
        let is_module = |module: &str| self.texts().packages().is_module(module);
        let place = python_place(path, is_module).or_else(|| library_place(path))?;
        let is_inside = |found: &[u8]| {
            let rest = found.strip_prefix(place.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"/") || rest.starts_with(b"."))
        };
        let was_there = self.start.entries().iter().any(|entry| is_inside(&entry.path));
        let is_one = !was_there && !self.rules.may_change(path.as_bytes());
        is_one.then_some(InputKind::Shadow)
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

    /// Whether a check input of the start decides by its text what this line says: no data that tests write for
    /// themselves. A folder does where a file in it does.
    pub fn decides(&self, line: &str, path: &[u8]) -> bool {
        let Some(entry) = self.start.get(path) else { return false };
        if entry.ignored && !self.keeps_ignored(path) {
            let text = String::from_utf8_lossy(path);
            return vendored(&text).iter().any(|(eco, name)| self.origin_of(eco, name).is_some());
        }
        if entry.kind == Kind::Folder {
            let whole = [path, b"/"].concat();
            let inside = self.start.entries().iter().filter(|it| it.path.starts_with(&whole));
            let mut files = inside.filter(|it| it.kind != Kind::Folder);
            return files.any(|file| self.decides(line, &file.path));
        }
        let text = String::from_utf8_lossy(path);
        let is_kind = |kind| match kind {
            InputKind::Test => language_of(&text).is_some() || is_expected(&text),
            InputKind::Configuration
            | InputKind::Shadow
            | InputKind::Script
            | InputKind::Protected => true,
            InputKind::Git => false,
        };
        self.kind_of(path).is_some_and(is_kind) || self.protected_scripts(line).contains(path)
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
        for script in of_recipes.chain(scripts_in(line, &self.root_text())) {
            let followed = follow(self.start, self.root, script.path.as_bytes());
            for path in followed.into_iter().flat_map(|it| it.links.into_iter().chain([it.target]))
            {
                let is_there = self.start.get(&path).is_some_and(|it| it.kind != Kind::Folder);
                let text = String::from_utf8_lossy(&path);
                let assumed = if script.is_product || is_product(&text) {
                    Assumed::Product
                } else if script.role != Role::Configuration
                    && [&*script.path, &*text].into_iter().any(|path| self.is_imported(path))
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
        for path in self.texts().helpers(line).filter(|path| !self.imports.has_product(path)) {
            let script = Script { path: path.clone(), is_product: false, role: Role::Script };
            let entry = found.entry(path.as_bytes().to_vec());
            // That the scripts of the line import it does not make it the product.
            let (_, assumed) = entry.or_insert((script, Assumed::Protected));
            if *assumed == Assumed::ImportedProduct {
                *assumed = Assumed::Protected;
            }
        }
        found
    }

    /// Whether a file is imported, by more than check inputs where it lies beside the scripts of continuous integration.
    fn is_imported(&self, path: &str) -> bool {
        self.imports.has_product(path) || self.imports.has(path) && !is_of_ci(path)
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

/// The scripts that a command of a recipe starts and that are a part of the check by their names. What lies beside
/// the recipe and has any other name may be the product.
pub fn scripts_of_recipe(folder: &str, command: &str) -> Vec<String> {
    let is_part =
        |script: &Script| script.role == Role::Configuration || is_of_checks(&script.path);
    let scripts = scripts(command).into_iter().filter(|script| !script.is_product);
    scripts.filter(is_part).map(|script| whole(folder, script)).collect()
}

/// The scripts that a command of a recipe starts, whose names say neither that they check nor that they make
/// something: they are a part of the check where they start tests.
pub fn other_scripts_of_recipe(folder: &str, command: &str) -> Vec<String> {
    let is_other = |script: &Script| {
        script.role != Role::Configuration
            && !is_of_checks(&script.path)
            && !has_word(&script.path, MAKING)
    };
    let scripts = scripts(command).into_iter().filter(|script| !script.is_product);
    scripts.filter(is_other).map(|script| whole(folder, script)).collect()
}

fn whole(folder: &str, script: Script) -> String {
    match folder.trim_end_matches('/') {
        "" => script.path,
        folder => format!("{folder}/{}", script.path),
    }
}

/// The files whose importers decide whether they are products: scripts of these lines and of their recipes, sources that
/// links of check inputs lead to, and those whose names say that they help tests.
pub fn imports_wanted(
    rules: &InputRules,
    start: &Manifest,
    root: &[u8],
    lines: &[&str],
    recipes: &[String],
) -> BTreeSet<String> {
    let root_text = String::from_utf8_lossy(root);
    let scripts = lines.iter().flat_map(|line| scripts_in(line, &root_text));
    let scripts = scripts.filter(|script| !script.is_product);
    let mut wanted: BTreeSet<String> = scripts.map(|script| script.path).collect();
    wanted.extend(recipes.iter().cloned());
    wanted.extend(linked_sources(rules, start, root));
    wanted.extend(helper_sources(rules, start));
    wanted.retain(|path| start.get(path.as_bytes()).is_some_and(|it| it.kind != Kind::Folder));
    wanted
}
