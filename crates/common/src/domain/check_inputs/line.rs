//! The files that a check's line names: the scripts that it starts, and the words that name files to be
//! made.

use super::configuration::recipes_of_program;
use super::interpreter::{LOADERS, LOADING_OPTIONS, loaded, read_whole, started};
use super::operands::discovers;
use super::visits::{Visit, Visits, below_here, join, options_of};
use super::words::{CHECKING, SCRIPT_FOLDERS, has_word, is_of_checks};
use crate::domain::command::is_shell_word;
use crate::domain::shell_line::{base_name, is_python, module_of_python, names_of_node};
use std::collections::BTreeSet;

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
/// Programs that read further arguments from a file behind `@`.
const READ_ARGUMENTS: &[&str] = &[
    "c++", "cc", "clang", "clang++", "g++", "gcc", "java", "javac", "ld", "mypy", "pylint",
    "pytest", "rustc",
];
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
/// the configuration that a runner is given. Absolute paths are outside.
pub fn scripts(line: &str) -> BTreeSet<Script> {
    scripts_in(line, "")
}

/// As [`scripts`], in a workspace with this root: absolute paths below it are inside.
pub fn scripts_in(line: &str, root: &str) -> BTreeSet<Script> {
    let mut found = BTreeSet::new();
    let mut program_folders: Vec<String> = Vec::new();
    let mut copies: Vec<(String, String)> = Vec::new();
    for visit in Visits::of(line, root).commands {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let Some((program, arguments)) = words.split_first() else { continue };
        let is_path = program.contains('/');
        let mut add = |path: &str, role| {
            let plain = path.trim_start_matches("./");
            let copied = copies.iter().rfind(|(copy, _)| copy == plain);
            let path = copied.map_or(path, |(_, original)| original);
            let path = join(root, &visit.folder, path);
            if !path.is_empty() {
                let is_product = is_product(&path);
                found.insert(Script { path, is_product, role });
            }
        };
        if is_path {
            add(program, Role::Program);
        }
        // The line says in which folders of the workspace its programs lie.
        let paths = visit.all.iter().filter_map(|word| word.strip_prefix("PATH="));
        program_folders.extend(paths.flat_map(|value| value.split(':')).filter_map(own_folder));
        for folder in program_folders.iter().filter(|_| !is_path && !is_shell_word(program)) {
            add(&format!("{folder}/{program}"), Role::Program);
        }
        recipes_of_program(program).iter().for_each(|recipe| add(recipe, Role::Configuration));
        let name = base_name(program).to_ascii_lowercase();
        let is_loader = LOADERS.contains(&name.as_str());
        let first = if is_loader { options_of(arguments, LOADING_OPTIONS) } else { Vec::new() };
        first.into_iter().for_each(|path| add(path, Role::Configuration));
        let script = started(&name, arguments, &visit.input);
        // `uv run` and its like take a script for the program.
        let script = script.or_else(|| {
            let is_source = visit.is_wrapped && program.ends_with(".py");
            (is_source && !is_path).then_some(*program)
        });
        script.into_iter().for_each(|script| add(script, Role::Script));
        if let Some(script) = script.filter(|_| matches!(name.as_str(), "node" | "nodejs")) {
            names_of_node(script).iter().skip(1).for_each(|path| add(path, Role::Script));
        }
        // A shell that reads a file into itself may be about that file, as an import may be.
        let sourced = match *program {
            "." | "source" => arguments.first().copied(),
            "eval" => arguments.first().and_then(|text| read_whole(text)),
            _ => None,
        };
        let is_part = |path: &&str| is_of_checks(&join(root, &visit.folder, path));
        sourced.filter(is_part).into_iter().for_each(|path| add(path, Role::Script));
        loaded(&name, arguments).into_iter().for_each(|path| add(path, Role::Script));
        // An example that checks is no example of the product.
        let examples = options_of(arguments, &["--example"]).into_iter();
        let examples = examples.filter(|it| name == "cargo" && has_word(it, CHECKING));
        examples.for_each(|it| add(&format!("examples/{it}.rs"), Role::Script));
        for module in module_of(&words).into_iter().flat_map(files_of_module) {
            add(&module, Role::Script);
        }
        // A script of the check is a runner of its own; what a product reads is its own data.
        let started = script.or_else(|| is_path.then_some(*program));
        let is_check = started.is_some_and(|it| !is_product(&join(root, &visit.folder, it)));
        let named = configurations((&name, &words), &visit, is_check);
        named.into_iter().for_each(|path| add(path, Role::Configuration));
        copies.extend(copy_of(&name, arguments));
    }
    found
}

/// The path of the copy that a command makes of one file, and that of the file.
fn copy_of(name: &str, arguments: &[&str]) -> Option<(String, String)> {
    let mut operands = arguments.iter().filter(|word| !word.starts_with('-'));
    let (from, to) = (operands.next()?, operands.next()?);
    let is_one = matches!(name, "cp" | "install" | "ln" | "mv") && operands.next().is_none();
    let to = if to.ends_with('/') { format!("{to}{}", base_name(from)) } else { (*to).to_owned() };
    is_one.then(|| (to.trim_start_matches("./").to_owned(), (*from).to_owned()))
}

/// The files that a command gives as configuration to a runner, or to a script of the check.
fn configurations<'a>(
    (name, words): (&str, &[&'a str]),
    visit: &Visit,
    is_check: bool,
) -> Vec<&'a str> {
    let arguments = words.get(1..).unwrap_or_default();
    let by_package = visit.all.iter().any(|word| base_name(word) == "npx");
    let module = module_of_python(words).map_or("", |(module, _)| module);
    let mut found = Vec::new();
    if READ_ARGUMENTS.contains(&name) || READ_ARGUMENTS.contains(&module) {
        let named = arguments.iter().filter_map(|word| word.strip_prefix('@'));
        found.extend(named.filter(|path| !path.is_empty()));
    }
    if let Some(arguments) = arguments_of_runner(name, words, by_package) {
        found.extend(options_of(arguments, CONFIGURATION_OPTIONS));
    } else if is_check {
        found.extend(options_of(arguments, LONG_OPTIONS));
    }
    found
}

/// A folder of the workspace in a value of PATH.
fn own_folder(entry: &str) -> Option<String> {
    let entry = entry.trim_matches(['"', '\'']);
    let here = below_here(entry).or_else(|| entry.strip_prefix("./"));
    let inside = here.or_else(|| (!entry.starts_with(['/', '$', '~'])).then_some(entry))?;
    Some(inside.trim_end_matches('/').to_owned()).filter(|folder| !folder.is_empty())
}

/// Whether a line starts one of these programs.
pub(super) fn starts(line: &str, programs: &[&str]) -> bool {
    Visits::of(line, "").commands.iter().any(|visit| {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let name = words.first().map_or("", |first| base_name(first));
        let module = module_of_python(&words).map_or("", |(module, _)| module);
        programs.contains(&name) || programs.contains(&module)
    })
}

/// The arguments of a runner, which Python or a package manager may start.
fn arguments_of_runner<'w, 'a>(
    name: &str,
    words: &'w [&'a str],
    by_package: bool,
) -> Option<&'w [&'a str]> {
    if RUNNERS.contains(&name) || by_package {
        return words.get(1..);
    }
    module_of_python(words).map(|(_, arguments)| arguments)
}

/// Whether a path is a product by convention.
pub fn is_product(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem).to_ascii_lowercase();
    let mut above = folders.split('/').peekable();
    let mut in_product = false;
    while let Some(folder) = above.next() {
        // What scripts have in common lies there too.
        if SCRIPT_FOLDERS.contains(&folder) && above.peek() == Some(&"lib") {
            above.next();
        }
        in_product |= PRODUCT_FOLDERS.contains(&folder);
    }
    in_product || PRODUCT_NAMES.contains(&stem.as_str())
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
    let visits = Visits::of(line, "");
    visits.words().any(|it| word_names("", it, path).is_some())
}

/// Whether a line names a file by itself.
pub(super) fn names_file(line: &str, root: &str, path: &str) -> bool {
    let visits = Visits::of(line, root);
    let mut words = visits.words();
    words.any(|it| word_names(root, it, path) == Some(Named::File))
        || visits.commands.iter().any(|visit| discovers(root, visit, path))
}

/// How the operands of a line name a path, and the folders that it goes to. The targets of recipes are no paths.
pub(super) fn named(line: &str, root: &str, path: &str) -> Vec<Named> {
    let visits = Visits::of(line, root);
    let operands =
        visits.words().filter(|(_, program, word)| word.contains('/') || !takes_targets(program));
    let operands = operands.filter_map(|it| word_names(root, it, path));
    let folders = visits.folders.iter().filter_map(|folder| word_names("", ("", "", folder), path));
    operands.chain(folders).collect()
}

/// A package that a line names to a program which builds and tests packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Package {
    /// By its name.
    Name(String),
    /// By its folder.
    Folder(String),
}

/// The packages that a line names by options of cargo and Maven, by tasks of Gradle, or by a project of .NET.
pub(super) fn packages(line: &str, root: &str) -> Vec<Package> {
    let mut found = Vec::new();
    for visit in Visits::of(line, root).commands {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let Some((program, arguments)) = words.split_first() else { continue };
        let folder = |path: &str| Package::Folder(join(root, &visit.folder, path));
        let above = |path: &str| path.rsplit_once('/').map(|(above, _)| folder(above));
        match base_name(program) {
            "cargo" => {
                let names = options_of(arguments, &["-p", "--package"]);
                found.extend(names.into_iter().map(|name| Package::Name(name.to_owned())));
                let manifests = options_of(arguments, &["--manifest-path"]);
                found.extend(manifests.into_iter().filter_map(above));
            }
            "mvn" | "mvnw" => {
                let lists = options_of(arguments, &["-pl", "--projects"]);
                found.extend(lists.iter().flat_map(|list| list.split(',')).map(folder));
            }
            "gradle" | "gradlew" => {
                let tasks = arguments.iter().filter_map(|task| task.strip_prefix(':'));
                let projects = tasks.filter_map(|task| task.rsplit_once(':'));
                found.extend(projects.map(|(project, _)| folder(&project.replace(':', "/"))));
            }
            "dotnet" => {
                let is_project = |word: &&&str| word.ends_with("proj");
                found.extend(arguments.iter().filter(is_project).filter_map(|path| above(path)));
            }
            _ => {}
        }
    }
    found.retain(|package| !matches!(package, Package::Folder(folder) if folder.is_empty()));
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

/// How a word of a program in this folder names a path.
fn word_names(
    root: &str,
    (folder, program, word): (&str, &str, &str),
    path: &str,
) -> Option<Named> {
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
    if let Some(found) = at(join(root, folder, word)) {
        return Some(found);
    }
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    if !word.contains('/') && word.contains('.') {
        let dotted = join("", folder, &word.replace('.', "/"));
        if stem == dotted {
            return Some(Named::File);
        }
        if let Some(found) = at(dotted) {
            return Some(found);
        }
    }
    // A test target of cargo.
    let is_target = |(above, name): (&str, &str)| name == word && above.ends_with("tests");
    let is_target = path.ends_with(".rs") && stem.rsplit_once('/').is_some_and(is_target);
    let is_module = || is_python(program) && names_module(folder, word, path);
    (is_target || is_module()).then_some(Named::File)
}

/// Whether a word of Python is the module at a path, or a class or a function in it: `test_a.CaseTest.test_b`.
fn names_module(folder: &str, word: &str, path: &str) -> bool {
    let Some(stem) = path.strip_suffix(".py").filter(|_| !word.contains('/')) else { return false };
    let ends = word.match_indices('.').map(|(at, _)| at).chain([word.len()]);
    let mut modules = ends.filter_map(|end| word.split_at_checked(end));
    modules.any(|(module, inside)| {
        let is_inside = inside.is_empty() || inside.starts_with('.');
        let is_class = inside.trim_start_matches('.').starts_with(char::is_uppercase);
        is_inside
            && (inside.is_empty() || is_class)
            && stem == join("", folder, &module.replace('.', "/"))
    })
}

/// Runners of tests and tools that Python starts as modules.
const RUNNER_MODULES: &[&str] = &["doctest", "nose2", "pylint", "pytest", "unittest"];

/// The module that Python starts, where its name says that it checks: any other one may be the product.
fn module_of<'a>(words: &[&'a str]) -> Option<&'a str> {
    let words = match words.split_first() {
        Some((program, rest)) if base_name(program) == "coverage" => {
            &[&["python"], rest.strip_prefix(&["run"])?].concat()[..]
        }
        Some(_) | None => words,
    };
    let (module, _) = module_of_python(words)?;
    let last = module.rsplit('.').next()?.to_ascii_lowercase();
    if module.split('.').next().is_some_and(|first| RUNNER_MODULES.contains(&first)) {
        return None;
    }
    CHECKING.iter().any(|word| last.contains(word)).then_some(module)
}

fn files_of_module(module: &str) -> [String; 2] {
    let path = module.replace('.', "/");
    [format!("{path}.py"), format!("{path}/__main__.py")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_in_every_form_of_a_line() {
        for (line, expected) in [
            ("sh -c './check.sh'", &["check.sh"][..]),
            ("bash -c \"sh verify.sh && ./ci.sh\"", &["ci.sh", "verify.sh"]),
            ("sh -c \"bash -c './check.sh'\"", &["check.sh"]),
            ("bash -eo pipefail check.sh", &["check.sh"]),
            ("bash -o errexit check.sh", &["check.sh"]),
            ("fish check.fish", &["check.fish"]),
            ("uv run check.py", &["check.py"]),
            ("poetry run python check.py", &["check.py"]),
            ("pipenv run python -I check.py", &["check.py"]),
            ("npx tsx check.ts", &["check.ts"]),
            ("bundle exec ruby -r json check.rb", &["check.rb"]),
            ("xvfb-run ./check.sh", &["check.sh"]),
            ("timeout -s KILL 60 ./check.sh", &["check.sh"]),
            ("if ./check.sh; then true; else false; fi", &["check.sh"]),
            ("for f in a b; do ./check.sh $f; done", &["check.sh"]),
            ("while ! ./check.sh; do sleep 1; done", &["check.sh"]),
            (". ./check.sh", &["check.sh"]),
            ("source ci/all.sh && run", &["ci/all.sh"]),
            (". ./calc.sh && test \"$(sum 2 3)\" = 5", &[]),
            ("/srv/p/check.sh", &["check.sh"]),
            ("sh /srv/p/check.sh", &["check.sh"]),
            ("cd /srv/p/sub && ./check.sh", &["sub/check.sh"]),
            ("\"$PWD\"/check.sh", &["check.sh"]),
            ("sh \"$(pwd)/check.sh\"", &["check.sh"]),
            ("sh \"${PWD}/run\"", &["run"]),
            ("/srv/other/check.sh", &[]),
            ("java -cp out Check.java", &["Check.java"]),
            ("go run ./tools/verify.go", &["tools/verify.go"]),
            ("go test ./check.go", &[]),
            ("dart check.dart", &["check.dart"]),
            ("dart format check.dart", &[]),
            ("elixir check.exs", &["check.exs"]),
            ("test \"$(./check.sh)\" = ok", &["check.sh"]),
            ("test `./check.sh` = ok", &["check.sh"]),
            ("eval ./check.sh", &["check.sh"]),
            ("sh < check.sh", &["check.sh"]),
            ("python3 - < check.py", &["check.py"]),
            ("find . -name '*.json' -exec ./check.sh {} \\;", &["check.sh"]),
            ("git ls-files | xargs -n 1 ./check.sh", &["check.sh"]),
            ("awk -f check.awk out.txt", &["check.awk"]),
            ("echo ./check.sh", &[]),
            ("cat check.py", &[]),
            ("bash -n check.sh", &[]),
            ("sh -en check.sh", &[]),
            ("node --check check.js", &[]),
            ("ruby -wc check.rb", &[]),
            ("php -l check.php", &[]),
            ("node check.js -c", &["check.js"]),
            ("ruby -Isrc check.rb", &["check.rb"]),
            ("perl -Mstrict check.pl", &["check.pl"]),
            ("(cd web && npm test) && ./check.sh", &["check.sh"]),
            ("(cd a && ./x.sh) && (cd b && ./y.sh)", &["a/x.sh", "b/y.sh"]),
            ("pushd web && make && popd && sh check.sh", &["check.sh"]),
            ("env -C sub ./check.sh", &["sub/check.sh"]),
        ] {
            let found = scripts_in(line, "/srv/p");
            let found: Vec<_> = found.iter().map(|script| script.path.as_str()).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_script_that_a_line_starts_by_a_detour_is_found() {
        for (line, expected) in [
            ("cat run | sh", &["run"][..]),
            ("cat run | sh -e && cat other | grep -q x", &["run"]),
            ("cat < out.txt | sh run", &["run"]),
            ("cat run.py | python3 | grep -q 5", &["run.py"]),
            ("sh -c \"$(cat run)\"", &["run"]),
            ("bash -c \"$(< run)\" 2>&1", &["run"]),
            ("eval \"$(cat ci/run)\"", &["ci/run"]),
            ("eval \"`cat calc.sh`\" && test \"$(sum 2 3)\" = 5", &[]),
            ("cat a b | sh", &[]),
            ("cp run /tmp/x && sh /tmp/x", &["run"]),
            ("cp -p run /tmp/ && sh /tmp/run", &["run"]),
            ("mv run x && ./x", &["run"]),
            ("cp run /tmp/x && sh /tmp/y", &[]),
            ("python3 -c 'exec(open(\"run.py\").read())'", &["run.py"]),
            ("python3 -c 'import runpy; runpy.run_path(\"run.py\")'", &["run.py"]),
            ("python3 -c 'exec(open(\"calc.py\").read()); assert add(2, 3) == 5'", &[]),
        ] {
            let found = scripts(line);
            let found: Vec<_> = found.iter().map(|script| script.path.as_str()).collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn a_line_names_packages() {
        let folder = |path: &str| Package::Folder(path.to_owned());
        for (line, expected) in [
            ("cargo test -p sums", vec![Package::Name("sums".to_owned())]),
            ("cargo test --manifest-path crates/sums/Cargo.toml", vec![folder("crates/sums")]),
            ("cd all && mvn -pl a,b test", vec![folder("all/a"), folder("all/b")]),
            ("./gradlew :a:b:test", vec![folder("a/b")]),
            ("dotnet test a/A.Tests.csproj", vec![folder("a")]),
            ("cargo test", Vec::new()),
        ] {
            assert_eq!(packages(line, ""), expected, "{line}");
        }
    }

    #[test]
    fn a_new_test_is_named_by_its_module_and_not_by_a_target_of_make() {
        for (line, path, expected) in [
            ("python3 -m unittest test_more", "test_more.py", true),
            ("python3 -m unittest test_calc test_more", "test_more.py", true),
            ("python3 -m unittest tests.test_more.MoreTest", "tests/test_more.py", true),
            ("python3 -m unittest tests.test_more.MoreTest.test_x", "tests/test_more.py", true),
            ("cd sub && python3 -m unittest test_more", "sub/test_more.py", true),
            ("python3 -m unittest tests.test_mean", "tests.py", false),
            ("python3 -m unittest tests.test_mean", "test_mean.py", false),
            ("python3 -m unittest discover -s tests -p test_more.py", "tests/a/test_more.py", true),
            ("python3 -m unittest discover -p 'test_more.py'", "tests/test_more.py", true),
            ("python3 -m unittest discover -s tests", "tests/test_more.py", false),
            ("cargo test --test new", "tests/new.rs", true),
            ("make test", "tests/test.py", false),
            ("npm run unit", "tests/unit.js", false),
        ] {
            assert_eq!(names_file(line, "", path), expected, "{line} {path}");
        }
    }
}
