//! The files that a check's line names: the scripts that it starts, and the words that name files to be
//! made.

use super::configuration::recipes_of_program;
use super::words::CHECKING;
use crate::domain::path::Workspace;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Programs whose first argument that is no option is a script.
const INTERPRETERS: &[&str] = &[
    "bash", "bun", "dash", "deno", "groovy", "julia", "ksh", "lua", "node", "nodejs", "perl",
    "php", "pwsh", "rscript", "ruby", "sh", "ts-node", "tsx", "zsh",
];
/// Programs that start the program that follows their own options.
const STARTERS: &[&str] =
    &["command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time", "timeout"];
/// Programs for which `-f` and its like name a configuration, and no data.
const RUNNERS: &[&str] = &[
    "cargo",
    "ctest",
    "eslint",
    "gmake",
    "golangci-lint",
    "jest",
    "just",
    "make",
    "mocha",
    "mypy",
    "ninja",
    "nose2",
    "nox",
    "npx",
    "phpunit",
    "playwright",
    "pytest",
    "rake",
    "rspec",
    "rubocop",
    "ruff",
    "task",
    "tox",
    "tsc",
    "vitest",
];
/// The options that name a runner's configuration.
const CONFIGURATION_OPTIONS: &[&str] = &[
    "-c",
    "-f",
    "--config",
    "--config-file",
    "--configuration",
    "--file",
    "--justfile",
    "--makefile",
    "--rcfile",
    "--taskfile",
    "--project",
];
/// The same for a script, whose short options may name data.
const LONG_OPTIONS: &[&str] = &["--config", "--config-file", "--configuration", "--rcfile"];
/// Options by which programs of JavaScript load a file before all others.
const LOADING_OPTIONS: &[&str] = &["-r", "--import", "--loader", "--require"];
/// Programs that have them.
const LOADERS: &[&str] = &["bun", "mocha", "node", "nodejs", "ts-node", "tsx"];
/// Folders whose files are products.
const PRODUCT_FOLDERS: &[&str] = &["src", "lib", "app", "cmd", "pkg"];
/// Names of products.
const PRODUCT_NAMES: &[&str] = &["app", "main", "cli", "index", "server"];

/// A file that a line starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Script {
    /// Relative to the workspace's root.
    pub path: String,
    /// Whether it is a product by convention: then it is data under test.
    pub is_product: bool,
    /// What the line does with it.
    pub role: Role,
}

/// What a line does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It is the program that is started.
    Program,
    /// An interpreter reads it.
    Script,
    /// A runner, or a script of the check, is given it as its configuration.
    Configuration,
}

/// The files of the workspace that a line starts: programs by their paths, the scripts of interpreters, and
/// the configuration that a runner is given.
pub fn scripts(line: &str) -> BTreeSet<Script> {
    let mut found = BTreeSet::new();
    let mut folder = String::new();
    for words in commands(line) {
        let words = without_starters(&words);
        let Some((program, arguments)) = words.split_first() else { continue };
        if program == "cd" {
            folder = arguments.first().map_or(String::new(), |to| join(&folder, to));
            continue;
        }
        let is_path = program.contains('/');
        let mut add = |path: &str, role| {
            let path = join(&folder, path);
            if !path.is_empty() {
                let is_product = is_product(&path);
                found.insert(Script { path, is_product, role });
            }
        };
        if is_path {
            add(program, Role::Program);
        }
        recipes_of_program(program).iter().for_each(|recipe| add(recipe, Role::Configuration));
        let name = program.rsplit('/').next().unwrap_or(program).to_ascii_lowercase();
        let loaded =
            LOADERS.contains(&name.as_str()).then(|| configurations(arguments, LOADING_OPTIONS));
        loaded.into_iter().flatten().for_each(|path| add(path, Role::Configuration));
        let script = script_of(arguments).filter(|_| is_interpreter(&name));
        script.into_iter().for_each(|script| add(script, Role::Script));
        for module in module_of(&name, arguments).into_iter().flat_map(files_of_module) {
            add(&module, Role::Script);
        }
        // A script of the check is a runner of its own; what a product reads is its own data.
        let started = script.or_else(|| is_path.then_some(program.as_str()));
        let is_check = started.is_some_and(|it| !is_product(&join(&folder, it)));
        if let Some(arguments) = arguments_of_runner(&name, arguments) {
            let named = configurations(arguments, CONFIGURATION_OPTIONS);
            named.into_iter().for_each(|path| add(path, Role::Configuration));
        } else if is_check {
            let named = configurations(arguments, LONG_OPTIONS);
            named.into_iter().for_each(|path| add(path, Role::Configuration));
        }
    }
    found
}

/// Whether a line starts one of these programs.
pub(super) fn starts(line: &str, programs: &[&str]) -> bool {
    commands(line).iter().any(|words| {
        let mut words = without_starters(words);
        if words.first().is_some_and(|first| ["bunx", "npx", "pnpx"].contains(&first.as_str())) {
            words.remove(0);
            words.drain(..words.iter().take_while(|word| word.starts_with('-')).count());
        }
        let name = words.first().map_or("", |first| first.rsplit('/').next().unwrap_or(first));
        let module = match words.iter().position(|word| word == "-m") {
            Some(at) if name.starts_with("python") => words.get(at + 1).map_or("", String::as_str),
            Some(_) | None => "",
        };
        programs.contains(&name) || programs.contains(&module)
    })
}

/// The arguments of a runner, which Python starts as a module.
fn arguments_of_runner<'a>(name: &str, arguments: &'a [String]) -> Option<&'a [String]> {
    if RUNNERS.contains(&name) {
        return Some(arguments);
    }
    let module = arguments.iter().position(|word| word == "-m");
    module.filter(|_| name.starts_with("python")).and_then(|at| arguments.get(at + 2..))
}

/// Whether a path is a product by convention.
pub fn is_product(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem).to_ascii_lowercase();
    folders.split('/').any(|folder| PRODUCT_FOLDERS.contains(&folder))
        || PRODUCT_NAMES.contains(&stem.as_str())
}

/// How a line names a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// By itself.
    File,
    /// By this folder above it.
    Below(String),
}

/// Whether a line names a path, or a folder above it: then what is to be made there is asked for.
pub fn names(line: &str, path: &str) -> bool {
    words_of(line).any(|(folder, _, word)| word_names(&folder, &word, path).is_some())
}

/// Whether a line names a file by itself.
pub(super) fn names_file(line: &str, path: &str) -> bool {
    words_of(line).any(|(folder, _, word)| word_names(&folder, &word, path) == Some(Named::File))
}

/// How the operands of a line name a path, and the folders that it goes to. The targets of recipes are no paths.
pub(super) fn named(line: &str, path: &str) -> Vec<Named> {
    let operands =
        words_of(line).filter(|(_, program, word)| word.contains('/') || !takes_targets(program));
    let operands = operands.filter_map(|(folder, _, word)| word_names(&folder, &word, path));
    let folders = folders(line).into_iter().filter_map(|folder| word_names("", &folder, path));
    operands.chain(folders).collect()
}

/// The folders that a line goes to, by `cd` or by an option of a program.
fn folders(line: &str) -> Vec<String> {
    const OPTIONS: &[&str] = &[
        "-C",
        "-w",
        "--cwd",
        "--dir",
        "--directory",
        "--prefix",
        "--project-directory",
        "--workspace",
    ];
    let (mut folder, mut found) = (String::new(), Vec::new());
    for words in commands(line) {
        if let [cd, to, ..] = words.as_slice()
            && cd == "cd"
        {
            folder = join(&folder, to);
            found.push(folder.clone());
            continue;
        }
        found.extend(configurations(&words, OPTIONS).into_iter().map(|to| join(&folder, to)));
    }
    found
}

fn takes_targets(program: &str) -> bool {
    const PROGRAMS: &[&str] = &[
        "ant", "bazel", "bun", "doit", "gmake", "gradle", "gradlew", "inv", "invoke", "just",
        "make", "mise", "moon", "mvn", "mvnw", "ninja", "nox", "npm", "nx", "pnpm", "rake", "task",
        "tox", "turbo", "yarn",
    ];
    PROGRAMS.contains(&program)
}

/// The words of a line, each with the folder and the name of the program that it belongs to.
fn words_of(line: &str) -> impl Iterator<Item = (String, String, String)> {
    let mut folder = String::new();
    let mut found = Vec::new();
    for words in commands(line) {
        if let [cd, to, ..] = words.as_slice()
            && cd == "cd"
        {
            folder = join(&folder, to);
            continue;
        }
        let own = without_starters(&words);
        let program = own.first().map_or("", |first| first.rsplit('/').next().unwrap_or(first));
        let word = |word: String| (folder.clone(), program.to_owned(), word);
        found.extend(words.into_iter().map(word));
    }
    found.into_iter()
}

fn word_names(folder: &str, word: &str, path: &str) -> Option<Named> {
    let word = word.split_once("::").map_or(word, |(file, _)| file);
    let word = word.split_once('=').map_or(word, |(_, value)| value);
    let word = word.strip_suffix("/...").unwrap_or(word);
    if word.is_empty() || word.starts_with('-') {
        return None;
    }
    let at = |named: String| {
        let rest = path.strip_prefix(&named).filter(|_| !named.is_empty())?;
        match rest.chars().next() {
            None => Some(Named::File),
            Some('/') => Some(Named::Below(named)),
            Some(_) => None,
        }
    };
    if let Some(found) = at(join(folder, word)) {
        return Some(found);
    }
    // A module's name, and a test target of cargo.
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    if !word.contains('/') && word.contains('.') {
        let dotted = join(folder, &word.replace('.', "/"));
        if stem == dotted {
            return Some(Named::File);
        }
        if let Some(found) = at(dotted) {
            return Some(found);
        }
    }
    let is_target =
        stem.rsplit_once('/').is_some_and(|(above, name)| name == word && above.ends_with("tests"));
    is_target.then_some(Named::File)
}

fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name) || name.starts_with("python") || name.starts_with("pypy")
}

/// The first argument that is no option. Code that is given on the line is no script, and neither is a
/// module's name.
fn script_of(arguments: &[String]) -> Option<&str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-c" | "-e" | "-m" | "-p" | "--eval" | "--print" | "-r" => return None,
            "-W" | "-X" | "-I" | "--require" | "--import" | "--loader" => drop(arguments.next()),
            "run" | "test" => {}
            option if option.starts_with('-') => {}
            script => return Some(script),
        }
    }
    None
}

/// Runners of tests and tools that Python starts as modules.
const RUNNER_MODULES: &[&str] = &["doctest", "nose2", "pylint", "pytest", "unittest"];

/// The module that Python starts, where its name says that it checks: any other one may be the product.
fn module_of<'a>(name: &str, arguments: &'a [String]) -> Option<&'a str> {
    let at = arguments.iter().position(|word| word == "-m")?;
    let module = arguments.get(at + 1).filter(|_| name.starts_with("python"))?;
    let last = module.rsplit('.').next()?.to_ascii_lowercase();
    if module.split('.').next().is_some_and(|first| RUNNER_MODULES.contains(&first)) {
        return None;
    }
    CHECKING.iter().any(|word| last.contains(word)).then_some(module.as_str())
}

fn files_of_module(module: &str) -> [String; 2] {
    let path = module.replace('.', "/");
    [format!("{path}.py"), format!("{path}/__main__.py")]
}

fn configurations<'a>(arguments: &'a [String], options: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (argument.as_str(), None),
        };
        if options.contains(&option) {
            found.extend(value.or_else(|| arguments.next().map(String::as_str)));
        }
    }
    found
}

/// A path below a folder of the workspace; empty where it is none.
pub(super) fn join(folder: &str, path: &str) -> String {
    if path.starts_with(['/', '~', '$']) {
        return String::new();
    }
    let whole = if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") };
    Workspace::new("").resolve(&whole).map(Cow::into_owned).unwrap_or_default()
}

pub(super) fn without_starters(words: &[String]) -> Vec<String> {
    let mut words = words;
    loop {
        let Some((first, rest)) = words.split_first() else { return Vec::new() };
        let is_starter = STARTERS.contains(&first.as_str());
        if !is_starter && !is_assignment(first) {
            return words.to_vec();
        }
        words = rest;
        let is_own = |word: &String| {
            word.starts_with('-') || word.starts_with(|first: char| first.is_ascii_digit())
        };
        while is_starter && words.first().is_some_and(is_own) {
            words = words.get(1..).unwrap_or_default();
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The words of each command of a line, without quotes. Nothing is expanded.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut letters = line.chars();
    let end_word = |word: &mut String, commands: &mut Vec<Vec<String>>| {
        if !word.is_empty()
            && let Some(last) = commands.last_mut()
        {
            last.push(std::mem::take(word));
        }
    };
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(mark), letter) if mark == letter => quote = None,
            (Some('\''), letter) => word.push(letter),
            (_, '\\') => word.extend(letters.next()),
            (Some(_), letter) => word.push(letter),
            (None, '\'' | '"') => quote = Some(letter),
            (None, ' ' | '\t' | '<' | '>') => end_word(&mut word, &mut commands),
            (None, '&' | '|' | ';' | '\n' | '(' | ')' | '`' | '!' | '{' | '}') => {
                end_word(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            (None, letter) => word.push(letter),
        }
    }
    end_word(&mut word, &mut commands);
    commands.retain(|words| !words.is_empty());
    commands
}
