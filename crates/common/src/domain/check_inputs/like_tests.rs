//! Sources of an added package that have the names of tests, such as `vendor/jinja2/tests.py`.

use super::language::language_of;
use super::{InputKind, StartInputs, convention_of};
use crate::domain::manifest::{Entry, Kind, Manifest, changes};
use std::collections::BTreeSet;

/// What an added package brings along.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LikeTests {
    /// Sources in Python in added folders, which are tests by their names alone.
    pub files: BTreeSet<String>,
    /// The other added sources of these folders. What one of them imports is no test.
    pub products: BTreeSet<String>,
}

impl LikeTests {
    /// Those of a workspace, against its start.
    pub fn of(inputs: &StartInputs<'_>, start: &Manifest, now: &Manifest) -> Self {
        let mut found = Self::default();
        for change in changes(start, now) {
            let is_file = |entry: &&Entry| entry.kind == Kind::File && !entry.ignored;
            if change.before.is_some() || change.after.filter(is_file).is_none() {
                continue;
            }
            let path = String::from_utf8_lossy(change.path());
            let Some((folder, _)) = path.rsplit_once('/') else { continue };
            let is_of_tests = convention_of(&format!("{folder}/x")) == Some(InputKind::Test);
            if language_of(&path) != Some("python")
                || is_of_tests
                || start.get(folder.as_bytes()).is_some()
            {
                continue;
            }
            match inputs.kind_of_added(change.path()) {
                Some(InputKind::Test) => drop(found.files.insert(path.into_owned())),
                None => drop(found.products.insert(path.into_owned())),
                Some(_) => {}
            }
        }
        let folder_of = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let folders: BTreeSet<_> = found.files.iter().map(|path| folder_of(path)).collect();
        found.products.retain(|path| folders.contains(&folder_of(path)));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::check_inputs::{Exam, Imports, InputRules};
    use crate::domain::manifest::{Content, FileDigest, Place, Stamp};
    use std::sync::Arc;

    fn manifest(paths: &[&str]) -> Manifest {
        let entry = |path: &&str| Entry {
            path: path.trim_end_matches('/').as_bytes().into(),
            kind: if path.ends_with('/') { Kind::Folder } else { Kind::File },
            mode: 0o644,
            size: 1,
            ignored: path.starts_with("build/"),
            stamp: Stamp::default(),
            content: Content::File(FileDigest { blake3: [1; 32], sha256: None }),
        };
        Manifest::new(Place::default(), Arc::default(), paths.iter().map(entry).collect())
    }

    #[test]
    fn sources_of_an_added_folder_that_have_the_names_of_tests_are_told_from_its_products() {
        let start = ["app.py", "vendor/", "vendor/a.py", "tests/", "tests/test_a.py"];
        let added = [
            "vendor/tests.py",
            "vendor/jinja2/",
            "vendor/jinja2/defaults.py",
            "vendor/jinja2/tests.py",
            "vendor/jinja2/tests/",
            "vendor/jinja2/tests/test_it.py",
            "vendor/other/",
            "vendor/other/a.py",
            "vendor/js/",
            "vendor/js/a.test.js",
            "build/x/tests.py",
        ];
        let now = manifest(&[&start[..], &added].concat());
        let start = manifest(&start);
        let (rules, imports) = (InputRules::default(), Imports::default());
        let inputs = StartInputs::new(&rules, &imports, &start, b"/w");
        let like = LikeTests::of(&inputs, &start, &now);
        let texts = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        assert_eq!(like.files, texts(&["vendor/jinja2/tests.py"]));
        assert_eq!(like.products, texts(&["vendor/jinja2/defaults.py"]));

        let is_new = |inputs: &StartInputs<'_>| {
            let exam = Exam::of(inputs, "pytest", &start, &now);
            exam.new.iter().any(|it| it.path == b"vendor/jinja2/tests.py")
        };
        assert!(!is_new(&inputs), "nothing imports it");
        assert!(is_new(&inputs.importing(like.files)));
    }
}
