//! The write scope of a step.

use crate::tool::error::{ErrorCode, ToolError};
use globset::GlobSet;
use std::path::Path;
use surety_common::domain::scope::glob_set;

/// The compiled globs of a step's write scope. Without any, the whole workspace is allowed.
#[derive(Debug, Clone)]
pub struct WriteScope {
    globs: Option<GlobSet>,
}

impl WriteScope {
    /// A scope that allows the whole workspace.
    pub const fn whole() -> Self {
        Self { globs: None }
    }

    /// Compiles a step's globs, as [`glob_set`] does.
    ///
    /// # Errors
    /// `write_scope_invalid` with the first glob that does not read.
    pub fn new(globs: &[String]) -> Result<Self, ToolError> {
        if globs.is_empty() {
            return Ok(Self::whole());
        }
        let globs = glob_set(globs)
            .map_err(|error| ToolError::new(ErrorCode::WriteScopeInvalid, error.to_string()))?;
        Ok(Self { globs: Some(globs) })
    }

    /// Whether a path relative to the workspace's root may be written.
    pub fn allows(&self, path: &Path) -> bool {
        self.globs.as_ref().is_none_or(|set| set.is_match(path))
    }
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
    fn a_glob_that_does_not_read_is_refused_and_allows_nothing() {
        let error = WriteScope::new(&["src/[".to_owned()]).unwrap_err();
        assert_eq!(error.code, ErrorCode::WriteScopeInvalid);
    }
}
