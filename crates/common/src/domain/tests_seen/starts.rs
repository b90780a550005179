//! Which test runners a check's line starts.

use super::program::{
    has_extension_of_shell, is_on_its_way, runner_of, runs_nothing, without_wrappers,
};
use super::quiet::{is_quiet, quiet_configuration, sets};
use super::recipe;
use super::runner::Runner;
use super::script_functions::Functions;
use super::script_text::script_lines;
use super::started::{Over, Source, Started, runner_in, source_of};
use super::test_run::TestRun;
use crate::domain::path::Workspace;
use crate::domain::shell_line::{
    Folders, Given, Segment, base_name, folder_of_wrapper, given_to_shell, interpreter_of,
    is_python, is_shell, segments, started_by, texts, unwrapped,
};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The deepest nesting of recipes, scripts and shells that is followed.
const MAX_DEPTH: usize = 8;
/// The most commands that are read for one line.
const MAX_COMMANDS: usize = 2_000;

/// The most files that one makefile includes, those of included ones counted.
const MAX_INCLUDED: usize = 64;
/// The longest script that is followed, in bytes.
const MAX_SCRIPT: usize = 256 << 10;

/// Arguments with which the programs of a project run no test, because they are not asked to.
const RUN_NOTHING: &[&str] = &[
    "--collect-only",
    "--co",
    "--dry-run",
    "--fixtures",
    "--help",
    "--list",
    "--list-tests",
    "--listTests",
    "--no-run",
    "--setup-plan",
    "--showConfig",
    "--version",
    "-h",
    "-V",
];

/// The files that a line's runners read, by their paths from the folder in which it runs.
pub trait Project {
    /// The text of a file; none where there is none.
    fn read(&self, path: &str) -> Option<String>;

    /// The paths and the texts of all files with this name.
    fn all(&self, name: &str) -> Vec<(String, String)>;
}

/// The runners that a line starts itself or by a recipe of make, npm, yarn, pnpm or just.
pub fn test_runs(line: &str, project: &dyn Project) -> Vec<TestRun> {
    let mut search = Search::new(project);
    search.line(line, &Place::default());
    let mut runs: Vec<(bool, TestRun)> = Vec::new();
    for start in search.found {
        let Start { runner, by_recipe, in_script, file, .. } = start;
        let together = |(recipe, run): &(bool, TestRun)| {
            (*recipe, run.in_scripts) == (by_recipe, in_script)
                && (by_recipe || run.runners.contains(&runner))
        };
        let place = runs.iter().position(together).unwrap_or_else(|| {
            runs.push((by_recipe, TestRun { in_scripts: in_script, ..TestRun::default() }));
            runs.len() - 1
        });
        let Some((_, run)) = runs.get_mut(place) else { continue };
        run.may_be_silent |= start.may_be_silent;
        run.may_be_uncounted |= start.may_be_uncounted;
        run.is_elsewhere |= start.is_elsewhere;
        let first = |runners: &Vec<Runner>| !runners.contains(&runner);
        if first(&run.runners) {
            run.runners.push(runner);
        }
        match file {
            Some(path) => run.started.push(Started { runner, path }),
            None if first(&run.searching) => run.searching.push(runner),
            None => {}
        }
    }
    runs.into_iter().map(|(_, run)| run).collect()
}

/// What the recipes of a line, and the scripts of shells behind it, come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recipes {
    /// The commands, each with the folder that it runs in.
    pub commands: Vec<(String, String)>,
    /// Those that stand in the recipes themselves, under no condition and with their output shown.
    pub bare: Vec<(String, String)>,
    /// The targets of make that the line visits and that have a rule, by their paths.
    pub targets: BTreeSet<String>,
    /// Those that it visits and that make may make by a pattern.
    pub implicit: BTreeSet<String>,
    /// Those that it visits and that only make's own rules can make.
    pub by_own_rules: BTreeSet<String>,
    /// Whether it asks for a recipe that is not there.
    pub is_lacking: bool,
    /// Whether it asks for a recipe that may stand where it is not seen.
    pub is_hidden: bool,
}

/// The recipes of a line, and what the scripts of shells that it starts do.
pub fn recipes_of(line: &str, project: &dyn Project) -> Recipes {
    let mut search = Search::new(project);
    search.line(line, &Place::default());
    search.recipes
}

/// Whether a script of a shell, or one that it starts, starts a runner of tests or one of these files.
pub fn script_starts(path: &str, project: &dyn Project, is_test: &dyn Fn(&str) -> bool) -> bool {
    let mut search = Search::new(project);
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let place = Place::default();
    let inner = search.script(path, &place);
    let in_folder = |word: &str| match folder {
        "" => is_test(word),
        folder => is_test(word) || is_test(&format!("{folder}/{word}")),
    };
    let names_test = |(_, command): &(String, String)| {
        let mut words = segments(command).into_iter().flat_map(|segment| segment.words);
        words.any(|word| word != name && in_folder(word.trim_start_matches("./")))
    };
    inner || search.recipes.commands.iter().any(names_test)
}

/// One runner that is started.
#[derive(Clone)]
struct Start {
    runner: Runner,
    by_recipe: bool,
    may_be_silent: bool,
    may_be_uncounted: bool,
    is_elsewhere: bool,
    /// Whether a script starts it, under conditions that are not followed.
    in_script: bool,
    /// The test file that starts it; none where it looks for tests.
    file: Option<String>,
}

/// Where a command stands.
#[derive(Debug, Clone, Default)]
struct Place {
    /// The folder, from the one in which the check runs; empty for that one, else with a slash at its end.
    folder: String,
    depth: usize,
    by_recipe: bool,
    may_be_silent: bool,
    /// Whether its output goes elsewhere.
    is_elsewhere: bool,
    /// Whether the line goes on beside it.
    background: bool,
}

impl Place {
    fn inside(&self, folder: &str) -> Self {
        let whole = format!("{}{folder}", self.folder);
        // What lies outside is no folder with recipes.
        let folder = match Workspace::new("").resolve(&whole) {
            Some(path) if path.is_empty() => String::new(),
            Some(path) => format!("{path}/"),
            None => format!("{whole}/"),
        };
        Self { folder, ..self.clone() }
    }

    fn deeper(&self, by_recipe: bool) -> Self {
        let by_recipe = self.by_recipe || by_recipe;
        Self { depth: self.depth + 1, by_recipe, ..self.clone() }
    }
}

struct Search<'r> {
    project: &'r dyn Project,
    /// The manifests of all packages of JavaScript; read once.
    manifests: OnceCell<Rc<Vec<(String, String)>>>,
    left: usize,
    found: Vec<Start>,
    recipes: Recipes,
    /// The functions of the scripts that are followed.
    functions: Functions,
}

impl<'r> Search<'r> {
    fn new(project: &'r dyn Project) -> Self {
        let (found, recipes) = (Vec::new(), Recipes::default());
        let (manifests, functions) = (OnceCell::new(), Functions::default());
        Self { project, manifests, left: MAX_COMMANDS, found, recipes, functions }
    }
}

impl Search<'_> {
    fn file(&self, place: &Place, name: &str) -> Option<String> {
        self.project.read(&format!("{}{name}", place.folder))
    }

    fn line(&mut self, line: &str, place: &Place) {
        let mut places = Folders::new(place.clone());
        for segment in segments(line) {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let goes = |place: &Place, to: Option<&str>| {
                to.map_or_else(|| place.clone(), |folder| place.inside(folder))
            };
            if !places.take(&segment, goes) {
                self.segment(&segment, places.now());
            }
        }
    }

    /// Follows the commands of a script that run in another folder because of a line before them: `cd` may stand under a
    /// condition, so they are followed in both.
    fn lines_elsewhere(&mut self, lines: &[String], first: &Place) {
        let mut places = Folders::new(first.clone());
        for segment in lines.iter().flat_map(|line| segments(line)) {
            let goes = |place: &Place, to: Option<&str>| {
                to.map_or_else(|| place.clone(), |folder| place.inside(folder))
            };
            if places.take(&segment, goes) || places.now().folder == first.folder {
                continue;
            }
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.segment(&segment, places.now());
        }
    }

    fn segment(&mut self, segment: &Segment, place: &Place) {
        let mut place = place.clone();
        place.may_be_silent |= segment.conditional || segment.output_elsewhere;
        place.is_elsewhere |= segment.output_elsewhere;
        place.background |= segment.background;
        let words: Vec<&str> = segment.words.iter().map(String::as_str).collect();
        self.command(&words, &place);
    }

    /// Keeps a command of a recipe as text.
    fn keep(&mut self, words: &[&str], place: &Place) {
        let quoted: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let end = if place.background { " &" } else { "" };
        let command = (place.folder.clone(), quoted.join(" ") + end);
        if !place.may_be_silent && !place.background {
            self.recipes.bare.push(command.clone());
        }
        self.recipes.commands.push(command);
    }

    fn command(&mut self, words: &[&str], place: &Place) {
        if place.by_recipe {
            self.keep(words, place);
        }
        let inside = folder_of_wrapper(words).map(|folder| place.inside(folder));
        let place = inside.as_ref().unwrap_or(place);
        let is_wrapped = unwrapped(words).len() < words.len();
        for text in if is_wrapped { texts(words) } else { Vec::new() } {
            self.inner(&text, place);
        }
        let words = without_wrappers(words);
        let Some((program, arguments)) = words.split_first() else { return };
        let name = base_name(program);
        if place.depth > MAX_DEPTH {
            return;
        }
        for called in self.functions.called(&words) {
            self.left = self.left.saturating_sub(1);
            let words: Vec<&str> = called.iter().map(String::as_str).collect();
            if self.left > 0 {
                self.command(&words, &place.deeper(false));
            }
        }
        if is_shell(name) {
            match given_to_shell(name, arguments) {
                Some(Given::Text(line)) => self.inner(line, place),
                Some(Given::File(script)) => drop(self.script(script, place)),
                None => {}
            }
            return;
        }
        if let (".", Some(script)) | ("source", Some(script)) = (*program, arguments.first()) {
            self.script(script, place);
            return;
        }
        // What a shell or a program starts for each file, or by its text.
        let started = started_by(&words);
        if !started.is_empty() {
            return self.command(&started, &place.deeper(false));
        }
        for text in texts(&words) {
            self.inner(&text, place);
        }
        if name != *program && has_extension_of_shell(name) {
            self.script(program, place);
            return;
        }
        let is_own = name != *program && self.is_own(program, name, place);
        if let Some(runner) = runner_of(name, arguments).filter(|_| !is_own) {
            if !runs_nothing(runner, arguments) {
                self.runner(runner, arguments, place);
            }
            return;
        }
        if arguments.iter().any(|argument| RUN_NOTHING.contains(argument)) {
            return;
        }
        if let Some(source) = source_of((name, arguments), is_python(name), &place.folder) {
            self.source(source, place);
            return;
        }
        if let Some(interpreter) = self.interpreter(program, place) {
            let words = [&[interpreter.as_str(), program], arguments].concat();
            return self.command(&words, &place.deeper(false));
        }
        self.recipe(name, arguments, place);
    }

    fn runner(&mut self, runner: Runner, arguments: &[&str], place: &Place) {
        let configured = self.has_quiet_configuration(runner, place);
        self.found.push(Start {
            runner,
            by_recipe: place.by_recipe,
            may_be_silent: place.may_be_silent || configured || is_quiet(runner, arguments),
            may_be_uncounted: runner == Runner::CargoTest && configured
                || is_on_its_way(runner, arguments),
            is_elsewhere: place.is_elsewhere,
            in_script: false,
            file: None,
        });
    }

    /// Whether a program with the name of a runner is one of the project: nothing else has that name, or a recipe makes it, and
    /// not by installing the runner.
    fn is_own(&self, program: &str, name: &str, place: &Place) -> bool {
        let path = format!("{}{}", place.folder, program.trim_start_matches("./"));
        let is_installed = matches!(path.rsplit('/').nth(1), Some("bin" | ".bin" | "Scripts"));
        name == "unittest" || !is_installed && self.recipes.targets.contains(&path)
    }

    /// What reads a program that is started by its path: what its first line names, else a shell, as programs do that are
    /// told that they cannot start a text.
    fn interpreter(&self, program: &str, place: &Place) -> Option<String> {
        if !program.contains('/') {
            return None;
        }
        let text = self.file(place, program.trim_start_matches("./"))?;
        let is_text = text.len() <= MAX_SCRIPT && !text.contains('\0');
        let named = interpreter_of(&text).map(str::to_owned);
        is_text.then(|| named.unwrap_or_else(|| "sh".to_owned()))
    }

    /// Follows a line inside a command.
    fn inner(&mut self, line: &str, place: &Place) {
        if place.depth <= MAX_DEPTH {
            self.line(line, &place.deeper(false));
        }
    }

    /// Looks for the runner that a source starts.
    fn source(&mut self, source: Source<'_>, place: &Place) {
        let found = match source {
            Source::Code(text) => runner_in("-.py", text).map(|found| (found, None)),
            Source::Files(paths) => paths.into_iter().find_map(|path| {
                let text = self.project.read(&path)?;
                Some((runner_in(&path, &text)?, Some(path)))
            }),
        };
        let Some(((runner, over), path)) = found else { return };
        // It may start the runner in any way.
        let (by_recipe, may_be_silent) = (place.by_recipe, true);
        let is_elsewhere = place.is_elsewhere;
        let (in_script, file) = (over == Over::Spawned, path.filter(|_| over == Over::Own));
        self.found.push(Start {
            runner,
            by_recipe,
            may_be_silent,
            may_be_uncounted: false,
            is_elsewhere,
            in_script,
            file,
        });
    }

    /// Follows a script of a shell for the commands that it comes to. Which runners it starts depends on conditions that
    /// are not followed, so their tests are not counted; answers whether there is one.
    fn script(&mut self, path: &str, place: &Place) -> bool {
        let text = self.file(place, path.trim_start_matches("./"));
        let Some(text) = text.filter(|text| text.len() <= MAX_SCRIPT) else { return false };
        let manifests = self.manifests.clone();
        let lines = script_lines(&text, path.rsplit_once('/').map_or("", |(folder, _)| folder));
        let mut functions = self.functions.clone();
        functions.append(Functions::of(&lines));
        let left = self.left;
        let mut inner = Search { left, manifests, functions, ..Search::new(self.project) };
        let place = place.deeper(true);
        lines.iter().for_each(|line| inner.line(line, &place));
        inner.lines_elsewhere(&lines, &place);
        let scripted =
            |start: &Start| Start { in_script: true, may_be_silent: true, ..start.clone() };
        self.found.extend(inner.found.iter().map(scripted));
        self.left = inner.left;
        // A script that another one reads into itself leaves its functions there.
        self.functions = inner.functions;
        self.recipes.commands.append(&mut inner.recipes.commands);
        self.recipes.targets.append(&mut inner.recipes.targets);
        self.recipes.implicit.append(&mut inner.recipes.implicit);
        self.recipes.by_own_rules.append(&mut inner.recipes.by_own_rules);
        self.recipes.is_hidden |= inner.recipes.is_hidden;
        !inner.found.is_empty()
    }

    fn recipe(&mut self, name: &str, arguments: &[&str], place: &Place) {
        let deeper = place.deeper(true);
        match name {
            "make" | "gmake" => {
                let (folder, file, targets) = recipe::make_arguments(arguments);
                let place = folder.map_or_else(|| deeper.clone(), |folder| deeper.inside(folder));
                let names = ["GNUmakefile", "makefile", "Makefile"];
                let names = file.map_or(&names[..], |_| &[]).iter().copied().chain(file);
                let text = names.into_iter().find_map(|name| self.file(&place, name));
                let text =
                    text.map(|text| self.with_included(&text, &place, &mut { MAX_INCLUDED }));
                self.recipes.is_lacking |= text.is_none();
                let made = text.map(|text| recipe::make(&text, &targets)).unwrap_or_default();
                self.recipes.is_lacking |= made.is_lacking;
                self.recipes.is_hidden |= made.is_hidden;
                let path = |name: &String| format!("{}{name}", place.folder);
                self.recipes.targets.extend(made.targets.iter().map(path));
                self.recipes.implicit.extend(made.implicit.iter().map(path));
                self.recipes.by_own_rules.extend(made.by_own_rules.iter().map(path));
                for line in made.lines {
                    self.line(&line, &place);
                }
            }
            "npm" | "yarn" | "pnpm" | "bun" => {
                let recipe::NpmCall { folder, script, packages } =
                    recipe::npm_call(name, arguments);
                let place = folder.map_or_else(|| deeper.clone(), |folder| deeper.inside(folder));
                if let Some((packages, script)) = packages.as_ref().zip(script) {
                    self.script_of_packages(packages, script, &place);
                    if !arguments.contains(&"--include-workspace-root") {
                        return;
                    }
                }
                let text = script.and_then(|_| self.file(&place, "package.json"));
                let scripts = text.zip(script).map(|(text, name)| recipe::npm(&text, name));
                let scripts = scripts.unwrap_or_default();
                self.recipes.is_lacking |= scripts.is_empty();
                if scripts.is_empty() && matches!(name, "yarn" | "pnpm") {
                    // Both start programs of dependencies by their name.
                    self.command(arguments, &place.deeper(false));
                }
                for line in scripts {
                    self.line(&line, &place);
                }
            }
            "just" => {
                let names = ["justfile", "Justfile", ".justfile"];
                let text = names.into_iter().find_map(|name| self.file(&deeper, name));
                let targets: Vec<&str> =
                    arguments.iter().copied().filter(|word| !word.starts_with('-')).collect();
                let has_more = text.as_deref().is_some_and(recipe::just_has_more);
                let lines = text.map(|text| recipe::just(&text, &targets)).unwrap_or_default();
                let elsewhere = ["-d", "-f", "--justfile", "--working-directory"];
                let is_elsewhere = has_more
                    || arguments.iter().any(|word| elsewhere.iter().any(|it| word.starts_with(it)));
                self.recipes.is_lacking |= lines.is_empty() && !is_elsewhere;
                for line in lines {
                    self.line(&line, &deeper);
                }
            }
            _ => {}
        }
    }

    /// Follows a script of the packages of a workspace.
    fn script_of_packages(&mut self, packages: &recipe::Packages<'_>, script: &str, place: &Place) {
        let project = self.project;
        let manifests = self.manifests.get_or_init(|| Rc::new(project.all("package.json")));
        for (path, text) in &*Rc::clone(manifests) {
            let path = path.strip_prefix(&place.folder).unwrap_or_default();
            let Some(folder) = path.strip_suffix("/package.json") else { continue };
            if folder.split('/').any(|part| part == "node_modules") || !packages.has(folder, text) {
                continue;
            }
            let inside = place.inside(folder);
            for line in recipe::npm(text, script) {
                self.line(&line, &inside);
            }
        }
    }

    /// A makefile with those that it includes by their names in their places. The lines stay of those that cannot be
    /// read, as far as rules may be there.
    fn with_included(&self, text: &str, place: &Place, left: &mut usize) -> String {
        let mut whole = String::with_capacity(text.len());
        for line in text.lines() {
            let words = ["include ", "-include ", "sinclude "];
            let names = words.iter().find_map(|word| line.strip_prefix(word));
            let Some(names) = names else {
                whole.push_str(line);
                whole.push('\n');
                continue;
            };
            let names = names.split('#').next().unwrap_or_default();
            // What sources include, as a compiler wrote it.
            let is_of_sources =
                names.trim_end().ends_with(".d") || names.trim_end().ends_with(".d)");
            for name in names.split_whitespace() {
                let text = left.checked_sub(1).and_then(|rest| {
                    *left = rest;
                    self.file(place, name)
                });
                if let Some(text) = text.filter(|text| text.len() <= MAX_SCRIPT) {
                    whole.push_str(&self.with_included(&text, place, left));
                } else if !is_of_sources {
                    whole.push_str("include ");
                    whole.push_str(name);
                    whole.push('\n');
                }
            }
        }
        whole
    }

    /// Whether a configuration file asks for a report without the usual summary.
    fn has_quiet_configuration(&self, runner: Runner, place: &Place) -> bool {
        if runner == Runner::CargoTest {
            let manifests = self.project.all("Cargo.toml");
            return manifests.iter().any(|(_, text)| sets(text, &["harness"]));
        }
        let (files, words) = quiet_configuration(runner);
        files.iter().filter_map(|file| self.file(place, file)).any(|text| sets(&text, words))
    }
}
