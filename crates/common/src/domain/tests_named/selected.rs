//! The test files that a line selects.

use super::literal::literals;
use crate::domain::check_inputs::is_named;
use crate::domain::shell_line::{
    base_name, is_assignment, is_python, module_of_python, segments, unwrapped,
};

/// Modules of Python that run tests, and what stands behind them names tests.
const RUNNERS: &[&str] = &["coverage", "nose2", "pytest", "trial", "unittest", "xdist"];
/// Programs whose arguments are targets or scripts, and no files.
const TASKS: &[&str] = &[
    "ant", "bazel", "composer", "gmake", "gradle", "gradlew", "just", "make", "meson", "mvn",
    "mvnw", "ninja", "nox", "npm", "pnpm", "rake", "task", "tox", "yarn",
];
/// Long options of runners without a value. Behind any other one the next word may be its value.
const WITHOUT_VALUE: &[&str] = &[
    "--",
    "--all",
    "--bail",
    "--ci",
    "--doctest-modules",
    "--exitfirst",
    "--ff",
    "--last-failed",
    "--lf",
    "--no-cov",
    "--no-header",
    "--no-summary",
    "--quiet",
    "--release",
    "--runInBand",
    "--runxfail",
    "--silent",
    "--strict-config",
    "--strict-markers",
    "--test",
    "--verbose",
];
/// Short options of runners with a value.
const WITH_VALUE: &[&str] =
    &["-C", "-W", "-c", "-e", "-j", "-k", "-m", "-n", "-o", "-p", "-r", "-s", "-t"];

/// The files among these that a line names and that spell tests; all where there are none. What a line only mentions, such
/// as a variable, the value of an option or the argument of another command, selects nothing.
pub fn selected<'f>(line: &str, files: &'f [(String, String)]) -> Vec<&'f (String, String)> {
    let words = operands(line);
    let is_in_line = |file: &&(String, String)| {
        let module = file.0.strip_suffix(".py").map(|stem| stem.replace('/', "."));
        let is_of = |word: &String, module: &str| {
            word.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        words.iter().any(|word| {
            is_named(word, &file.0) || module.as_deref().is_some_and(|it| is_of(word, it))
        }) && !literals(&file.0, &file.1).is_empty()
    };
    let named: Vec<_> = files.iter().filter(is_in_line).collect();
    if named.is_empty() { files.iter().collect() } else { named }
}

/// The arguments of the commands of a line that may name tests.
fn operands(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for segment in segments(line) {
        let words = segment.words.iter().map(String::as_str);
        let words: Vec<&str> = words.skip_while(|word| is_assignment(word)).collect();
        let Some((program, arguments)) = unwrapped(&words).split_first() else { continue };
        let program = base_name(program);
        if TASKS.contains(&program) {
            continue;
        }
        let arguments = match module_of_python(unwrapped(&words)).filter(|_| is_python(program)) {
            Some((module, rest)) if RUNNERS.contains(&module) => rest,
            Some((module, _)) => {
                found.push(module.to_owned());
                continue;
            }
            None => arguments,
        };
        let mut is_value = false;
        for word in arguments {
            let takes_value = match word.starts_with("--") {
                true => !word.contains('=') && !WITHOUT_VALUE.contains(word),
                false => WITH_VALUE.contains(word),
            };
            if !word.starts_with('-') && !is_value {
                // Of a test in a file, the file.
                found.push(word.split("::").next().unwrap_or(word).to_owned());
            }
            is_value = takes_value;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_runner_is_given_selects_files() {
        let test = "def test_a():\n    pass\n".to_owned();
        let files = [
            ("calc.py".to_owned(), "def double(n): return n\n".to_owned()),
            ("src/calc/__init__.py".to_owned(), String::new()),
            ("test.py".to_owned(), String::new()),
            ("tests/slow/test_z.py".to_owned(), test.clone()),
            ("tests/test_a.py".to_owned(), test.clone()),
            ("tests/test_b.py".to_owned(), test),
        ];
        let of = |line: &str| {
            let named: Vec<&str> =
                selected(line, &files).iter().map(|(path, _)| path.as_str()).collect();
            named
        };
        let all: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        for line in [
            "python -m pytest -q",
            "PYTHONPATH=src python -m pytest -q",
            "python -m pytest -q --cov=calc",
            "python -m pytest -q --cov calc",
            "python -m pytest -q -o pythonpath=src",
            "python -m pytest -q --junitxml=calc.xml",
            "python -m compileall -q calc.py && python -m pytest -q",
            "python3 -m py_compile calc.py && python3 -m unittest",
            "pytest --ignore=tests/slow",
            "pytest --deselect tests/slow/test_z.py::test_z",
            "PYTHONPATH=calc python -m unittest",
            "python -m pytest -q calc.py",
            "make tests",
        ] {
            assert_eq!(of(line), all, "{line}");
        }
        for (line, expected) in [
            ("pytest -q tests/test_a.py", "tests/test_a.py"),
            ("pytest tests/test_a.py::test_a", "tests/test_a.py"),
            ("python3 -m unittest -v tests.test_b", "tests/test_b.py"),
            ("python3 -m unittest tests.test_b.TestB.test_c", "tests/test_b.py"),
            ("cd x && pytest --tb=short tests/slow", "tests/slow/test_z.py"),
        ] {
            assert_eq!(of(line), [expected], "{line}");
        }
    }
}
