//! The tests that a check's command ran, as its runner reported them.

use super::additions::ViewOrder;
use super::{Originals, Round};
use crate::blocking::blocking;
use crate::tool::scan::{Ignores, walk};
use crate::tool::{ErrorCode, RelPath, ToolError, ToolOutcome, Workspace};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use surety_common::domain::check::OverlayFiles;
use surety_common::domain::check_inputs::{
    Imports, InputKind, InputRules, TestOperand, asks_for_output_of, asks_recipes_only,
    asks_to_check, asserts, compared_with, compiled_sources, convention_of, has_form,
    helpers_of_script, imported_files, is_all_tests, is_product, language_of, looped_scripts,
    other_scripts_of_recipe, scripts, scripts_of_recipe, test_operands,
};
use surety_common::domain::manifest::{Kind, Manifest};
use surety_common::domain::receipt::{Command, Fact, Inputs};
use surety_common::domain::tests_seen::{
    Project, Recipes, TestRun, count, only_command, recipes_of, script_starts, test_runs,
};

/// The largest file that is read for its recipes, in bytes.
const FILE_LIMIT: u64 = 1 << 20;
/// The most files that help the scripts of one line.
const MAX_HELPERS: usize = 200;
/// The most files that are visited for one name.
const MAX_VISITED: usize = 20_000;

impl Round {
    /// The test runners that a command starts with these check inputs. It is read before the command runs,
    /// because what it tests may write.
    pub(super) async fn test_runs(
        &self,
        command: &Command,
        order: &ViewOrder,
    ) -> Result<Vec<TestRun>, ToolError> {
        let line = match command {
            Command::Line(line) => line.clone(),
            Command::Argv(argv) => argv.join(" "),
        };
        self.with_files(order, move |files| test_runs(&line, files)).await
    }

    /// The one command that a line comes to with these check inputs.
    pub(super) async fn only_command(
        &self,
        line: &str,
        order: &ViewOrder,
    ) -> Result<Option<String>, ToolError> {
        let line = line.to_owned();
        self.with_files(order, move |files| only_command(&line, files)).await
    }

    /// The commands of the recipes and scripts of a line with these check inputs, each with its folder, and the line
    /// itself; and whether it asks for a recipe that may stand where it is not seen.
    pub(super) async fn commands_of(
        &self,
        line: &str,
        order: &ViewOrder,
    ) -> Result<(Vec<(String, String)>, bool), ToolError> {
        let line = line.to_owned();
        let read = move |files: &Files<'_>| {
            let Recipes { mut commands, is_hidden, .. } = recipes_of(&line, files);
            commands.push((String::new(), line));
            (commands, is_hidden)
        };
        self.with_files(order, read).await
    }

    /// The commands of recipes that lines ask for and that the start has not, as the workspace has them now.
    pub(super) async fn asked_commands(
        &self,
        imports: &Imports,
        lines: &[&str],
    ) -> Result<BTreeMap<String, Vec<String>>, ToolError> {
        let lines: Vec<String> =
            lines.iter().filter(|it| imports.is_lacking(it)).map(|it| (*it).to_owned()).collect();
        if lines.is_empty() {
            return Ok(BTreeMap::new());
        }
        let folder = Arc::clone(&self.setup.folder);
        blocking(move || {
            let workspace = folder.workspace()?;
            let in_folder = |(folder, command): (String, String)| match folder.as_str() {
                "" => command,
                folder => format!("cd '{}' && {command}", folder.replace('\'', "'\\''")),
            };
            let of_line = |line: String| {
                let commands = recipes_of(&line, &AsItIs(&workspace)).commands;
                (line, commands.into_iter().map(in_folder).collect())
            };
            Ok(lines.into_iter().map(of_line).collect())
        })
        .await?
    }

    async fn with_files<T: Send + 'static>(
        &self,
        order: &ViewOrder,
        read: impl FnOnce(&Files<'_>) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let (folder, rules) = (Arc::clone(&self.setup.folder), self.setup.rules.clone());
        let given = self.originals.get().filter(|_| order.inputs != Inputs::AsLeft);
        let overlay = self.setup.additions.overlays.get(&order.overlay).cloned();
        let originals = given.map(|given| Arc::clone(&given.originals)).unwrap_or_default();
        blocking(move || {
            let workspace = folder.workspace()?;
            let overlay = overlay.as_deref();
            let files =
                Files { workspace: &workspace, originals: &originals, rules: &rules, overlay };
            Ok(read(&files))
        })
        .await?
    }
}

/// What the recipes of a line do at the start.
pub(super) struct StartRecipes {
    /// The scripts that they start and that are a part of the check: by their names, or because they start tests. And what
    /// they compare with what the product does.
    pub(super) scripts: Vec<String>,
    /// What these scripts and those of the line import that helps them to check.
    pub(super) helpers: Vec<String>,
    /// The targets of make that they visit and that are no sources, ignored ones apart: what make finds there it does not make again.
    pub(super) targets: Vec<String>,
    /// Those without a rule that are not there.
    pub(super) sought: Vec<String>,
    /// Whether each command of the line asks for a recipe that is not there.
    pub(super) is_lacking: bool,
}

/// Reads the recipes of a line at the start. It blocks.
pub(super) fn start_recipes(workspace: &Workspace, start: &Manifest, line: &str) -> StartRecipes {
    let project = AsItIs(workspace);
    let Recipes { commands, bare, targets, implicit, by_own_rules, is_lacking, .. } =
        recipes_of(line, &project);
    // A file of the start in their place may be a script that nothing makes.
    let is_new = |path: &String| {
        workspace
            .locate(path)
            .and_then(|place| workspace.kind(&place))
            .is_ok_and(|kind| kind.is_none())
    };
    // A source that git ignores is no source that a person writes.
    let is_generated = |path: &str| start.get(path.as_bytes()).is_some_and(|entry| entry.ignored);
    let is_test = |path: &str| convention_of(path) == Some(InputKind::Test);
    let of_command = |(folder, command): &(String, String)| {
        let wraps = |path: &String| script_starts(path, &project, &is_test);
        let mut found = scripts_of_recipe(folder, command);
        found.retain(|path| !asks_for_output_of(line, path) || wraps(path));
        found.extend(other_scripts_of_recipe(folder, command).into_iter().filter(wraps));
        found
    };
    let own = (String::new(), line.to_owned());
    let all: Vec<(String, String)> = commands.iter().cloned().chain([own]).collect();
    let given = all.iter().flat_map(|(folder, it)| test_operands(folder, it));
    let given = given.flat_map(|operand| files_of_operand(&operand, start));
    let given = given.filter(|path| {
        convention_of(path).is_none() && !is_product(path) && loads_another(path, start, &project)
    });
    let mut found: Vec<String> = commands.iter().flat_map(of_command).chain(given).collect();
    let is_checking = |path: &String| checks_another(path, start, &project);
    // What a line itself compiles is compiled to be checked.
    let mut compiled = compiled_sources("", line);
    if asks_to_check(line) {
        let others = bare.iter().flat_map(|(folder, it)| other_scripts_of_recipe(folder, it));
        found.extend(others.filter(is_checking));
        compiled.extend(commands.iter().flat_map(|(folder, it)| compiled_sources(folder, it)));
    }
    found.extend(compiled.into_iter().flat_map(|sources| test_programs(sources, start, &project)));
    found.extend(looped_scripts(&all, start));
    let of_line = scripts(line).into_iter().map(|script| script.path);
    let started: Vec<String> = of_line.chain(found.iter().cloned()).collect();
    let helpers = helpers_of(&started, start, &project);
    found.extend(started.iter().filter_map(|path| own_interpreter(path, &project)));
    found.extend(compared_with(&all, start));
    StartRecipes {
        scripts: found,
        helpers,
        targets: targets
            .into_iter()
            .chain(implicit.into_iter().filter(is_new))
            .filter(|target| language_of(target).is_none() || is_generated(target))
            .collect(),
        sought: by_own_rules.into_iter().filter(is_new).collect(),
        is_lacking: is_lacking
            && commands.is_empty()
            && asks_recipes_only(line)
            && test_runs(line, &project).is_empty(),
    }
}

/// What scripts import that helps them to check, and what that imports.
fn helpers_of(scripts: &[String], start: &Manifest, project: &AsItIs<'_>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut left: Vec<String> = scripts.iter().filter(|path| !is_product(path)).cloned().collect();
    while let Some(path) = left.pop() {
        let text = project.read(&path).unwrap_or_default();
        for file in helpers_of_script(&path, &imported_files(&path, &text), start) {
            if !found.contains(&file) && found.len() < MAX_HELPERS {
                left.push(file.clone());
                found.push(file);
            }
        }
    }
    found
}

/// The program of the workspace that a script names in its first line.
fn own_interpreter(path: &str, project: &AsItIs<'_>) -> Option<String> {
    let text = project.read(path)?;
    let named = text.lines().next()?.strip_prefix("#!")?.split_whitespace().next()?;
    let is_own = named.contains('/') && !named.starts_with('/') && !named.contains("..");
    is_own.then(|| named.trim_start_matches("./").to_owned())
}

/// The files of the start that a runner of tests is given.
fn files_of_operand(operand: &TestOperand, start: &Manifest) -> Vec<String> {
    let files = || {
        let files = start.entries().iter().filter(|it| !it.ignored && it.kind != Kind::Folder);
        let paths = files.map(|entry| String::from_utf8_lossy(&entry.path).into_owned());
        paths.filter(|path| language_of(path) == Some(operand.language))
    };
    let of_path = |path: &String| -> Vec<String> {
        // In a folder a runner looks for files by the names of tests.
        files().filter(|file| file == path || has_form(file, path)).collect()
    };
    operand.paths.iter().map(of_path).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Whether a file has nothing but tests and loads another one of the start: what tests itself is the product.
fn loads_another(path: &str, start: &Manifest, project: &AsItIs<'_>) -> bool {
    let text = project.read(path).unwrap_or_default();
    is_all_tests(path, &text)
        && imported_files(path, &text).iter().any(|file| start.get(file.as_bytes()).is_some())
}

/// Whether a script compares what another file of the start does. That file is then the product, and not the script.
fn checks_another(path: &str, start: &Manifest, project: &AsItIs<'_>) -> bool {
    let text = project.read(path).unwrap_or_default();
    let is_there = |path: &str| start.get(path.as_bytes()).is_some_and(|it| it.kind == Kind::File);
    let is_of_shell = matches!(language_of(path), Some("shell") | None);
    asserts(path, &text)
        && match is_of_shell {
            true => script_starts(path, project, &is_there),
            false => loads_another(path, start, project),
        }
}

/// Of the sources of a program, those that start it and compare what another one does.
fn test_programs(
    sources: Vec<String>,
    start: &Manifest,
    project: &AsItIs<'_>,
) -> impl Iterator<Item = String> {
    let has_others = sources.len() > 1;
    sources.into_iter().filter(move |path| {
        let text = project.read(path).unwrap_or_default();
        !is_product(path)
            && asserts(path, &text)
            && (has_others || loads_another(path, start, project))
    })
}

/// The recipes of a workspace as it is.
struct AsItIs<'w>(&'w Workspace);

impl Project for AsItIs<'_> {
    fn read(&self, path: &str) -> Option<String> {
        let bytes = self.0.read(&self.0.locate(path).ok()?, FILE_LIMIT).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn all(&self, name: &str) -> Vec<(String, String)> {
        let text = |path: &RelPath| {
            let bytes = self.0.read(path, FILE_LIMIT).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        files_of_name(self.0, name, text)
    }
}

/// Adds what the runners reported to the facts of a command that ended. Answers how many tests ran; none where
/// a runner did not say.
pub(super) fn add_counts(outcome: &mut ToolOutcome, runs: Vec<TestRun>) -> Option<u64> {
    let mut all = Some(0_u64);
    for run in runs.into_iter().filter(|run| !run.in_scripts) {
        let runner = run.name();
        // A command that failed may have ended before its runners.
        let run = TestRun { may_be_silent: run.may_be_silent || !outcome.success, ..run };
        let counts = count(&run, &outcome.output);
        all = all.zip(counts).map(|(all, counts)| all.saturating_add(counts.ran));
        if let Some(counts) = counts {
            outcome.facts.push(Fact::Tests { runner, counts });
        }
    }
    all
}

/// The files as the runners of a view read them.
struct Files<'w> {
    workspace: &'w Workspace,
    originals: &'w Originals,
    rules: &'w InputRules,
    overlay: Option<&'w OverlayFiles>,
}

impl Files<'_> {
    fn text(&self, path: &RelPath) -> Option<String> {
        let name = path.as_path().as_os_str().as_bytes();
        let covered = std::str::from_utf8(name).ok().and_then(|name| self.overlay?.get(name));
        if let Some(content) = covered {
            return Some(String::from_utf8_lossy(content).into_owned());
        }
        if let Some(text) = self.originals.text(name).filter(|_| !self.rules.may_change(name)) {
            return Some(text.to_owned());
        }
        let bytes = self.workspace.read(path, FILE_LIMIT).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Project for Files<'_> {
    fn read(&self, path: &str) -> Option<String> {
        self.text(&self.workspace.locate(path).ok()?)
    }

    fn all(&self, name: &str) -> Vec<(String, String)> {
        files_of_name(self.workspace, name, |path| self.text(path))
    }
}

/// The paths and the texts of all files with a name.
fn files_of_name(
    workspace: &Workspace,
    name: &str,
    text: impl Fn(&RelPath) -> Option<String>,
) -> Vec<(String, String)> {
    let (mut texts, mut visited) = (Vec::new(), 0);
    let visit = &mut |found: crate::tool::scan::Found<'_>| {
        visited += 1;
        if found.path.as_path().file_name() == Some(OsStr::new(name)) {
            let path = found.path.as_path().to_string_lossy().into_owned();
            texts.extend(text(found.path).map(|text| (path, text)));
        }
        if visited < MAX_VISITED {
            return Ok(());
        }
        Err(ToolError::new(ErrorCode::TooLarge, "too many files to visit them all"))
    };
    if let Err(error) = walk(workspace, &RelPath::root(), Ignores::Gitignore, visit) {
        tracing::debug!(%error, name, root = %Path::display(workspace.root()), "round: files of a name were searched in a part of the workspace only");
    }
    texts
}
