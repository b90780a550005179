//! Commands that may load the product into a program of tests which no canary is made for.

use super::imports::imported_files;
use super::interpreter::{code_of, script_of};
use super::language::language_of;
use super::perl::files_of_perl;
use super::visits::{Visit, Visits, join};
use super::words::{has_word, is_of_checks};
use crate::domain::shell_line::{base_name, module_of_python};

/// Tools that run tests, whatever they are asked for.
const TOOLS: &[&str] = &[
    "ava",
    "bats",
    "behave",
    "busted",
    "cypress",
    "doctest",
    "ginkgo",
    "gotestsum",
    "green",
    "jasmine",
    "karma",
    "nose2",
    "nosetests",
    "nox",
    "playwright",
    "pre-commit",
    "prek",
    "prove",
    "qunit",
    "robot",
    "tap",
    "tape",
    "stestr",
    "testcafe",
    "tox",
    "trial",
    "uvu",
    "ward",
];
/// Tools that run them where a word asks for tests.
const ASKED: &[&str] = &[
    "ant",
    "artisan",
    "bazel",
    "bazelisk",
    "bun",
    "cabal",
    "cmake",
    "composer",
    "dart",
    "deno",
    "doit",
    "dotnet",
    "dune",
    "earthly",
    "flutter",
    "gleam",
    "grunt",
    "gulp",
    "hatch",
    "inv",
    "invoke",
    "lein",
    "lerna",
    "meson",
    "mise",
    "mix",
    "moon",
    "ninja",
    "nx",
    "pdm",
    "poe",
    "rails",
    "rake",
    "sbt",
    "stack",
    "swift",
    "task",
    "turbo",
    "xcodebuild",
    "zig",
];
/// Of these, those whose tasks have any name, and the names that ask for tests.
const TASK_RUNNERS: &[&str] = &[
    "ant", "doit", "earthly", "grunt", "gulp", "inv", "invoke", "lerna", "mise", "moon", "ninja",
    "nx", "pdm", "poe", "rake", "task", "turbo",
];
const NAMES_OF_TASKS: &[&str] =
    &["check", "checks", "ci", "spec", "test", "tests", "unit", "verify"];
/// Arguments of an interpreter that only prints about itself.
const ABOUT_ITSELF: &[&str] = &["--help", "--version", "-V", "-VV", "-h", "-v"];
/// Languages whose sources interpreters start.
const INTERPRETED: &[&str] = &["javascript", "perl", "php", "python", "ruby", "shell"];

/// Where the sources of classes lie that test.
const FOLDERS_OF_TESTS: &[&str] = &["check", "checks", "src/test/java", "test", "tests"];

/// What a command in a folder, which ends with a slash unless it is the root, starts that may load the product into its
/// own program and is neither a runner nor a script; none where there is no such thing. Files of the start are there.
pub fn unseen_in(
    folder: &str,
    command: &str,
    root: &str,
    is_there: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let visits = Visits::of(command, root);
    visits.commands.iter().find_map(|visit| {
        let words: Vec<&str> = visit.words.iter().map(String::as_str).collect();
        let (program, arguments) = words.split_first()?;
        let name = base_name(program).to_ascii_lowercase();
        let java = || class_of_java(&name, arguments, is_there);
        let perl = || loaded_by_perl(&name, arguments, is_there);
        tool(&name, &words).or_else(java).or_else(perl).or_else(|| {
            let loads = loads(visit, (&name, arguments), (folder, command), is_there);
            loads.or_else(|| program_of(program, arguments, (folder, visit, root), is_there))
        })
    })
}

/// Why no test ran where make says that it has nothing to do for a target of tests: a file or a folder with the name of
/// the target is up to date, as the makefile does not declare it phony.
pub fn not_made(output: &str) -> Option<String> {
    let name = |line: &str| {
        let said = line.trim_start_matches(|letter| letter != ':').strip_prefix(": ")?;
        let said = said.strip_prefix("Nothing to be done for ").unwrap_or(said);
        let (name, rest) = said.strip_prefix(['\'', '`'])?.split_once('\'')?;
        matches!(rest.trim_end(), " is up to date." | ".").then(|| name.to_owned())
    };
    let is_of_make = |line: &&str| {
        ["make", "gmake"].iter().any(|name| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([':', '[']))
        })
    };
    let made = output.lines().filter(is_of_make).filter_map(name);
    let target = made.into_iter().find(|target| has_word(target, NAMES_OF_TASKS))?;
    Some(format!("make ran no recipe: {target:?} is up to date, as it is not declared .PHONY"))
}

/// A tool that runs tests.
fn tool(name: &str, words: &[&str]) -> Option<String> {
    let module = module_of_python(words).map(|(module, _)| module);
    let (_, arguments) = words.split_first()?;
    // `php artisan test`; and `hatch run test`, of which the task is left: the shell's `test` without a word fails.
    let script = arguments.first().filter(|_| name == "php").map(|path| base_name(path));
    if words == ["test"] {
        return Some("none is known for the task test".to_owned());
    }
    let name = module.or(script).unwrap_or(name);
    let asking = if TASK_RUNNERS.contains(&name) { NAMES_OF_TASKS } else { &["test"] };
    let asks = arguments.iter().any(|word| !word.starts_with("--") && has_word(word, asking));
    let is_task = name == "cargo" && arguments.contains(&"xtask");
    let is_one = TOOLS.contains(&name) || ASKED.contains(&name) && asks || is_task;
    is_one.then(|| format!("none is known for {name}"))
}

/// A class of tests that is started by itself: it may end wherever the product ends the machine.
fn class_of_java(
    name: &str,
    arguments: &[&str],
    is_there: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let is_class = |word: &&&str| {
        let class = word.rsplit('.').next().unwrap_or(word);
        let ends = ["IT", "Test", "Tests"].iter().any(|end| class.ends_with(end));
        let is_of_tests = || {
            let path = word.replace('.', "/");
            FOLDERS_OF_TESTS.iter().any(|folder| is_there(&format!("{folder}/{path}.java")))
        };
        let is_source = word.ends_with(".java") && is_of_checks(word);
        let is_name = !word.starts_with('-') && !word.contains('/');
        is_source || is_name && (ends || class.starts_with("Test") || is_of_tests())
    };
    let class = arguments.iter().find(is_class).filter(|_| name == "java")?;
    Some(format!("where the class {class} ends is not known"))
}

/// Modules of the project that the options of Perl load.
fn loaded_by_perl(
    name: &str,
    arguments: &[&str],
    is_there: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let modules = arguments.iter().filter_map(|word| word.strip_prefix("-M"));
    let modules = modules.map(|it| it.split(['=', ' ']).next().unwrap_or(it));
    let mut files = modules.flat_map(files_of_perl);
    let is_one = name == "perl" && files.any(|file| is_there(&file));
    is_one.then(|| "the line loads the product into perl".to_owned())
}

/// Code on the line, or at the input of an interpreter, that loads a file.
fn loads(
    visit: &Visit,
    (name, arguments): (&str, &[&str]),
    (folder, command): (&str, &str),
    is_there: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let inside = |path: &str| match (folder, visit.folder.as_str()) {
        (_, "") => format!("{folder}{path}"),
        (_, own) => format!("{folder}{own}/{path}"),
    };
    let loads = |(extension, text): (&str, &str)| {
        let text = text.replace(';', "\n");
        imported_files(&inside(&format!("-.{extension}")), &text).iter().any(|it| is_there(it))
    };
    if let Some(code) = code_of(name, arguments) {
        return loads(code).then(|| "code on the line loads the product".to_owned());
    }
    let reads_input = visit.input.is_none()
        && script_of(name, arguments) == Some(None)
        && !arguments.iter().any(|word| ABOUT_ITSELF.contains(word));
    let extensions = ["py", "js", "rb"];
    let is_one = reads_input && extensions.iter().any(|it| loads((it, command)));
    is_one.then(|| format!("{name} reads code that loads the product"))
}

/// A program that is not known, or one of tests that is made.
fn program_of(
    program: &str,
    arguments: &[&str],
    (folder, visit, root): (&str, &Visit, &str),
    is_there: &dyn Fn(&str) -> bool,
) -> Option<String> {
    if program.starts_with(['$', '-']) {
        let is_script = |word: &&str| language_of(word).is_some_and(|it| INTERPRETED.contains(&it));
        let is_one = arguments.iter().any(|word| *word == "-m" || is_script(word));
        return is_one.then(|| format!("which program {program} is, is not known"));
    }
    let path = join(root, &visit.folder, program);
    let is_made = program.contains('/')
        && !path.is_empty()
        && !path.split('/').any(|part| part == "node_modules")
        && language_of(&path).is_none()
        && has_word(&path, &["test", "spec"])
        && !is_there(&format!("{folder}{path}"));
    is_made.then(|| format!("the source of {program} is not known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_of_tests_that_is_up_to_date_is_named() {
        for (output, expected) in [
            ("make: 'test' is up to date.\n", true),
            ("make[1]: `check' is up to date.", true),
            ("cc -o app app.c\nmake: Nothing to be done for 'unit-tests'.\n", true),
            ("make: 'app' is up to date.\n", false),
            ("make: Nothing to be done for 'all'.\n", false),
            ("make: Entering directory '/tmp/test'\n", false),
            ("remake: 'test' is up to date.\n", false),
            ("'test' is up to date.\n", false),
        ] {
            assert_eq!(not_made(output).is_some(), expected, "{output}");
        }
    }

    #[test]
    fn what_may_load_the_product_and_has_no_canary_is_named() {
        let is_there = |path: &str| {
            [
                "calc.py",
                "lib/calc.js",
                "app.py",
                "tests/run.py",
                "tools/test",
                "lib/Calc.pm",
                "test/Main.java",
            ]
            .contains(&path)
        };
        for (command, expected) in [
            ("python3 -c 'import calc; assert calc.add(2, 3) == 5'", true),
            ("python3 -c 'from calc import add\nassert add(2, 3) == 5'", true),
            ("python3 -c 'import json, sys; json.load(sys.stdin)'", false),
            ("node -e \"require('assert')(require('./lib/calc').add(2, 3) === 5)\"", true),
            ("node -e \"console.log(1)\"", false),
            ("python3 - <<'E'\nimport calc\nassert calc.add(2, 3) == 5\nE", true),
            ("curl x | python3 -m json.tool", false),
            ("python3 -V", false),
            ("python3 app.py 2 3", false),
            ("python3 -m app", false),
            ("python3 -m doctest calc.py", true),
            ("python3 -m tox", true),
            ("bats tests", true),
            ("npx ava", true),
            ("mix test", true),
            ("mix format --check-formatted", false),
            ("bazel build //...", false),
            ("bazel test //...", true),
            ("cargo xtask ci", true),
            ("cargo run -p xtask", true),
            ("cargo run -- 2 3", false),
            ("$PYTHON tests/run.py", true),
            ("$CC -o a tests/a.c", false),
            ("./build/test_calc", true),
            ("./tools/test", false),
            ("./build/calc 2 3", false),
            ("java -ea -cp out a.CalcTest", true),
            ("java -cp out a.Calc 2 3", false),
            ("java -ea -cp out Main", true),
            ("java -cp out check/Check.java", true),
            ("java src/Calc.java 2 3", false),
            ("perl -Ilib -MCalc -e 'Calc::add(2, 3) == 5 or die'", true),
            ("perl -MList::Util=sum -e 1", false),
            ("java -cp target/test-classes:x a.Calc", false),
            ("node_modules/.bin/test-all", false),
            ("grep -q fixed CHANGELOG.md", false),
            ("test -f a && diff a b", false),
            ("ruff check && mypy .", false),
            ("make build", false),
            ("rails test", true),
            ("bin/rails db:migrate", false),
            ("php artisan test", true),
            ("composer test", true),
            ("gotestsum ./...", true),
            ("dotnet vstest a.dll", true),
            ("dotnet build", false),
            ("hatch run test", true),
            ("pdm run test", true),
            ("xcodebuild test -scheme a", true),
        ] {
            assert_eq!(unseen_in("", command, "", &is_there).is_some(), expected, "{command}");
        }
        assert!(unseen_in("lib/", "node -e \"require('./calc')\"", "", &is_there).is_some());
    }
}
