//! Check inputs: the files that decide how a check behaves, and what a run did to them.
//!
//! ```text
//!   path ---> convention: a test, a runner's configuration, a name that shadows a module
//!   line ---> named: the scripts that a check's line starts, unless other files import them
//!   link ---> what a check input of the start leads to
//!   policy -> protect adds, may_change takes away
//!        \--> StartInputs --> Exam: what differs from the start, and how a view gets the originals back
//! ```
//!
//! Everything here is decided from paths, manifests and the imports of the start. Operands of a line are data
//! under test and never check inputs.

mod asked;
mod assumed;
mod beside;
mod blocks;
mod cargo_keys;
mod cargo_origins;
mod configuration;
mod convention;
mod dependencies;
mod dependency_lists;
mod ecosystem;
mod exam;
mod fixtures;
mod git;
mod git_names;
mod git_stored;
mod helpers;
mod ignored;
mod imports;
mod interpreter;
mod json_text;
mod keys;
mod keys_back;
mod language;
mod line;
mod linked;
mod loads;
mod looped;
mod makefile;
mod named_path;
mod namesakes;
mod node_origins;
mod node_values;
mod operands;
mod origins;
mod overwritten;
mod packages;
mod paired;
mod parts;
mod perl;
mod python_keys;
mod reading;
mod reftable;
mod ruling;
mod selection;
mod shadow;
mod start;
mod start_tests;
mod statements;
mod texts;
mod toml_text;
mod tsconfig;
mod unseen;
mod visits;
mod words;
mod xml;

#[cfg(test)]
mod tests;

pub use asked::{asks_for_output_of, asks_recipes_only, asks_to_check};
pub use assumed::{assumptions, assumptions_at_start};
pub use convention::convention_of;
pub use dependencies::added_dependencies;
pub use ecosystem::{ecosystem_of, installs, is_installed, is_mixed};
pub use exam::{Difference, Exam};
pub use git::{GitChange, GitState, Moved, effective_configuration, read_packed, upstreams};
pub use git_names::short_names;
pub use helpers::helpers_of_script;
pub use ignored::{
    IGNORE_FILE, is_hidden_where_ignored, is_ignore_file, is_ignored_input, is_unmade_input,
};
pub use imports::{Imports, Source, imported_files, imported_files_from};
pub use keys::{is_merged, merged, merged_added};
pub use keys_back::{KeysBack, Now, Paths};
pub use language::language_of;
pub use line::{Role, Script, is_product, names as is_named, scripts, scripts_in};
pub use loads::{imports_package, imports_unseen, search_folders};
pub use looped::looped_scripts;
pub use makefile::{StartFiles, is_compiled_by_make, is_copied_by_make, is_makefile, only_adds};
pub use operands::{
    TestOperand, asserts, compiled_sources, has_form, is_all_tests, options_and_operands,
    test_operands,
};
pub use overwritten::{facts_of_compared, facts_of_overwritten, overwrites, overwritten_in};
pub use packages::{Origin, is_named_anew, replaced_package, vendored};
pub use paired::compared_with;
pub use reading::reads_and_runs;
pub use reftable::Tables;
pub use ruling::{
    CheckRun, Failure, Notes, ORIGINALS_NOT_RUN, Ruling, facts_of_ignored, names_ignored, rule,
};
pub use shadow::source_of_byte_code;
pub use start::{Assumed, StartInputs, imports_wanted, other_scripts_of_recipe, scripts_of_recipe};
pub use start_tests::{StartTests, is_setting_of_tests};
pub use unseen::{not_made, unseen_in};
pub use words::is_of_ci;

use super::manifest::{Entry, Manifest};
use super::problem::{Code, Problem};
use super::run::Policy;
use super::scope::{glob_set, with_folders};
use globset::GlobSet;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The most globs that one key of a policy may have.
const MAX_GLOBS: usize = 100;
/// Folders of what tools make, besides those of package managers.
const MADE: &[&str] = &[
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".cache",
    ".vite",
    "target",
    "dist",
    "build",
    "coverage",
];
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
    /// It belongs to the repository: configuration, hooks, attributes, references.
    Git,
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
            Self::Git => "git",
        }
    }
}

/// Which paths are check inputs, by convention and by the policy of a run.
#[derive(Debug, Clone, Default)]
pub struct InputRules {
    protect: GlobSet,
    protected: Vec<String>,
    may_change: GlobSet,
    /// Those of them that name the repository: no glob reaches into it by chance.
    may_change_git: GlobSet,
    /// Globs of the namespace, which win over those of the run.
    always: GlobSet,
    /// Globs of both that protect ignored paths too.
    even_ignored: GlobSet,
    /// Those of them that spell a path.
    spelled: BTreeSet<String>,
    within: Option<GlobSet>,
}

impl InputRules {
    /// The rules of a policy.
    ///
    /// # Errors
    /// `type_mismatch`, naming the key and the glob that does not read.
    pub fn new(protect: &[String], may_change: &[String]) -> Result<Self, Problem> {
        let ignored = even_ignored(protect.iter());
        Ok(Self {
            protect: globs(PROTECT, protect)?,
            protected: protect.to_vec(),
            may_change: globs(MAY_CHANGE, may_change)?,
            may_change_git: globs(MAY_CHANGE, &of_git(may_change))?,
            even_ignored: plain_globs(PROTECT, &ignored)?,
            spelled: spelled(&ignored),
            ..Self::default()
        })
    }

    /// The rules of a run, with those of its namespace.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(policy: &Policy) -> Result<Self, Problem> {
        let within = match policy.may_change_within.as_slice() {
            [] => None,
            within => Some(globs("may_change_within", within)?),
        };
        let always = globs("always_protect", &policy.always_protect)?;
        let ignored = protected_even_ignored(policy);
        let (even_ignored, spelled) = (plain_globs(PROTECT, &ignored)?, spelled(&ignored));
        let of_run = Self::new(&policy.protect, &policy.may_change)?;
        Ok(Self { always, even_ignored, spelled, within, ..of_run })
    }

    /// Why a path is a check input of every check; none when it is none.
    pub fn kind_of(&self, path: &[u8]) -> Option<InputKind> {
        let as_path = Path::new(OsStr::from_bytes(path));
        if self.may_change(path) {
            return None;
        }
        if self.protect.is_match(as_path) || self.always.is_match(as_path) {
            return Some(InputKind::Protected);
        }
        convention_of(&String::from_utf8_lossy(path))
    }

    /// Whether the policy protects a path that is ignored. What tools make and install is protected only where a glob
    /// spells it.
    pub fn protects_ignored(&self, path: &[u8]) -> bool {
        let as_path = Path::new(OsStr::from_bytes(path));
        if !self.even_ignored.is_match(as_path) || self.may_change(path) {
            return false;
        }
        let text = String::from_utf8_lossy(path);
        let is_made = text.split('/').any(|part| MADE.contains(&part)) || is_installed(&text);
        !is_made || self.spelled.contains(text.as_ref())
    }

    /// Whether a path that is ignored is a check input all the same, where it was there at the start.
    pub fn keeps_ignored(&self, path: &[u8]) -> bool {
        self.protects_ignored(path)
            || !self.may_change(path) && is_ignored_input(&String::from_utf8_lossy(path))
    }

    /// The first protected glob that names nothing at the start.
    pub fn unmatched(&self, start: &Manifest) -> Option<&str> {
        let names_nothing = |glob: &&String| {
            let glob = glob_set(std::slice::from_ref(*glob));
            let is_match = |entry: &Entry| {
                let path = Path::new(OsStr::from_bytes(&entry.path));
                glob.as_ref().is_ok_and(|glob| glob.is_match(path))
            };
            !start.entries().iter().any(is_match)
        };
        self.protected.iter().find(names_nothing).map(String::as_str)
    }

    /// Whether a glob of the policy names a path.
    pub fn names(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        [&self.protect, &self.may_change, &self.always].iter().any(|globs| globs.is_match(path))
    }

    /// Whether the policy says that a run may change a path.
    pub fn may_change(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.may_change.is_match(path)
            && !self.always.is_match(path)
            && self.within.as_ref().is_none_or(|within| within.is_match(path))
    }

    /// Whether the policy says that a run may change a part of the repository, by a glob that names the repository.
    pub fn may_change_git(&self, path: &[u8]) -> bool {
        self.may_change_git.is_match(Path::new(OsStr::from_bytes(path))) && self.may_change(path)
    }
}

/// The globs that name the repository.
fn of_git(globs: &[String]) -> Vec<String> {
    let parts = |glob: &&String| glob.split('/').any(|part| part == ".git");
    globs.iter().filter(parts).cloned().collect()
}

/// The globs of a policy that protect ignored paths too: those whose last part names a file. Others, and those that name a
/// file in any folder, would name what tools make and install.
pub fn protected_even_ignored(policy: &Policy) -> Vec<String> {
    // Those of the namespace first: a long list of a request displaces none of them.
    even_ignored(policy.always_protect.iter().chain(&policy.protect))
}

fn even_ignored<'g>(globs: impl Iterator<Item = &'g String>) -> Vec<String> {
    let names_file = |glob: &&String| {
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        let last = glob.rsplit('/').next().unwrap_or_default();
        !glob.starts_with("**") && !matches!(last, "" | "**") && !glob.ends_with("**/*")
    };
    globs.filter(names_file).take(MAX_GLOBS).cloned().collect()
}

/// The paths that globs spell.
fn spelled(globs: &[String]) -> BTreeSet<String> {
    let is_path = |glob: &&String| !glob.contains(['*', '?', '[', '{', '\\']);
    let path = |glob: &String| glob.strip_prefix("./").unwrap_or(glob).to_owned();
    globs.iter().filter(is_path).map(path).collect()
}

/// Reads the globs of a key of a namespace's policy.
///
/// # Errors
/// As [`InputRules::new`].
pub fn read_globs(key: &str, texts: &[String]) -> Result<GlobSet, Problem> {
    globs(key, texts).map_err(|problem| Problem { field: Some(key.to_owned()), ..problem })
}

/// As [`plain_globs`], where the name of a folder stands for all below it too.
fn globs(key: &str, globs: &[String]) -> Result<GlobSet, Problem> {
    check_globs(key, globs)?;
    set_of(key, &with_folders(globs))
}

fn plain_globs(key: &str, globs: &[String]) -> Result<GlobSet, Problem> {
    check_globs(key, globs)?;
    set_of(key, globs)
}

/// Whether there are not too many, and each is a path inside the workspace.
fn check_globs(key: &str, globs: &[String]) -> Result<(), Problem> {
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
    Ok(())
}

fn set_of(key: &str, globs: &[String]) -> Result<GlobSet, Problem> {
    glob_set(globs).map_err(|error| {
        let message = format!("has a glob that does not read: {error}");
        Problem::at(Code::TypeMismatch, format!("policy.{key}"), message)
    })
}
