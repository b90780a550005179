//! What the texts of the start say about check inputs, besides what they import: modules that are built for tests
//! alone, documents whose examples are tests, files that a runner's configuration names, and the scripts that
//! recipes start.

use super::configuration::{is_of_folder, language_of_configuration};
use super::keys::is_lock;
use super::language::{language_of, name_of};
use super::line::is_product;
use super::named_path::named_path;
use super::packages::Packages;
use super::tsconfig::is_tsconfig;
use super::{InputKind, convention_of, is_merged};
use std::collections::{BTreeMap, BTreeSet};

/// Words of a configuration behind which stands a file that belongs to it.
const NAMING: &[&str] = &[
    "environment",
    "extend",
    "from",
    "import",
    "inherit",
    "plugin",
    "preset",
    "reporter",
    "require",
    "runner",
    "setup",
    "teardown",
    "transform",
];
/// Extensions that such a name may leave out.
const EXTENSIONS: &[&str] = &["", ".json", ".js", ".cjs", ".mjs", ".ts", ".yml", ".yaml"];

/// What the texts of the start say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Texts {
    /// Whether Python sources have examples, and whether a configuration asks to run such.
    pub(super) has_doctests: bool,
    pub(super) asks_doctests: bool,
    /// Places of Rust modules and targets that are built for tests alone.
    modules: BTreeSet<String>,
    /// Documents whose examples Rust runs.
    documents: BTreeSet<String>,
    /// Files that a configuration names.
    configurations: BTreeSet<String>,
    /// The scripts that the recipes of a line start.
    recipes: BTreeMap<String, BTreeSet<String>>,
    /// What the scripts of a line import that helps them to check.
    helpers: BTreeMap<String, BTreeSet<String>>,
    /// The targets of make that a line visits.
    targets: BTreeMap<String, BTreeSet<String>>,
    /// Those without a rule, which make makes where it finds a source of their name.
    sought: BTreeMap<String, BTreeSet<String>>,
    /// Lines of which each command asks for a recipe that the start has not.
    lacking: BTreeSet<String>,
    /// The line of the project's own test command.
    project_tests: Option<String>,
    /// The packages that tests are written with.
    packages: Packages,
}

impl Texts {
    /// Whether the text of a file can say anything.
    pub(super) fn reads(path: &str) -> bool {
        matches!(language_of(path), Some("python" | "rust"))
            || is_configuration(path)
            || Packages::reads(path)
    }

    /// Adds what one file says.
    pub(super) fn add(&mut self, path: &str, text: &str) {
        match language_of(path) {
            Some("python") => self.has_doctests |= text.contains(">>>"),
            Some("rust") => {
                self.modules.extend(test_modules(path, text));
                self.documents.extend(documents(path, text));
            }
            Some(_) | None => {}
        }
        if name_of(path) == "Cargo.toml" {
            self.modules.extend(test_targets(path, text));
        }
        self.packages.add(path, text);
        if is_configuration(path) {
            self.asks_doctests |= text.contains("doctest") && name_of(path) != "Cargo.toml";
            self.configurations.extend(named_files(path, text));
            self.configurations.extend(included(path, text));
        }
    }

    /// Adds a script that a recipe of a line starts.
    pub(super) fn add_recipe(&mut self, line: &str, script: String) {
        self.recipes.entry(line.to_owned()).or_default().insert(script);
    }

    /// Adds a file that a script of a line imports and that helps it to check.
    pub(super) fn add_helper(&mut self, line: &str, file: String) {
        self.helpers.entry(line.to_owned()).or_default().insert(file);
    }

    /// What the scripts of a line import that helps them to check.
    pub(super) fn helpers(&self, line: &str) -> impl Iterator<Item = &String> {
        self.helpers.get(line).into_iter().flatten()
    }

    /// Adds a target of make that a line visits.
    pub(super) fn add_target(&mut self, line: &str, target: String) {
        self.targets.entry(line.to_owned()).or_default().insert(target);
    }

    /// Whether a path is a target of make that a line visits: make takes a file there for what it would make.
    pub(super) fn is_target(&self, line: &str, path: &str) -> bool {
        self.targets.get(line).is_some_and(|targets| targets.contains(path))
    }

    /// Adds a target without a rule that a line visits.
    pub(super) fn add_sought(&mut self, line: &str, target: String) {
        self.sought.entry(line.to_owned()).or_default().insert(target);
    }

    /// Whether a path is a target without a rule that a line visits.
    pub(super) fn is_sought(&self, line: &str, path: &str) -> bool {
        self.sought.get(line).is_some_and(|targets| targets.contains(path))
    }

    /// Adds a line that asks for nothing but recipes that the start has not.
    pub(super) fn add_lacking(&mut self, line: &str) {
        self.lacking.insert(line.to_owned());
    }

    /// Whether a line asks for nothing but recipes that the start has not.
    pub(super) fn is_lacking(&self, line: &str) -> bool {
        self.lacking.contains(line)
    }

    /// The scripts that the recipes of a line start.
    pub(super) fn recipe_scripts(&self, line: &str) -> impl Iterator<Item = &String> {
        self.recipes.get(line).into_iter().flatten()
    }

    /// Whether Rust runs the examples of a document.
    pub(super) fn is_document(&self, path: &str) -> bool {
        self.documents.contains(path)
    }

    /// Sets the line of the project's own test command.
    pub(super) fn set_project_tests(&mut self, line: &str) {
        self.project_tests = Some(line.to_owned());
    }

    /// The line of the project's own test command; none where no file names one.
    pub(super) fn project_tests(&self) -> Option<&str> {
        self.project_tests.as_deref()
    }

    /// The packages that tests are written with.
    pub(super) const fn packages(&self) -> &Packages {
        &self.packages
    }

    /// Why a path is a check input.
    pub(super) fn kind_of(&self, path: &str) -> Option<InputKind> {
        if self.configurations.contains(path) && !is_product(path) && !is_merged(path) {
            return Some(InputKind::Configuration);
        }
        if self.packages.holds(path) {
            return Some(InputKind::Test);
        }
        if self.modules.is_empty() || language_of(path) != Some("rust") {
            return None;
        }
        let is_inside = |module: &String| {
            let folder = module.strip_suffix("/mod.rs").or_else(|| module.strip_suffix(".rs"));
            let rest = folder.and_then(|folder| path.strip_prefix(folder));
            module == path || rest.is_some_and(|rest| rest.starts_with('/'))
        };
        self.modules.iter().any(is_inside).then_some(InputKind::Test)
    }

    /// The parts of the stored form: a kind and a name each.
    pub(super) fn encode(&self) -> Vec<(&'static str, String)> {
        let flag = |kind: &'static str, is: bool| is.then(|| (kind, String::new()));
        let flags = [flag("D", self.has_doctests), flag("A", self.asks_doctests)];
        let sets = [
            ("x", &self.modules),
            ("d", &self.documents),
            ("c", &self.configurations),
            ("N", &self.lacking),
        ];
        let names = sets
            .into_iter()
            .flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.clone())));
        let of_lines =
            [("s", &self.recipes), ("h", &self.helpers), ("K", &self.targets), ("O", &self.sought)];
        let of_lines = of_lines.into_iter().flat_map(|(kind, lines)| {
            lines.iter().flat_map(move |(line, names)| {
                names.iter().map(move |name| (kind, format!("{line}\u{1}{name}")))
            })
        });
        flags
            .into_iter()
            .flatten()
            .chain(names)
            .chain(of_lines)
            .chain(self.project_tests.iter().map(|line| ("t", line.clone())))
            .chain(self.packages.encode())
            .collect()
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "D" => self.has_doctests = true,
            "A" => self.asks_doctests = true,
            "x" => drop(self.modules.insert(name.to_owned())),
            "d" => drop(self.documents.insert(name.to_owned())),
            "c" => drop(self.configurations.insert(name.to_owned())),
            "t" => self.set_project_tests(name),
            "N" => self.add_lacking(name),
            "s" | "h" | "K" | "O" => {
                let Some((line, name)) = name.split_once('\u{1}') else { return true };
                match kind {
                    "s" => self.add_recipe(line, name.to_owned()),
                    "h" => self.add_helper(line, name.to_owned()),
                    "K" => self.add_target(line, name.to_owned()),
                    _ => self.add_sought(line, name.to_owned()),
                }
            }
            _ => return self.packages.decode(kind, name),
        }
        true
    }
}

fn is_configuration(path: &str) -> bool {
    let is_one =
        convention_of(path) == Some(InputKind::Configuration) || is_merged(path) && !is_lock(path);
    is_one && !is_of_folder(path)
}

/// Where the modules lie that a Rust file declares for tests alone.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("mod ") {
        let rest = text.get(at + 4..).unwrap_or_default();
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let Some((name, behind)) = end.and_then(|end| rest.split_at_checked(end)) else { continue };
        if name.is_empty() || !behind.trim_start().starts_with(';') {
            continue;
        }
        let before = text.get(..at).unwrap_or_default();
        let from = before.rfind([';', '{', '}']).map_or(0, |end| end + 1);
        let marks: String = before.get(from..).unwrap_or_default().split_whitespace().collect();
        let is_for_tests = marks.contains("#[cfg(test)]")
            || marks.contains("#[cfg(all(")
                && marks.contains("test")
                && !marks.contains("not(test");
        if !is_for_tests {
            continue;
        }
        if let Some((_, named)) = marks.split_once("path=\"") {
            let named = named.split('"').next().unwrap_or_default();
            found.extend(named_path(path, named));
            continue;
        }
        let (stem, _) = name_of(path).rsplit_once('.').unwrap_or((name_of(path), ""));
        let mut folders = vec![String::new()];
        if !matches!(stem, "lib" | "main" | "mod") {
            folders = vec![format!("{stem}/")];
            // The root of a program or of a test.
            let is_root = ["bin/", "tests/", "examples/", "benches/"].iter().any(|folder| {
                path.rsplit_once('/')
                    .is_some_and(|(above, _)| format!("{above}/").ends_with(folder))
            });
            folders.extend(is_root.then(String::new));
        }
        for folder in folders {
            found.extend(named_path(path, &format!("{folder}{name}.rs")));
            found.extend(named_path(path, &format!("{folder}{name}/mod.rs")));
        }
    }
    found
}

/// The sources of a manifest's targets of tests that lie in no folder of products.
fn test_targets(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_inside = line.starts_with("[[test]]");
        }
        let value = line.strip_prefix("path").map(str::trim_start);
        let value = value.and_then(|rest| rest.strip_prefix('=')).filter(|_| is_inside);
        let named =
            value.and_then(|value| value.trim().trim_matches(['"', '\'']).split('"').next());
        found.extend(named.and_then(|named| named_path(path, named)).filter(|it| !is_product(it)));
    }
    found
}

/// The documents that a Rust file has as documentation.
fn documents(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("doc") && line.contains("include_str!"));
    let named = lines.filter_map(|line| line.split_once("include_str!")?.1.split('"').nth(1));
    named.filter_map(|named| named_path(path, named)).collect()
}

/// The files that a recipe of make includes by their names.
fn included(path: &str, text: &str) -> Vec<String> {
    let lower = name_of(path).to_ascii_lowercase();
    if !lower.starts_with("makefile") && lower != "gnumakefile" && !lower.ends_with(".mk") {
        return Vec::new();
    }
    let lines = text.lines().filter_map(|line| {
        let (word, names) = line.split_once([' ', '\t'])?;
        matches!(word, "include" | "-include" | "sinclude").then_some(names)
    });
    let names = lines.filter_map(|names| names.split('#').next()).flat_map(str::split_whitespace);
    names
        .filter(|name| !name.contains(['$', '*', '%']))
        .filter_map(|it| named_path(path, it))
        .collect()
}

/// The files that a configuration names by a relative path, behind a word that says what they are for. Recipes, manifests
/// and programs name products too.
fn named_files(path: &str, text: &str) -> Vec<String> {
    let language = language_of_configuration(path);
    let is_program = matches!(language_of(path), Some("python" | "ruby"));
    let is_one = is_tsconfig(name_of(path)) || language.is_some() && !is_merged(path);
    if !is_one || is_program {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut in_list = false;
    let only = is_tsconfig(name_of(path)).then_some("extend");
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        let names = |word: &&str| lower.contains(*word) && only.is_none_or(|only| only == *word);
        if !in_list && !NAMING.iter().any(names) {
            continue;
        }
        in_list = (in_list || line.contains('[')) && !line.contains(']');
        let quoted = line.split(['"', '\'', '`']).skip(1).step_by(2);
        let bare =
            line.split_once([':', '=']).map(|(_, value)| value.trim().trim_start_matches("- "));
        let listed = line.trim().strip_prefix("- ");
        for named in quoted.chain(bare).chain(listed) {
            let named = named.strip_prefix("<rootDir>/").unwrap_or(named).trim();
            let is_path = !named.is_empty()
                && !named.contains([' ', '*', '"', '\'', '$', '('])
                && (named.starts_with('.') || named.contains('/') || named.contains('.'));
            let Some(whole) = is_path.then(|| named_path(path, named)).flatten() else { continue };
            found.extend(EXTENSIONS.iter().map(|end| format!("{whole}{end}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(files: &[(&str, &str)]) -> Texts {
        let mut texts = Texts::default();
        for (path, text) in files {
            assert!(Texts::reads(path), "{path}");
            texts.add(path, text);
        }
        texts.add_recipe("make test", "scripts/a.sh".to_owned());
        texts.add_target("make test", "test".to_owned());
        texts.add_sought("make test", "run".to_owned());
        texts.add_lacking("make new");
        texts.set_project_tests("npm test");
        let mut again = Texts::default();
        for (kind, name) in texts.encode() {
            assert!(again.decode(kind, &name));
        }
        assert_eq!(again, texts);
        texts
    }

    #[test]
    fn modules_that_are_built_for_tests_alone_are_tests() {
        let lib = "mod product;\n#[cfg(test)]\n#[allow(x)]\npub(crate) mod support;\n#[cfg(all(test, unix))] mod unix;\n\
                   #[cfg(not(test))] mod real;\n#[cfg(test)]\n#[path = \"other/x.rs\"]\nmod far;\n#[cfg(test)] mod inline { }\nmod last;\n";
        let texts = said(&[("src/lib.rs", lib), ("src/deep.rs", "#[cfg(test)] mod help;")]);
        for (path, expected) in [
            ("src/support.rs", true),
            ("src/support/mod.rs", true),
            ("src/support/deep/a.rs", true),
            ("src/unix.rs", true),
            ("src/other/x.rs", true),
            ("src/deep/help.rs", true),
            ("src/help.rs", false),
            ("src/product.rs", false),
            ("src/real.rs", false),
            ("src/inline.rs", false),
            ("src/last.rs", false),
        ] {
            assert_eq!(texts.kind_of(path).is_some(), expected, "{path}");
        }
    }

    #[test]
    fn files_that_configurations_and_documentation_name_are_found() {
        let texts = said(&[
            (
                "src/lib.rs",
                "#![doc = include_str!(\"../README.md\")]\nconst X: &str = include_str!(\"x.md\");\n",
            ),
            (
                "tsconfig.json",
                "{\n  \"extends\": \"./config/base.json\",\n  \"include\": [\"./tool.ts\"]\n}\n",
            ),
            (
                "web/jest.config.js",
                "module.exports = {\n  setupFiles: [\n    '<rootDir>/init/a.js',\n  ],\n  roots: ['./calc.js'],\n};\n",
            ),
            (".rubocop.yml", "inherit_from: config/style.yml\n"),
            (
                "vitest.config.ts",
                "export default { test: { globalSetup: './start' } }\nimport x from './src/x.js'\n",
            ),
            ("package.json", "{\"exports\": {\n\"import\": \"./calc.mjs\"}}\n"),
            ("Makefile", "-include local.env $(DEPS)\nsetup: made.py\n"),
            ("mypy.ini", "[mypy]\nplugins = ./plugin.py\n"),
            ("pytest.ini", "addopts = --doctest-modules\n"),
            ("a.py", "def a():\n    \"\"\">>> a()\"\"\"\n"),
        ]);
        assert!(texts.is_document("README.md") && !texts.is_document("src/x.md"));
        assert!(texts.has_doctests && texts.asks_doctests);
        for (path, expected) in [
            ("config/base.json", true),
            ("web/init/a.js", true),
            ("config/style.yml", true),
            ("start.ts", true),
            ("plugin.py", true),
            ("local.env", true),
            ("calc.mjs", false),
            ("made.py", false),
            ("web/calc.js", false),
            ("tool.ts", false),
            ("src/x.js", false),
        ] {
            assert_eq!(texts.kind_of(path).is_some(), expected, "{path}");
        }
        let recipes: Vec<_> = texts.recipe_scripts("make test").collect();
        assert_eq!(recipes, ["scripts/a.sh"]);
        assert!(texts.is_target("make test", "test") && !texts.is_target("make", "test"));
        assert!(texts.is_sought("make test", "run") && !texts.is_sought("make", "run"));
        assert!(texts.is_lacking("make new") && !texts.is_lacking("make test"));
    }
}
