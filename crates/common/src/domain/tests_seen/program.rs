//! Programs of a line: which runner one is.

use super::runner::Runner;
use crate::domain::shell_line::{base_name, is_python, options, unwrapped};

/// A command without what only prepares it: `env A=1`, `time`, `uv run`, `python -m`.
pub(super) fn without_wrappers<'w, 'a>(words: &'w [&'a str]) -> &'w [&'a str] {
    let words = unwrapped(words);
    let Some((program, rest)) = words.split_first() else { return words };
    let name = base_name(program);
    if name == "coverage" && rest.first() == Some(&"run") {
        return by_module(rest.get(1..).unwrap_or_default()).unwrap_or(words);
    }
    if is_python(name) { by_module(rest).unwrap_or(words) } else { words }
}

/// What Python starts: the words from a module's name on, where `-m` names a known one; none where it names no module.
fn by_module<'w, 'a>(rest: &'w [&'a str]) -> Option<&'w [&'a str]> {
    let at =
        options_before(rest, "-m", &["-W", "-X", "--source", "--rcfile", "--omit", "--include"]);
    let module = rest.get(at? + 1..).unwrap_or_default();
    Some(match module.first() {
        Some(&("pytest" | "unittest")) => module,
        Some(&"coverage") => without_wrappers(module),
        Some(_) | None => &[],
    })
}

/// The index of an option, where only options stand before it.
fn options_before(words: &[&str], wanted: &str, valued: &[&str]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if *word == wanted {
            return Some(at);
        }
        if !word.starts_with('-') {
            return None;
        }
        at += if valued.contains(word) { 2 } else { 1 };
    }
    None
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
