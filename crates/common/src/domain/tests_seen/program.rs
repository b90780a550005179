//! Programs of a line: which runner one is.

use super::runner::Runner;
use crate::domain::shell_line::{
    OfPython, base_name, given_to_python, is_python, options, unwrapped,
};

/// Modules of Python that start another module, which they name behind `-m` or `--module`.
const STARTERS: &[&str] = &["cProfile", "pdb", "profile", "trace"];

/// A command without what only prepares it: `env A=1`, `time`, `uv run`, `python -m`.
pub(super) fn without_wrappers<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let words = unwrapped(words);
    let Some((program, rest)) = words.split_first() else { return Vec::new() };
    let name = base_name(program);
    let by_module = match (name, rest.split_first()) {
        ("coverage", Some((&"run", rest))) => by_module(rest),
        _ if is_python(name) => by_module(rest),
        // What a variable or a substitution names is Python where it starts a runner as a module.
        _ if program.starts_with('$') => by_module(rest).filter(|found| !found.is_empty()),
        _ if program.starts_with('-') => by_module(words).filter(|found| !found.is_empty()),
        _ => None,
    };
    by_module.unwrap_or_else(|| words.to_vec())
}

/// What Python starts: a known module with its arguments, nothing where a module starts something else than a runner; none
/// where it names no known module: that may be one of the project.
fn by_module<'a>(rest: &[&'a str]) -> Option<Vec<&'a str>> {
    let Some((OfPython::Module(module), rest)) = given_to_python(rest) else { return None };
    let with = |module: &'a str, rest: &[&'a str]| [&[module], rest].concat();
    Some(match module {
        "pytest" | "unittest" => with(module, rest),
        "coverage" => without_wrappers(&with(module, rest)),
        _ if STARTERS.contains(&module) => {
            let at = rest.iter().position(|word| matches!(*word, "-m" | "--module"));
            let module = at.and_then(|at| rest.get(at + 1..)).unwrap_or_default();
            let is_known = matches!(module.first(), Some(&("pytest" | "unittest")));
            if is_known { module.to_vec() } else { Vec::new() }
        }
        _ => return None,
    })
}

pub(super) fn has_extension_of_shell(name: &str) -> bool {
    [".sh", ".bash", ".zsh"].iter().any(|end| name.len() > end.len() && name.ends_with(end))
}

pub(super) fn runner_of(name: &str, arguments: &[&str]) -> Option<Runner> {
    let has = |word: &str| arguments.contains(&word);
    let first = arguments.first().copied().unwrap_or_default();
    match name {
        "cargo" | "cross" => match &*subcommand(arguments) {
            ["test" | "t", ..] => Some(Runner::CargoTest),
            ["nextest", "run" | "r", ..] => Some(Runner::Nextest),
            _ => None,
        },
        "cargo-nextest" => Some(Runner::Nextest),
        "pytest" | "py.test" => Some(Runner::Pytest),
        // Debian's name of it, and that of one version.
        _ if name.strip_prefix("pytest-").is_some_and(|version| version.starts_with('3')) => {
            Some(Runner::Pytest)
        }
        "unittest" => Some(Runner::Unittest),
        "go" => {
            let rest =
                if first == "-C" { arguments.get(2..).unwrap_or_default() } else { arguments };
            (rest.first() == Some(&"test") && !has("-list")).then_some(Runner::GoTest)
        }
        "jest" => Some(Runner::Jest),
        "react-scripts" => (first == "test").then_some(Runner::Jest),
        "vitest" => (!matches!(first, "list" | "bench" | "init")).then_some(Runner::Vitest),
        "mocha" | "_mocha" => Some(Runner::Mocha),
        "node" | "nodejs" => has("--test").then_some(Runner::NodeTest),
        "ctest" => Some(Runner::Ctest),
        "mvn" | "mvnw" => maven(arguments).then_some(Runner::Maven),
        "gradle" | "gradlew" => gradle(arguments).then_some(Runner::Gradle),
        "dotnet" => (first == "test").then_some(Runner::DotnetTest),
        "rspec" => Some(Runner::Rspec),
        "phpunit" => Some(Runner::Phpunit),
        _ => None,
    }
}

/// Cargo's arguments from its subcommand on.
fn subcommand<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let toolchain = usize::from(arguments.first().is_some_and(|word| word.starts_with('+')));
    let rest = arguments.get(toolchain..).unwrap_or_default();
    let valued = ["--config", "-Z", "-C", "--color", "--manifest-path", "--target-dir"];
    rest.get(options(rest, &valued, false)..).unwrap_or_default().to_vec()
}

/// Phases of Maven that come after the tests.
const LATER_PHASES: &[&str] = &["deploy", "install", "package", "verify"];
/// Tasks of Gradle that depend on the tests.
const LATER_TASKS: &[&str] = &["build", "check"];

/// Whether Maven runs tests for what it is asked for.
fn maven(arguments: &[&str]) -> bool {
    let skips =
        |word: &&str| word.starts_with("-DskipTests") || word.starts_with("-Dmaven.test.skip");
    let tests = |word: &&str| LATER_PHASES.contains(word) || is_of_tests(Runner::Maven, word);
    arguments.iter().any(tests) && !arguments.iter().any(skips)
}

/// Whether Gradle runs tests for one of its tasks.
fn gradle(arguments: &[&str]) -> bool {
    let name = |word: &str| word.rsplit(':').next().unwrap_or(word).to_owned();
    let mut tests = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if matches!(*word, "-x" | "--exclude-task") {
            if words.next().is_some_and(|left_out| name(left_out) == "test") {
                return false;
            }
            continue;
        }
        tests |= is_of_tests(Runner::Gradle, word) || LATER_TASKS.contains(&&*name(word));
    }
    tests
}

/// Whether a word names tests themselves to a builder: a phase, a plugin's goal, or a task, which may be that of a variant
/// (`:app:testDebugUnitTest`).
fn is_of_tests(runner: Runner, word: &str) -> bool {
    match runner {
        Runner::Maven => {
            let is_goal = word.contains(':') && !word.starts_with('-');
            matches!(word, "test" | "integration-test")
                || is_goal && ["surefire", "failsafe"].iter().any(|plugin| word.contains(plugin))
        }
        Runner::Gradle => word.rsplit(':').next().is_some_and(|name| name.starts_with("test")),
        Runner::CargoTest
        | Runner::Nextest
        | Runner::Pytest
        | Runner::Unittest
        | Runner::GoTest
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::NodeTest
        | Runner::Ctest
        | Runner::DotnetTest
        | Runner::Rspec
        | Runner::Phpunit => true,
    }
}

/// Whether a runner comes to its tests on the way to something else: a project without any is in order.
pub(super) fn is_on_its_way(runner: Runner, arguments: &[&str]) -> bool {
    !arguments.iter().any(|word| is_of_tests(runner, word))
        && matches!(runner, Runner::Maven | Runner::Gradle)
}

/// Whether a runner is asked for something else than to run tests, such as the list of them, its help or a build.
pub(super) fn runs_nothing(runner: Runner, arguments: &[&str]) -> bool {
    let options: &[&str] = match runner {
        Runner::CargoTest | Runner::Nextest => &["--list", "--no-run", "-V", "-h"],
        Runner::Pytest => &[
            "--co",
            "--collect-only",
            "--fixtures",
            "--fixtures-per-test",
            "--funcargs",
            "--markers",
            "--setup-only",
            "--setup-plan",
            "-V",
            "-h",
        ],
        Runner::Unittest => &["-h"],
        Runner::GoTest => &["-c", "-h", "-n"],
        Runner::Jest => &["--clearCache", "--init", "--listTests", "--showConfig", "-h", "-v"],
        Runner::Vitest => &["-h", "-v"],
        Runner::Mocha => &["--dry-run", "--list-interfaces", "--list-reporters", "-V", "-h"],
        Runner::NodeTest => &["--check", "-c", "-h", "-v"],
        // `-V` asks for more words of each test.
        Runner::Ctest => &["--print-labels", "--show-only", "-N"],
        // `-V` tells the version and goes on.
        Runner::Maven => &["-h", "-v"],
        Runner::Gradle => &["--dry-run", "-h", "-m", "-v"],
        Runner::DotnetTest => &["--list-tests", "-h", "-t"],
        Runner::Rspec => &["--dry-run", "--init", "-h", "-v"],
        Runner::Phpunit => {
            &["--list-groups", "--list-suites", "--list-tests", "--list-tests-xml", "-h"]
        }
    };
    let asks = |word: &&str| matches!(*word, "--help" | "--version") || options.contains(word);
    arguments.iter().any(asks)
}

/// Whether a command starts a runner that runs no test, whatever the workspace holds.
pub fn asks_for_no_test(words: &[&str]) -> bool {
    let words = without_wrappers(words);
    let Some((program, arguments)) = words.split_first() else { return false };
    let runner = runner_of(base_name(program), arguments);
    runner.is_some_and(|runner| runs_nothing(runner, arguments))
}
