//! The write scope of a step.

use crate::tool::error::{ErrorCode, ToolError};
use globset::GlobSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surety_common::domain::scope::glob_set;

/// What judges which paths of a workspace are ignored.
pub trait Ignored: Debug + Send + Sync {
    /// Whether a path, which need not be there, is ignored.
    fn ignores(&self, path: &Path) -> bool;
}

/// The compiled globs of a step's write scope. Without any, the whole workspace is allowed.
#[derive(Debug, Clone)]
pub struct WriteScope {
    globs: Option<GlobSet>,
    /// What is writable beside them; none where that is not asked.
    ignored: Option<Arc<dyn Ignored>>,
    /// The leading folders of each glob in which nothing is left open.
    prefixes: Vec<PathBuf>,
}

impl WriteScope {
    /// A scope that allows the whole workspace.
    pub const fn whole() -> Self {
        Self { globs: None, ignored: None, prefixes: Vec::new() }
    }

    /// Compiles a step's globs, as [`glob_set`] does.
    ///
    /// # Errors
    /// `write_scope_invalid` with the first glob that does not read.
    pub fn new(globs: &[String]) -> Result<Self, ToolError> {
        if globs.is_empty() {
            return Ok(Self::whole());
        }
        let prefixes = globs.iter().map(|glob| literal_prefix(glob)).collect();
        let globs = glob_set(globs)
            .map_err(|error| ToolError::new(ErrorCode::WriteScopeInvalid, error.to_string()))?;
        Ok(Self { globs: Some(globs), ignored: None, prefixes })
    }

    /// The same scope, beside which ignored paths are writable.
    pub fn beside(self, ignored: Arc<dyn Ignored>) -> Self {
        Self { ignored: Some(ignored), ..self }
    }

    /// Whether the globs match a path relative to the workspace's root.
    pub fn allows(&self, path: &Path) -> bool {
        self.globs.as_ref().is_none_or(|set| set.is_match(path))
    }

    /// Whether a tool may write a path relative to the workspace's root.
    pub fn is_writable(&self, path: &Path) -> bool {
        self.allows(path) || self.ignored.as_ref().is_some_and(|ignored| ignored.ignores(path))
    }

    /// What below a workspace's root no command of this step may write: everything that is there and
    /// leads to none of the globs. Repositories and what builds make stay writable, and new names can
    /// be made beside what is there: a build folder is none of the step's writes.
    pub fn protected(&self, root: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if self.globs.is_some() {
            protect(root, Path::new(""), &self.prefixes, &mut found);
        }
        found
    }
}

/// Names that are always writable: the repository, and what builds and package managers make.
const ALWAYS_WRITABLE: [&str; 22] = [
    ".cache",
    ".git",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".pytest_cache",
    ".ruff_cache",
    ".surety",
    ".tox",
    ".turbo",
    ".venv",
    ".vite",
    "__pycache__",
    "build",
    "coverage",
    "dist",
    "node_modules",
    "obj",
    "out",
    "target",
    "venv",
];

/// Paths that are mounted one by one; where a workspace has more, the rest is judged by what changed.
const MOST_PROTECTED: usize = 512;

fn protect(root: &Path, folder: &Path, prefixes: &[PathBuf], found: &mut Vec<PathBuf>) {
    // A folder that cannot be read cannot be written either.
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = folder.join(&name);
        let is_open = prefixes.iter().any(|prefix| path.starts_with(prefix));
        let is_always = ALWAYS_WRITABLE.iter().any(|always| name == *always);
        let Ok(kind) = entry.file_type() else { continue };
        if is_open || is_always || kind.is_symlink() || found.len() >= MOST_PROTECTED {
            continue;
        }
        if kind.is_dir() && prefixes.iter().any(|prefix| prefix.starts_with(&path)) {
            protect(root, &path, prefixes, found);
        } else if kind.is_dir() || kind.is_file() {
            found.push(root.join(path));
        }
    }
}

/// The folders that every path of a glob lies in. A glob without wildcards names a file, and programs
/// replace files by renaming others over them, so its folder is what has to be open.
fn literal_prefix(glob: &str) -> PathBuf {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let folder = glob.rsplit_once('/').map_or("", |(folder, _)| folder);
    let literal = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
    folder.split('/').take_while(literal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_allows_what_its_globs_say_and_nothing_else() {
        for (globs, path, allowed) in [
            (&[][..], "any/where", true),
            (&["src/**"], "src/a/b.rs", true),
            (&["src/**"], "srcs/a.rs", false),
            (&["src/*.rs"], "src/a.rs", true),
            (&["src/*.rs"], "src/a/b.rs", false),
            (&["src/"], "src/a/b.rs", true),
            (&["./README.md"], "README.md", true),
            (&["README.md"], "docs/README.md", false),
            (&["docs/**", "*.{md,txt}"], "a.txt", true),
            (&["größe/**"], "größe/ä.txt", true),
        ] {
            let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
            let scope = WriteScope::new(&globs).unwrap();
            assert_eq!(scope.allows(Path::new(path)), allowed, "{globs:?} {path}");
        }
    }

    #[test]
    fn what_leads_to_no_glob_is_protected_and_what_builds_make_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["docs/old", "src/a", "src/b", "target", ".git", "crates/x/src", "crates/y"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        std::fs::write(folder.path().join("README.md"), "").unwrap();
        for (globs, protected) in [
            (&[][..], &[][..]),
            (&["docs/**"], &["README.md", "crates", "src"]),
            (&["docs/", "src/a/*.rs"], &["README.md", "crates", "src/b"]),
            (&["crates/x/src/**"], &["README.md", "crates/y", "docs", "src"]),
            (&["README.md"], &[]),
            (&["**/*.md"], &[]),
        ] {
            let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
            let mut found = WriteScope::new(&globs).unwrap().protected(folder.path());
            found.sort();
            let expected: Vec<_> = protected.iter().map(|path| folder.path().join(path)).collect();
            assert_eq!(found, expected, "{globs:?}");
        }
    }

    #[test]
    fn a_glob_that_does_not_read_is_refused_and_allows_nothing() {
        let error = WriteScope::new(&["src/[".to_owned()]).unwrap_err();
        assert_eq!(error.code, ErrorCode::WriteScopeInvalid);
    }
}
