//! What a round has to know of the start besides the manifest: what its sources import, and how git behaved.

use super::opening::OWN_TESTS;
use super::originals::Originals;
use super::tests_seen::{StartRecipes, start_recipes};
use super::threads::read_by_threads;
use crate::snapshot::{Check, Repository};
use crate::tool::project::TestCommand;
use crate::tool::{RelPath, ToolError, Workspace, if_readable};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use surety_common::domain::check_inputs::{
    GitState, Imports, InputRules, Source, StartInputs, imports_wanted, is_of_ci, scripts,
};
use surety_common::domain::manifest::{Entry, Kind, Manifest};

use surety_sandbox::folders_of_git;

/// The largest source that is read, and all of them, in bytes.
const SOURCE_LIMIT: u64 = 1 << 20;
const ALL_SOURCES: u64 = 256 << 20;
/// Sources that are held in memory at once, and their bytes.
const WAVE: usize = 256;
const WAVE_BYTES: u64 = 16 << 20;

/// What is known of the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartFacts {
    /// What its sources import.
    pub imports: Imports,
    /// The repository; empty where there is none, or where it was not looked at.
    pub git: GitState,
}

/// For which checks the start is read.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Which files are check inputs.
    pub rules: &'a InputRules,
    /// The lines of checks that run with the original check inputs.
    pub lines: &'a [&'a str],
    /// The workspace, where the folder that is read holds a revision of it: its repository is then not as it
    /// was.
    pub revision_of: Option<&'a Path>,
}

impl StartFacts {
    /// Reads the start: its facts, and the content of check inputs. It blocks.
    ///
    /// # Errors
    /// As [`Originals::read`].
    pub fn read(
        workspace: &Workspace,
        start: &Manifest,
        reading: Reading<'_>,
        check: Check<'_>,
    ) -> Result<(Self, Originals), ToolError> {
        let Reading { rules, lines, revision_of } = reading;
        let root = revision_of.unwrap_or(workspace.root());
        let of_line = |line: &&str| ((*line).to_owned(), start_recipes(workspace, start, line));
        let mut recipes: Vec<(String, StartRecipes)> = lines.iter().map(of_line).collect();
        let own_tests = TestCommand::of(workspace);
        if let Some(command) = own_tests {
            recipes.push((OWN_TESTS.to_owned(), start_recipes(workspace, start, command.line())));
        }
        let lines: Vec<&str> = lines.iter().copied().chain([OWN_TESTS]).collect();
        let lines = lines.as_slice();
        // What scripts of checks import, products do not.
        let checking = scripts_of_checks(&recipes);
        let scripts: Vec<String> = recipes
            .iter()
            .flat_map(|(_, recipes)| recipes.scripts.iter().chain(&recipes.helpers).cloned())
            .collect();
        let wanted = imports_wanted(rules, start, root.as_os_str().as_bytes(), lines, &scripts);
        let mut imports = imports(workspace, start, rules, (&wanted, &checking), check)?;
        if let Some(command) = own_tests {
            imports.set_project_tests(command.line());
        }
        for (line, recipes) in recipes {
            recipes.scripts.into_iter().for_each(|script| imports.add_recipe(&line, script));
            recipes.helpers.into_iter().for_each(|file| imports.add_helper(&line, file));
            recipes.targets.into_iter().for_each(|target| imports.add_target(&line, target));
            recipes.sought.into_iter().for_each(|target| imports.add_sought(&line, target));
            if recipes.is_lacking {
                imports.add_lacking(&line);
            }
        }
        let inputs = StartInputs::new(rules, &imports, start, root.as_os_str().as_bytes());
        let mut originals = Originals::read(workspace, start, &inputs, lines, check)?;
        let mut repository = match revision_of {
            None => Repository::around(root, start),
            Some(_) => Repository::default(),
        };
        if !repository.state.is_empty() {
            let folders = folders_of_git(root).into_iter();
            let folders = folders.map(|folder| folder.into_os_string().into_encoded_bytes());
            repository.state.set_outside(folders);
        }
        for (path, mode, content) in repository.files {
            // What lies outside the workspace is in no view.
            if !path.starts_with(b"/") {
                originals.add_file(path, mode, content);
            }
        }
        Ok((Self { imports, git: repository.state }, originals))
    }

    /// The folders outside of the workspace that git reads; none where an earlier version did not keep them.
    pub fn folders_of_git(&self) -> Option<Vec<PathBuf>> {
        let folders = self.git.outside()?.into_iter();
        Some(folders.map(|folder| PathBuf::from(OsString::from_vec(folder))).collect())
    }

    /// The stored form: the imports, and in front their length.
    pub fn encode(&self) -> Vec<u8> {
        let imports = self.imports.encode();
        let length = u64::try_from(imports.len()).unwrap_or(u64::MAX);
        [&length.to_be_bytes(), imports.as_slice(), &self.git.encode()].concat()
    }

    /// Reads the stored form; none when it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
        let (imports, git) = rest.split_at_checked(length)?;
        Some(Self { imports: Imports::decode(imports), git: GitState::decode(git)? })
    }
}

/// The scripts that recipes start to check something, and what helps them, with the scripts of their lines.
fn scripts_of_checks(recipes: &[(String, StartRecipes)]) -> Vec<String> {
    let of_line = |(line, found): &(String, StartRecipes)| {
        let own =
            scripts(line).into_iter().filter(|it| !it.is_product && !found.helpers.is_empty());
        let own = own.map(|script| script.path);
        found.scripts.iter().chain(&found.helpers).cloned().chain(own).collect::<Vec<_>>()
    };
    recipes.iter().flat_map(of_line).collect()
}

fn imports(
    workspace: &Workspace,
    start: &Manifest,
    rules: &InputRules,
    (wanted, scripts): (&BTreeSet<String>, &[String]),
    check: Check<'_>,
) -> Result<Imports, ToolError> {
    let mut imports = Imports::of(start);
    let mut left = ALL_SOURCES;
    let mut files = Vec::new();
    for entry in start.entries() {
        let path = String::from_utf8_lossy(&entry.path);
        let is_source = entry.kind == Kind::File && !entry.ignored;
        if is_source && entry.size <= SOURCE_LIMIT.min(left) && imports.reads(&path, wanted) {
            left -= entry.size;
            files.push((entry, path));
        }
    }
    let read = |(entry, path): &(&Entry, Cow<'_, str>), imports: &Imports| {
        let place = RelPath::root().join(OsStr::from_bytes(&entry.path));
        // What cannot be read imports nothing.
        let Some(text) = if_readable(workspace.read(&place, SOURCE_LIMIT))? else {
            return Ok(None);
        };
        let is_script = || scripts.iter().any(|script| script == path);
        let is_check_input = rules.kind_of(&entry.path).is_some() || is_of_ci(path) || is_script();
        let text = String::from_utf8_lossy(&text);
        Ok(Some(Source::read((path, &text), is_check_input, imports, wanted)))
    };
    let mut rest = files.as_slice();
    while !rest.is_empty() {
        let wave;
        (wave, rest) = rest.split_at(wave_of(rest.iter().map(|(entry, _)| entry.size)));
        let sources = read_by_threads(wave, |file| read(file, &imports), check)?;
        sources.iter().for_each(|source| imports.add(source, wanted));
    }
    Ok(imports)
}

/// How many of the files with these sizes are read at once: one at least.
fn wave_of(sizes: impl Iterator<Item = u64>) -> usize {
    let mut bytes = 0_u64;
    let fits = |size: &u64| {
        bytes = bytes.saturating_add(*size);
        bytes <= WAVE_BYTES
    };
    sizes.take(WAVE).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::{WAVE, WAVE_BYTES, wave_of};

    #[test]
    fn what_is_read_at_once_is_bounded_in_files_and_in_bytes() {
        assert_eq!(wave_of([1; WAVE + 1].into_iter()), WAVE);
        assert_eq!(wave_of([WAVE_BYTES / 2; 3].into_iter()), 2);
        assert_eq!(wave_of([WAVE_BYTES + 1, 1].into_iter()), 1);
    }
}
