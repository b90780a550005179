//! What goes with added tests that a view keeps: data, snapshots and helpers that these alone use.
//!
//! A runner finds added test files by itself, so a view takes them out. One that the line names stays, and so does a test that
//! was added inside a source. Without its data it would fail, whatever the product does.

use super::Round;
use crate::tool::{RelPath, ToolError};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use surety_common::domain::check_inputs::{
    Difference, Exam, InputKind, imported_files, is_setting_of_tests, language_of,
};
use surety_common::domain::manifest::Aspect;

/// The largest test that is read, in bytes, and the most of them.
const MAX_TEST: u64 = 512 << 10;
const MAX_TESTS: usize = 500;

/// What tests inside a source in Rust have.
const TESTS_OF_RUST: &[&str] = &["#[test]", "::test]", "::test(", "cfg(test)"];

/// An added test that a view keeps: a whole file, or the lines that were added to a source.
struct Kept {
    path: String,
    text: String,
    /// The files that it may import.
    imported: BTreeSet<String>,
}

impl Round {
    /// The added test inputs that stay in a view, because a test that stays uses them and none of the start names them. It
    /// blocks.
    pub(super) fn data_of_added_tests(&self, exam: &Exam) -> Result<BTreeSet<Vec<u8>>, ToolError> {
        let is_one = |it: &&Difference| {
            it.kind == InputKind::Test
                && it.aspect == Aspect::Added
                && !is_setting_of_tests(&String::from_utf8_lossy(&it.path))
        };
        let mut left: Vec<&Difference> = exam.take_out.iter().filter(is_one).collect();
        let mut found = BTreeSet::new();
        let mut open = if left.is_empty() { Vec::new() } else { self.kept_tests(exam)? };
        while let Some(kept) = open.pop() {
            let (used, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|it| kept.uses(&String::from_utf8_lossy(&it.path)));
            left = others;
            // All originals are read for each, so only those are asked that would stay.
            for path in used.into_iter().map(|it| &it.path).filter(|it| !self.is_named_at_start(it))
            {
                let name = String::from_utf8_lossy(path).into_owned();
                // A helper may use data in its turn.
                if language_of(&name).is_some() {
                    open.extend(self.now_text(path)?.map(|text| Kept::of(name, text)));
                }
                found.insert(path.clone());
            }
        }
        Ok(found)
    }

    /// The added tests that a view keeps.
    fn kept_tests(&self, exam: &Exam) -> Result<Vec<Kept>, ToolError> {
        let opening = self.opening()?;
        let mut kept = Vec::new();
        let added = exam.new.iter().filter(|it| it.kind == InputKind::Test).map(|it| &it.path);
        for path in added.chain(&opening.mergeable).take(MAX_TESTS) {
            let name = String::from_utf8_lossy(path).into_owned();
            let is_new = exam.new.iter().any(|it| it.path == *path);
            if !is_new && !path.ends_with(b".rs") {
                continue;
            }
            let Some(now) = self.now_text(path)? else { continue };
            let given = self.originals.get();
            let before = given.and_then(|given| given.originals.any_text(path)).unwrap_or_default();
            let known: BTreeSet<&str> = before.lines().collect();
            // Of a source only tests stay for themselves.
            if is_new || TESTS_OF_RUST.iter().any(|mark| now.contains(mark)) {
                let text: Vec<&str> = now.lines().filter(|line| !known.contains(line)).collect();
                kept.push(Kept::of(name, text.join("\n")));
            }
        }
        Ok(kept)
    }

    fn now_text(&self, path: &[u8]) -> Result<Option<String>, ToolError> {
        let workspace = self.setup.folder.workspace()?;
        let text = workspace.read(&RelPath::root().join(OsStr::from_bytes(path)), MAX_TEST).ok();
        Ok(text.and_then(|text| String::from_utf8(text).ok()))
    }

    /// Whether a check input of the start, or a source with tests, names a file.
    fn is_named_at_start(&self, path: &[u8]) -> bool {
        let name = String::from_utf8_lossy(path).into_owned();
        let name = name.rsplit('/').next().unwrap_or(&name);
        self.originals.get().is_none_or(|given| given.originals.any_has(name))
    }
}

impl Kept {
    fn of(path: String, text: String) -> Self {
        let imported = imported_files(&path, &text).into_iter().collect();
        Self { path, text, imported }
    }

    /// Whether the test uses a file: by its name, as a module, or as the snapshot of a test of its own.
    fn uses(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        if self.imported.contains(path) {
            return true;
        }
        if let Some(module) = name.strip_suffix(".rs") {
            return self.is_parent_of(path) && self.text.contains(&format!("mod {module};"));
        }
        let snapshot = name.strip_suffix(".snap").unwrap_or_default();
        let of_rust = snapshot.rsplit_once("__").map(|(_, test)| format!("fn {test}("));
        of_rust.is_some_and(|test| self.text.contains(&test))
            || !snapshot.is_empty() && self.path.ends_with(&format!("/{snapshot}"))
            || language_of(path).is_none() && self.text.contains(name)
    }

    /// Whether a module in Rust of this path is one of the source.
    fn is_parent_of(&self, path: &str) -> bool {
        let own = self.path.strip_suffix(".rs").unwrap_or_default();
        let (above, name) = own.rsplit_once('/').unwrap_or(("", own));
        let folder = if matches!(name, "lib" | "main" | "mod") { above } else { own };
        path.rsplit_once('/').is_some_and(|(above, _)| above == folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_uses_what_it_names_and_no_other_file() {
        for (path, text, file, expected) in [
            ("src/a.rs", "include_str!(\"../tests/data/b.txt\")", "tests/data/b.txt", true),
            ("src/a.rs", "include_str!(\"../tests/data/b.txt\")", "tests/data/c.txt", false),
            ("src/a.rs", "#[cfg(test)]\nmod tests;", "src/a/tests.rs", true),
            ("src/a.rs", "#[cfg(test)]\nmod tests;", "src/b/tests.rs", false),
            ("src/lib.rs", "mod tests;", "src/tests.rs", true),
            ("src/a.rs", "fn long() {", "src/snapshots/x__a__tests__long.snap", true),
            ("src/a.rs", "fn long() {", "src/snapshots/x__a__tests__short.snap", false),
            ("test/a.test.js", "x", "test/__snapshots__/a.test.js.snap", true),
            ("tests/test_a.py", "from tests.reading import read", "tests/reading.py", true),
            ("tests/test_a.py", "from reading import read", "tests/reading.py", true),
            ("tests/test_a.py", "import json", "tests/reading.py", false),
            ("test/a.test.js", "import { read } from './reading.js'", "test/reading.js", true),
        ] {
            let kept = Kept::of(path.to_owned(), text.to_owned());
            assert_eq!(kept.uses(file), expected, "{path}: {file}");
        }
    }
}
