//! Check inputs that git ignores: what a person or a script put beside the tests, and no tool makes.
//!
//! ```text
//!   tests/test_local.py, config.mk  --> kept, by convention
//!   config.mk that a Makefile includes, .env that tests alone name --> kept, by the texts of the start
//!   target, node_modules, tests/output, objects and programs       --> made: left out where steps wrote them
//! ```

use super::fixtures::is_report;
use super::language::{extension, language_of, name_of};
use super::{InputKind, MADE, convention_of};
use crate::domain::manifest::{Kind, Manifest};
use std::collections::BTreeSet;

/// Folders of what tools install, and of what suites and programs write, besides those of builds.
const WRITTEN: &[&str] = &[
    "__generated__",
    "__pypackages__",
    ".bundle",
    ".eggs",
    ".gradle",
    ".m2",
    ".next",
    ".nox",
    ".nuxt",
    ".ruff_cache",
    ".tox",
    ".turbo",
    ".venv",
    ".yarn",
    "_build",
    "actual",
    "artifacts",
    "bower_components",
    "cache",
    "diffs",
    "downloads",
    "env",
    "gen",
    "generated",
    "lua_modules",
    "logs",
    "node_modules",
    "obj",
    "out",
    "output",
    "outputs",
    "pods",
    "reports",
    "results",
    "screenshots",
    "site-packages",
    "temp",
    "tmp",
    "vendor",
    "venv",
    "videos",
    "virtualenv",
];
/// Parts of the names of files that are generated.
const GENERATED: &[&str] = &[".g.", ".gen.", ".generated.", ".pb.", "_generated.", "_pb2", "_pb."];
/// Extensions of data that people write.
const DATA: &[&str] = &[
    "csv", "env", "expected", "golden", "in", "ini", "input", "json", "json5", "jsonc", "jsonl",
    "md", "ref", "snap", "sql", "toml", "tsv", "txt", "xml", "yaml", "yml",
];
/// Names of configuration that a compiled program has too.
const PROGRAMS: &[&str] = &["run-tests", "run_tests", "runtests"];
/// The most files that are looked for in the texts of a start, and the largest, in bytes.
const MAX_LOCAL: usize = 200;
const MAX_LOCAL_SIZE: u64 = 1 << 20;

/// Whether a tool or a suite makes such a path.
fn is_written(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_one = |folder: &str| {
        let lower = folder.to_ascii_lowercase();
        [MADE, WRITTEN].iter().any(|names| names.contains(&lower.as_str()))
            || lower.ends_with(".egg-info")
    };
    folders.split('/').any(is_one) || GENERATED.iter().any(|part| name.contains(part))
}

fn is_data(path: &str) -> bool {
    extension(name_of(path)).is_some_and(|it| DATA.contains(&it.to_ascii_lowercase().as_str()))
}

/// Whether an ignored path is a check input by convention: a source or data among the tests, or configuration.
pub fn is_ignored_input(path: &str) -> bool {
    if is_written(path) {
        return false;
    }
    match convention_of(path) {
        Some(InputKind::Test) => (language_of(path).is_some() || is_data(path)) && !is_report(path),
        Some(InputKind::Configuration) => !PROGRAMS.contains(&name_of(path)),
        Some(InputKind::Shadow | InputKind::Script | InputKind::Protected | InputKind::Git)
        | None => false,
    }
}

/// Whether a path is a check input by convention that no tool makes, of any kind.
pub fn is_unmade_input(path: &str) -> bool {
    !is_written(path) && convention_of(path).is_some()
}

/// The name of the ignore files of git, which linters and searches obey for tracked files too.
pub const IGNORE_FILE: &str = ".gitignore";

/// The names of all that searches obey.
const OBEYED: &[&str] = &[IGNORE_FILE, ".ignore", ".rgignore", ".fdignore"];

/// Whether a path is an ignore file of any tool.
pub(super) fn is_obeyed(path: &str) -> bool {
    OBEYED.contains(&name_of(path))
}

/// Whether a path is an ignore file of git.
pub fn is_ignore_file(path: &str) -> bool {
    name_of(path) == IGNORE_FILE
}

/// Whether an ignore file that names a path hides it from a check: a source that no tool makes.
pub fn is_hidden_where_ignored(path: &str) -> bool {
    language_of(path).is_some() && !is_written(path)
}

/// Whether an ignored file that a recipe or a test names may be a check input.
pub(super) fn may_be_named(path: &str) -> bool {
    let name = name_of(path);
    let is_text = name.starts_with(".env") || is_data(path) || name.ends_with(".mk");
    is_text && !is_written(path) && !is_report(path)
}

/// Ignored settings and data of the start, and which sources of the start name them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Local {
    /// What is looked for; not stored.
    files: BTreeSet<String>,
    by_tests: BTreeSet<String>,
    by_products: BTreeSet<String>,
}

impl Local {
    /// The files of a start, named by no source yet.
    pub(super) fn of(start: &Manifest) -> Self {
        let entries = start.entries().iter().filter(|entry| {
            entry.ignored && entry.kind == Kind::File && entry.size <= MAX_LOCAL_SIZE
        });
        let paths = entries.map(|entry| String::from_utf8_lossy(&entry.path).into_owned());
        let files = paths.filter(|path| may_be_named(path) && convention_of(path).is_none());
        Self { files: files.take(MAX_LOCAL).collect(), ..Self::default() }
    }

    /// Whether the text of a file can say anything about them.
    pub(super) fn reads(&self, path: &str) -> bool {
        !self.files.is_empty() && language_of(path).is_some()
    }

    /// Adds what one file names.
    pub(super) fn add(&mut self, text: &str, is_check_input: bool) {
        let is_named = |path: &&String| {
            let name = name_of(path);
            text.match_indices(name).any(|(at, _)| {
                let before = text.get(..at).and_then(|it| it.chars().next_back());
                let after = text.get(at + name.len()..).and_then(|it| it.chars().next());
                before.is_some_and(|it| "\"'`/\\".contains(it))
                    && after.is_some_and(|it| "\"'`".contains(it))
            })
        };
        let named: Vec<String> = self.files.iter().filter(is_named).cloned().collect();
        if is_check_input { &mut self.by_tests } else { &mut self.by_products }.extend(named);
    }

    /// Whether tests alone name a path.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.by_tests.contains(path) && !self.by_products.contains(path)
    }

    /// The parts of the stored form.
    pub(super) fn encode(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let sets = [("L", &self.by_tests), ("M", &self.by_products)];
        sets.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path)))
    }

    /// Reads one part of the stored form; answers whether it is one.
    pub(super) fn decode(&mut self, kind: &str, path: &str) -> bool {
        match kind {
            "L" => self.by_tests.insert(path.to_owned()),
            "M" => self.by_products.insert(path.to_owned()),
            _ => return false,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_no_tool_makes_is_hidden_where_it_is_ignored() {
        for (path, expected) in [
            ("src/app.py", true),
            ("lib/a.js", true),
            ("build/a.js", false),
            ("src/schema.generated.ts", false),
            ("vendor/a.go", false),
            ("notes.txt", false),
        ] {
            assert_eq!(is_hidden_where_ignored(path), expected, "{path}");
        }
        assert!(is_ignore_file("src/.gitignore") && !is_ignore_file("src/.gitignore/a"));
    }

    #[test]
    fn ignored_check_inputs_are_what_no_tool_makes() {
        for (path, expected) in [
            ("tests/test_local.py", true),
            ("tests/data/big.json", true),
            ("config.mk", true),
            ("conftest.py", true),
            ("web/.npmrc", true),
            ("tests/__pycache__/test_a.cpython-311.pyc", false),
            ("tests/run_tests", false),
            ("run_tests", false),
            ("tests/test_calc.o", false),
            ("tests/output/a.txt", false),
            ("tests/test.db", false),
            ("tests/report.xml", false),
            ("tests/pb/calc_pb2.py", false),
            ("node_modules/a/test/a.js", false),
            ("target/debug/tests/a.rs", false),
            ("calc.egg-info/pbr.json", false),
            (".env", false),
            ("data/a.json", false),
        ] {
            assert_eq!(is_ignored_input(path), expected, "{path}");
        }
    }

    #[test]
    fn settings_that_tests_alone_name_are_theirs() {
        let files = [".env", "local.json", "both.json"];
        let mut local = Local { files: files.map(str::to_owned).into(), ..Local::default() };
        assert!(local.reads("tests/a.py") && !local.reads("README.md"));
        local.add("skipUnless(exists('.env')), open(\"data/local.json\"), 'both.json'", true);
        local.add("open('both.json'); environment = x.env", false);
        let mut again = Local::default();
        for (kind, path) in local.encode() {
            assert!(again.decode(kind, path));
        }
        let held = files.map(|path| (local.holds(path), again.holds(path)));
        assert_eq!(held, [(true, true), (true, true), (false, false)]);
    }
}
