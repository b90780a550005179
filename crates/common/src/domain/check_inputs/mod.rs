//! Check inputs: the files that decide how a check behaves, and what a run did to them.
//!
//! ```text
//!   path ---> convention: a test, a runner's configuration, a name that shadows a module
//!   line ---> named: the scripts that a check's line starts
//!   policy -> protect adds, may_change takes away
//!        \--> Exam: what differs from the start, and how a view gets the originals back
//! ```
//!
//! Everything here is decided from paths and manifests. Operands of a line are data under test and never
//! check inputs.

mod convention;
mod exam;
mod keys;
mod line;
mod ruling;

#[cfg(test)]
mod tests;

pub use convention::{convention_of, language_of};
pub use exam::{Difference, Exam};
pub use keys::{is_merged, merged};
pub use line::{Script, is_product, scripts};
pub use ruling::{CheckRun, Failure, Notes, Ruling, rule};

use super::problem::{Code, Problem};
use super::scope::glob_set;
use globset::GlobSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The most globs that one key of a policy may have.
const MAX_GLOBS: usize = 100;
/// The policy key with further check inputs.
pub const PROTECT: &str = "protect";
/// The policy key with what is no check input.
pub const MAY_CHANGE: &str = "may_change";

/// Why a file is a check input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InputKind {
    /// A test, a helper in a test folder, a fixture or a snapshot.
    Test,
    /// The configuration of a runner, a recipe, or of continuous integration.
    Configuration,
    /// It is found in the place of a standard module or a program.
    Shadow,
    /// A check's line starts it.
    Script,
    /// The policy protects it.
    Protected,
}

impl InputKind {
    /// The value's name in facts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Configuration => "configuration",
            Self::Shadow => "shadow",
            Self::Script => "script",
            Self::Protected => "protected",
        }
    }
}

/// Which paths are check inputs, by convention and by the policy of a run.
#[derive(Debug, Clone, Default)]
pub struct InputRules {
    protect: GlobSet,
    may_change: GlobSet,
}

impl InputRules {
    /// The rules of a policy.
    ///
    /// # Errors
    /// `type_mismatch`, naming the key and the glob that does not read.
    pub fn new(protect: &[String], may_change: &[String]) -> Result<Self, Problem> {
        Ok(Self { protect: globs(PROTECT, protect)?, may_change: globs(MAY_CHANGE, may_change)? })
    }

    /// Why a path is a check input of every check; none when it is none.
    pub fn kind_of(&self, path: &[u8]) -> Option<InputKind> {
        let as_path = Path::new(OsStr::from_bytes(path));
        if self.may_change.is_match(as_path) {
            return None;
        }
        if self.protect.is_match(as_path) {
            return Some(InputKind::Protected);
        }
        convention_of(&String::from_utf8_lossy(path))
    }

    /// Whether the policy says that a run may change a path.
    pub fn may_change(&self, path: &[u8]) -> bool {
        self.may_change.is_match(Path::new(OsStr::from_bytes(path)))
    }
}

fn globs(key: &str, globs: &[String]) -> Result<GlobSet, Problem> {
    let field = format!("policy.{key}");
    if globs.len() > MAX_GLOBS {
        let message = format!("has more than {MAX_GLOBS} globs; join some, or name a folder");
        return Err(Problem::at(Code::TooLarge, field, message));
    }
    let outside = |glob: &&String| {
        glob.is_empty() || glob.starts_with('/') || glob.split('/').any(|part| part == "..")
    };
    if let Some(glob) = globs.iter().find(outside) {
        let message = format!("{glob:?} is no path inside the workspace; name one relative to it");
        return Err(Problem::at(Code::TypeMismatch, field, message));
    }
    glob_set(globs).map_err(|error| {
        let message = format!("has a glob that does not read: {error}");
        Problem::at(Code::TypeMismatch, field, message)
    })
}
