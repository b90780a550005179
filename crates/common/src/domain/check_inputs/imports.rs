//! What the sources of the start import: scripts of checks, which are then products, and standard modules, whose
//! place no added file may take.

use super::beside::Beside;
use super::fixtures::Fixtures;
use super::ignored::Local;
use super::language::{language_of, name_of};
use super::namesakes::Namesakes;
use super::perl::{files_of_perl, modules_of_perl};
use super::shadow::{compilers_own_in, is_standard_module};
use super::texts::Texts;
use super::{InputKind, convention_of};
use crate::domain::manifest::Manifest;
use crate::domain::path::Workspace;
use crate::domain::shell_line::as_source;
use memchr::memchr3_iter;
use std::collections::BTreeSet;

/// Words in front of a quoted path that is imported.
const KEYWORDS: &[&str] = &[
    "do",
    "dofile",
    "from",
    "import",
    "include",
    "include_once",
    "load",
    "loadfile",
    "require",
    "require_once",
    "require_relative",
    "source",
];
/// Extensions that an import may leave out.
const EXTENSIONS: &[&str] = &[
    "",
    ".js",
    ".ts",
    ".mjs",
    ".cjs",
    ".mts",
    ".cts",
    ".jsx",
    ".tsx",
    ".rb",
    ".php",
    ".pl",
    ".lua",
    ".jl",
    ".R",
    ".sh",
    "/index.js",
    "/index.ts",
    "/index.mjs",
    // It names what stands for its folder.
    "/package.json",
];
/// Folders, beside that of a file, from which Python finds modules.
const PYTHON_ROOTS: &[&str] = &["", "src", "lib", "python"];

/// A text of the start, and what it imports.
#[derive(Debug)]
pub struct Source {
    path: String,
    text: String,
    is_check_input: bool,
    /// Places of files that it may import, by their paths.
    files: BTreeSet<String>,
    /// Standard modules of Python that it imports, and what a test takes from the compiler of C or Java.
    modules: BTreeSet<String>,
}

impl Source {
    /// Reads a text with its path below the workspace. Of the places that it names, which can be many times its
    /// size, it keeps those that `imports` and `wanted` are about.
    pub fn read(
        (path, text): (&str, &str),
        is_check_input: bool,
        imports: &Imports,
        wanted: &BTreeSet<String>,
    ) -> Self {
        let mut modules = BTreeSet::new();
        let mut files = BTreeSet::new();
        let is_kept = |file: &String| {
            wanted.contains(file)
                || imports.beside.is_about(file)
                || imports.namesakes.is_about(file)
        };
        if language_of(path) == Some("python") {
            for module in python(text) {
                if !module.starts_with('.') {
                    let first = module.split('.').next().unwrap_or(&module).to_owned();
                    modules.extend(is_standard_module(&first).then_some(first));
                }
                files.extend(files_of_module(path, &module).into_iter().filter(is_kept));
            }
        } else {
            let named = quoted(text);
            let places = named.iter().flat_map(|named| files_of_path(path, named));
            files.extend(places.filter(is_kept));
        }
        if is_compiled_test(path) {
            modules.extend(compilers_own_in(path, text).map(str::to_owned));
        }
        if language_of(path) == Some("shell") {
            let places = sourced(text).flat_map(|named| files_of_path(path, named));
            files.extend(places.filter(is_kept));
        }
        Self { path: path.to_owned(), text: text.to_owned(), is_check_input, files, modules }
    }
}

/// What the sources of the start import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imports {
    /// Files that other files import.
    files: BTreeSet<String>,
    /// Of these, those that a file imports that is no check input.
    by_products: BTreeSet<String>,
    /// Standard modules of Python, and what tests take from the compilers of C and Java.
    modules: BTreeSet<String>,
    texts: Texts,
    fixtures: Fixtures,
    beside: Beside,
    local: Local,
    namesakes: Namesakes,
}

impl Imports {
    /// What no source of this start has said yet.
    pub fn of(start: &Manifest) -> Self {
        Self {
            fixtures: Fixtures::of(start),
            beside: Beside::of(start),
            local: Local::of(start),
            namesakes: Namesakes::of(start),
            ..Self::default()
        }
    }

    /// Whether the text of a file can say anything about these files.
    pub fn reads(&self, path: &str, wanted: &BTreeSet<String>) -> bool {
        match language_of(path) {
            _ if Texts::reads(path) => true,
            _ if self.fixtures.reads(path) || self.beside.reads(path) => true,
            _ if self.local.reads(path) || is_compiled_test(path) => true,
            _ if self.namesakes.reads(path) => true,
            Some(language) => wanted.iter().any(|it| language_of(it) == Some(language)),
            None => false,
        }
    }

    /// Adds what one file imports of the wanted files, and which standard modules.
    pub fn add(&mut self, source: &Source, wanted: &BTreeSet<String>) {
        let Source { path, text, is_check_input, files, modules } = source;
        let is_check_input = *is_check_input;
        self.texts.add(path, text);
        self.fixtures.add(path, text, is_check_input);
        self.local.add(text, is_check_input);
        self.modules.extend(modules.iter().cloned());
        self.beside.add(path, text, files, is_check_input);
        self.namesakes.add(path, text, files, is_check_input);
        for file in files.iter().filter(|file| *file != path && wanted.contains(*file)) {
            if !is_check_input {
                self.by_products.insert(file.clone());
            }
            self.files.insert(file.clone());
        }
    }

    /// Whether another file imports a file.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains(path)
    }

    /// Whether a file imports it that is no check input.
    pub fn has_product(&self, path: &str) -> bool {
        self.by_products.contains(path)
    }

    /// Whether a source helps the tests beside it.
    pub(super) fn helps(&self, path: &str) -> bool {
        self.beside.holds(path)
    }

    /// Whether a file imports a standard module.
    pub fn has_module(&self, module: &str) -> bool {
        self.modules.contains(module)
    }

    /// Whether a path is expected output that tests alone read.
    pub(super) fn is_fixture(&self, path: &str) -> bool {
        self.fixtures.holds(path)
    }

    /// Whether a path that is named like a test, or lies in a folder of such a name, is a product.
    pub(super) fn is_namesake(&self, path: &str) -> bool {
        self.namesakes.holds(path) || self.fixtures.is_of_products(path)
    }

    /// Whether an ignored path is one that tests alone name.
    pub(super) fn is_local(&self, path: &str) -> bool {
        self.local.holds(path)
    }

    /// What else the texts say.
    pub(super) const fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Adds a script that a recipe of a line starts.
    pub fn add_recipe(&mut self, line: &str, script: String) {
        self.texts.add_recipe(line, script);
    }

    /// Adds a file that a script of a line imports and that helps it to check.
    pub fn add_helper(&mut self, line: &str, file: String) {
        self.texts.add_helper(line, file);
    }

    /// Adds a target of make that a line visits.
    pub fn add_target(&mut self, line: &str, target: String) {
        self.texts.add_target(line, target);
    }

    /// Adds a target without a rule that a line visits: make makes it where it finds a source of that name.
    pub fn add_sought(&mut self, line: &str, target: String) {
        self.texts.add_sought(line, target);
    }

    /// Adds a line of which each command asks for a recipe that the start has not.
    pub fn add_lacking(&mut self, line: &str) {
        self.texts.add_lacking(line);
    }

    /// Whether each command of a line asks for a recipe that the start has not.
    pub fn is_lacking(&self, line: &str) -> bool {
        self.texts.is_lacking(line)
    }

    /// Sets the line of the project's own test command.
    pub fn set_project_tests(&mut self, line: &str) {
        self.texts.set_project_tests(line);
    }

    /// The line of the project's own test command at the start; none where it had none, or where that is not known.
    pub fn project_tests(&self) -> Option<&str> {
        self.texts.project_tests()
    }

    /// The stored form: lines of a kind and a name.
    pub fn encode(&self) -> Vec<u8> {
        let kinds = [("f", &self.files), ("p", &self.by_products), ("m", &self.modules)];
        let line = |(kind, names): (&str, &BTreeSet<String>)| {
            names.iter().map(|name| format!("{kind}{name}\0")).collect::<String>()
        };
        let texts = self.texts.encode().into_iter().map(|(kind, name)| format!("{kind}{name}\0"));
        let named = self.fixtures.encode().chain(self.beside.encode()).chain(self.local.encode());
        let named = named.chain(self.namesakes.encode());
        let named = named.map(|(kind, name)| format!("{kind}{name}\0"));
        kinds.into_iter().map(line).chain(texts).chain(named).collect::<String>().into_bytes()
    }

    /// Reads the stored form; what does not read is left out.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut imports = Self::default();
        for line in String::from_utf8_lossy(bytes).split('\0') {
            let Some((kind, name)) = line.split_at_checked(1) else { continue };
            if imports.texts.decode(kind, name)
                || imports.fixtures.decode(kind, name)
                || imports.beside.decode(kind, name)
                || imports.local.decode(kind, name)
                || imports.namesakes.decode(kind, name)
            {
                continue;
            }
            let names = match kind {
                "f" => &mut imports.files,
                "p" => &mut imports.by_products,
                _ => &mut imports.modules,
            };
            names.insert(name.to_owned());
        }
        imports
    }
}

/// Whether a test is one of C or Java, for which a file of the product can stand in the place of the compiler's own.
fn is_compiled_test(path: &str) -> bool {
    matches!(language_of(path), Some("c" | "jvm")) && convention_of(path) == Some(InputKind::Test)
}

/// The files of the workspace that a source may import, by their paths.
pub fn imported_files(path: &str, text: &str) -> Vec<String> {
    imported_files_from(path, text, &[])
}

/// As [`imported_files`], where modules are also found in the folders of `roots`.
pub fn imported_files_from(path: &str, text: &str, roots: &[String]) -> Vec<String> {
    let of_module = |module: &String| {
        let mut files = files_of_module(path, module);
        let name = module.replace('.', "/");
        let of_root =
            |root: &String| [format!("{root}/{name}.py"), format!("{root}/{name}/__init__.py")];
        files.extend(roots.iter().filter(|_| !module.starts_with('.')).flat_map(of_root));
        files
    };
    let mut found: Vec<String> = match language_of(&as_source(path, text)) {
        Some("python") => python(text).iter().flat_map(of_module).collect(),
        Some("perl") => {
            let own = quoted(text).into_iter().flat_map(|named| files_of_path(path, &named));
            own.chain(modules_of_perl(text).flat_map(files_of_perl)).collect()
        }
        Some("shell") => sourced(text).flat_map(|named| files_of_path(path, named)).collect(),
        Some(_) | None => {
            let of_root = |named: &String| {
                let roots = roots.iter().filter(|_| !named.starts_with('.'));
                roots.flat_map(|root| files_of_path(&format!("{root}/"), named)).collect::<Vec<_>>()
            };
            let named = quoted(text);
            let own = named.iter().flat_map(|it| files_of_path(path, it));
            own.chain(named.iter().flat_map(of_root)).collect()
        }
    };
    found.retain(|file| file != path);
    found
}

/// Calls of Python that import what their first argument names.
pub(super) const CALLS: &[&str] =
    &["import_module(", "__import__(", "run_module(", "run_path(", "spec_from_file_location("];

/// The modules that a Python text imports, each with its dots. `from a import b` may mean `a.b`.
fn python(text: &str) -> Vec<String> {
    let mut found: Vec<String> = CALLS.iter().flat_map(|call| named_by(call, text)).collect();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(names) = line.strip_prefix("import ") {
            found.extend(names.split(',').filter_map(first_word).map(str::to_owned));
            continue;
        }
        let Some((module, names)) =
            line.strip_prefix("from ").and_then(|rest| rest.split_once(" import"))
        else {
            continue;
        };
        let module = module.trim();
        let mut names = names.replace(['(', '\\'], " ");
        if line.contains('(') {
            for _ in 0..MAX_LINES {
                if names.contains(')') {
                    break;
                }
                let Some(more) = lines.next() else { break };
                names.push(' ');
                names.push_str(more);
            }
        }
        let join = |name: &str| match module.ends_with('.') {
            true => format!("{module}{name}"),
            false => format!("{module}.{name}"),
        };
        found.extend(names.split(',').filter_map(first_word).map(join));
        found.push(module.to_owned());
    }
    found
}

/// The literal first arguments of a call.
fn named_by<'t>(call: &'t str, text: &'t str) -> impl Iterator<Item = String> + 't {
    text.match_indices(call).filter_map(move |(at, _)| {
        let rest = text.get(at + call.len()..)?.trim_start();
        let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        let (named, _) = rest.get(1..)?.split_once(quote)?;
        let is_module = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.');
        (!named.is_empty() && named.chars().all(is_module)).then(|| named.to_owned())
    })
}

/// The longest list of names that is read, in lines.
const MAX_LINES: usize = 200;

fn first_word(text: &str) -> Option<&str> {
    let word = text.split_whitespace().next()?;
    let end = word.find(|letter: char| !(letter.is_alphanumeric() || "_.".contains(letter)));
    word.get(..end.unwrap_or(word.len())).filter(|word| !word.is_empty())
}

/// The files that a module may be.
fn files_of_module(importer: &str, module: &str) -> Vec<String> {
    let own = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let dots = module.len() - module.trim_start_matches('.').len();
    let path = module.trim_start_matches('.').replace('.', "/");
    let mut folders: Vec<&str> = Vec::new();
    if dots == 0 {
        folders.push(own);
        folders.extend(PYTHON_ROOTS);
    } else {
        let mut above = own;
        for _ in 1..dots {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
        }
        folders.push(above);
    }
    let whole =
        |folder: &str| [format!("{folder}/{path}.py"), format!("{folder}/{path}/__init__.py")];
    let files = folders.into_iter().flat_map(whole);
    files.map(|file| file.trim_start_matches('/').to_owned()).collect()
}

/// The quoted texts behind a word that imports.
pub(super) fn quoted(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        for at in memchr3_iter(b'\'', b'"', b'`', line.as_bytes()) {
            let (before, rest) = line.split_at(at);
            let before = before.trim_end_matches([' ', '\t', '(', '.', '<']);
            let own = |word: &str| before.strip_suffix(word);
            let before = own("__DIR__").or_else(|| own("__dir__")).unwrap_or(before);
            let before = before.trim_end_matches([' ', '\t', '(']);
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            let word = before.rsplit(|letter| !is_word(letter)).next();
            if !word.is_some_and(|word| KEYWORDS.contains(&word)) {
                continue;
            }
            let (mark, rest) = rest.split_at(1);
            found.extend(rest.split_once(mark).map(|(named, _)| named.to_owned()));
        }
    }
    found
}

/// The files that a shell text reads into itself.
fn sourced(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        line.match_indices(['.', 's']).filter_map(|(at, _)| {
            let (before, rest) = line.split_at(at);
            let path = rest.strip_prefix("source").or_else(|| rest.strip_prefix('.'))?;
            (begins_command(before) && path.starts_with([' ', '\t']))
                .then(|| without_expression(first_word_of_shell(path.trim_start())))
        })
    })
}

/// Whether a command of a shell begins behind this text.
fn begins_command(before: &str) -> bool {
    const WORDS: &[&str] = &["!", "do", "else", "if", "then", "{"];
    let before = before.trim_end();
    let last = before.rsplit([' ', '\t', ';']).next().unwrap_or_default();
    before.is_empty() || before.ends_with([';', '&', '|', '(']) || WORDS.contains(&last)
}

/// The first word of a text: quotes and expressions in brackets may have blanks in them.
fn first_word_of_shell(text: &str) -> &str {
    let (mut depth, mut quote) = (0_usize, None);
    let end = text.find(|letter: char| {
        match (letter, quote) {
            ('(', _) => depth += 1,
            (')', _) if depth == 0 => return true,
            (')', _) => depth -= 1,
            // Quotes within an expression are its own.
            ('"' | '\'', _) if depth > 0 => {}
            ('"' | '\'', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        depth == 0 && quote.is_none() && (letter.is_whitespace() || ";&|".contains(letter))
    });
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

/// A path without the expression in front of it, which often stands for the folder of the script or for the root.
fn without_expression(word: &str) -> &str {
    let mut word = word.trim_matches(['"', '\'']);
    for end in ["}/", ")/", "`/", "}\"/", ")\"/", "`\"/"] {
        word = word.rsplit_once(end).map_or(word, |(_, path)| path);
    }
    match word.strip_prefix('$').and_then(|named| named.split_once('/')) {
        Some((_, path)) => path,
        None => word,
    }
}

fn files_of_path(importer: &str, named: &str) -> Vec<String> {
    let own = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_lua = name_of(importer).ends_with(".lua");
    let named = if is_lua { named.replace('.', "/") } else { named.to_owned() };
    let named = named.trim_start_matches('/');
    let mut found = Vec::new();
    for folder in [own, ""] {
        let whole = if folder.is_empty() { named.to_owned() } else { format!("{folder}/{named}") };
        let Some(path) = Workspace::new("").resolve(&whole).map(|path| path.into_owned()) else {
            continue;
        };
        let whole = |end: &&str| format!("{path}{end}").trim_start_matches('/').to_owned();
        found.extend(EXTENSIONS.iter().map(whole));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_and_modules_that_a_source_imports_are_found() {
        let wanted =
            ["tool.py", "scripts/gen.py", "lint.js", "ci/all.sh", "x.rb", "page.php", "m.lua"];
        let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
        for (path, text, expected) in [
            ("a.py", "import os, tool as t\n", Some("tool.py")),
            ("pkg/a.py", "from tool import x\n", Some("tool.py")),
            ("pkg/a.py", "from .tool import x\n", None),
            ("pkg/a.py", "from ..tool import x\n", Some("tool.py")),
            ("a.py", "from scripts import (\n    other,\n    gen,\n)\n", Some("scripts/gen.py")),
            ("scripts/b.py", "import gen\n", Some("scripts/gen.py")),
            ("a.py", "# tool\ntext = 'tool.py'\n", None),
            ("tool.py", "import tool\n", None),
            ("web/a.js", "const { x } = require('../lint');\n", Some("lint.js")),
            ("a.ts", "import x from './lint.js';\n", Some("lint.js")),
            ("a.py", "t = importlib.import_module('tool')\n", Some("tool.py")),
            ("a.js", "spawn('./lint.js')\n", None),
            ("b.sh", "set -e; . ci/all.sh\n", Some("ci/all.sh")),
            ("ci/b.sh", "source \"${HERE}/all.sh\"\n", Some("ci/all.sh")),
            ("ci/b.sh", "if . \"$HERE\"/all.sh; then :; fi\n", Some("ci/all.sh")),
            ("b.sh", "(. $ROOT/ci/all.sh)\n", Some("ci/all.sh")),
            ("ci/b.sh", ". \"$(dirname \"$0\")/all.sh\" || exit\n", Some("ci/all.sh")),
            ("ci/b.sh", ". \"$(cd \"$(dirname \"$0\")\" && pwd)\"/all.sh\n", Some("ci/all.sh")),
            ("ci/b.sh", "cat . ci/all.sh\n", None),
            ("y.rb", "require_relative 'x'\n", Some("x.rb")),
            ("y.php", "require_once __DIR__ . '/page.php';\n", Some("page.php")),
            ("y.lua", "local m = require(\"m\")\n", Some("m.lua")),
        ] {
            let mut imports = Imports::default();
            assert!(imports.reads(path, &wanted), "{path}");
            imports.add(&Source::read((path, text), false, &imports, &wanted), &wanted);
            let found: Vec<_> = imports.files.iter().map(String::as_str).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{path}: {text}");
            assert_eq!(Imports::decode(&imports.encode()), imports);
        }
    }

    #[test]
    fn the_root_and_folders_of_modules_are_found() {
        for text in ["require('./')", "require('.')", "require('..')", "require('../.')"] {
            let path = if text.contains("..") { "tests/a.js" } else { "a.js" };
            let found = imported_files(path, text);
            for file in ["index.js", "package.json"] {
                assert!(found.iter().any(|it| it == file), "{text}: {found:?}");
            }
        }
        let roots = ["mod".to_owned()];
        let found = imported_files_from("tests/run.py", "import calc\n", &roots);
        assert!(found.iter().any(|it| it == "mod/calc.py"), "{found:?}");
    }

    #[test]
    fn standard_modules_are_kept() {
        let mut imports = Imports::default();
        let text = "import secrets, own\nfrom queue import Queue\nfrom . import html\n";
        let none = BTreeSet::new();
        imports.add(&Source::read(("a.py", text), false, &imports, &none), &none);
        let known = ["secrets", "queue", "own", "html"].map(|module| imports.has_module(module));
        assert_eq!(known, [true, true, false, false]);
    }
}
