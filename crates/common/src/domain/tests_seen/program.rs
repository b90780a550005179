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

/// What Python starts: a known module with its arguments, nothing for another one; none where it names no module.
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
        _ => Vec::new(),
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
        "unittest" => Some(Runner::Unittest),
        "go" => (first == "test" && !has("-list")).then_some(Runner::GoTest),
        "jest" => Some(Runner::Jest),
        "react-scripts" => (first == "test").then_some(Runner::Jest),
        "vitest" => (!matches!(first, "list" | "bench" | "init")).then_some(Runner::Vitest),
        "mocha" | "_mocha" => Some(Runner::Mocha),
        "node" | "nodejs" => has("--test").then_some(Runner::NodeTest),
        "ctest" => (!has("-N") && !has("--show-only")).then_some(Runner::Ctest),
        "mvn" | "mvnw" => maven(arguments).then_some(Runner::Maven),
        "gradle" | "gradlew" => {
            let task = |word: &&str| *word == "test" || word.ends_with(":test");
            arguments.iter().any(task).then_some(Runner::Gradle)
        }
        "dotnet" => (first == "test" && !has("-t")).then_some(Runner::DotnetTest),
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

/// Whether Maven is asked for tests themselves. A `package` or an `install` of a project without any
/// is in order.
fn maven(arguments: &[&str]) -> bool {
    let skips =
        |word: &&str| word.starts_with("-DskipTests") || word.starts_with("-Dmaven.test.skip");
    let tests = |word: &&str| matches!(*word, "test" | "surefire:test" | "integration-test");
    arguments.iter().any(tests) && !arguments.iter().any(skips)
}
