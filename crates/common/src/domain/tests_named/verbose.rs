//! A check's line, so that its runner names the tests.

use crate::domain::tests_seen::{Runner, is_single};

/// What pytest reads from its environment: it then names every test at the end.
const PYTEST: (&str, &str) = ("PYTEST_ADDOPTS", "-rA");

/// The logger on the console names the tests at this verbosity.
const DOTNET: &str = "dotnet test --logger 'console;verbosity=normal'";

/// A line that names its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// The line.
    pub line: String,
    /// What its environment has beside that of the check.
    pub environment: Vec<(&'static str, &'static str)>,
}

impl Naming {
    /// A line whose programs are heard by themselves. The listener asks runners that need an argument for the names.
    pub fn heard(line: String) -> Self {
        Self { line, environment: vec![PYTEST] }
    }
}

/// The line with which a runner names its tests. None where it has none, or where the line starts more than
/// this runner.
pub fn naming(line: &str, runner: Runner) -> Option<Naming> {
    let plain = |line: String| Some(Naming { line, environment: Vec::new() });
    let with = |option: &str| {
        let has = |wanted: &str| line.split_whitespace().any(|word| word == wanted);
        let end = if has(option) { String::new() } else { format!(" {option}") };
        let name = runner.as_str();
        let starts = has(name) || line.contains(&format!("/{name}"));
        (starts && is_single(line)).then(|| format!("{}{end}", line.trim_end())).and_then(plain)
    };
    match runner {
        Runner::Pytest => Some(Naming { line: line.to_owned(), environment: vec![PYTEST] }),
        Runner::Unittest => with("-v"),
        Runner::Jest => with("--verbose"),
        Runner::Vitest => with("--reporter=verbose"),
        Runner::GoTest => {
            let is_one = is_single(line) && line.matches("go test").count() == 1;
            is_one.then(|| line.replacen("go test", "go test -v", 1)).and_then(plain)
        }
        Runner::Gradle => with("--info"),
        Runner::Rspec => with("-fd"),
        Runner::Phpunit => with("--teamcity"),
        Runner::DotnetTest => {
            let is_one = is_single(line) && line.matches("dotnet test").count() == 1;
            is_one.then(|| line.replacen("dotnet test", DOTNET, 1)).and_then(plain)
        }
        Runner::CargoTest
        | Runner::Nextest
        | Runner::NodeTest
        | Runner::Mocha
        | Runner::Maven
        | Runner::Ctest => plain(line.to_owned()),
    }
}
