//! Arguments with which a runner prints no summary.

use super::runner::Runner;

/// Whether the arguments ask for a report without the usual summary.
pub(super) fn is_quiet(runner: Runner, arguments: &[&str]) -> bool {
    let any = |wanted: &dyn Fn(&str) -> bool| arguments.iter().any(|word| wanted(word));
    let short = |letter: char| {
        let of =
            |word: &&str| word.starts_with('-') && !word.starts_with("--") && word.contains(letter);
        arguments
            .iter()
            .filter(|word| of(word))
            .map(|word| word.matches(letter).count())
            .sum::<usize>()
    };
    let long = |name: &str| {
        any(&|word| {
            word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
        })
    };
    match runner {
        Runner::CargoTest => long("--format") || any(&|word| word == "-Z"),
        Runner::Nextest => {
            long("--message-format") || long("--final-status-level") || long("--status-level")
        }
        Runner::Pytest => {
            let quiet = arguments.iter().filter(|word| **word == "--quiet").count();
            short('q') + quiet > 1
                || any(&|word| word.contains("no:terminal") || word == "--no-summary")
        }
        Runner::Unittest => false,
        Runner::GoTest => {
            long("-json") || long("--json") || any(&|word| word == "-c" || word == "-exec")
        }
        Runner::Jest => {
            long("--json")
                || long("--reporters")
                || long("--outputFile")
                || long("--config")
                || any(&|word| word == "-c")
        }
        Runner::Vitest => {
            long("--reporter")
                || long("--reporters")
                || long("--config")
                || any(&|word| word == "-c")
        }
        Runner::Mocha => {
            long("--reporter") || long("--config") || any(&|word| word.starts_with("-R"))
        }
        Runner::NodeTest => long("--test-reporter"),
        Runner::Ctest => {
            long("--quiet") || any(&|word| matches!(word, "-Q" | "-S" | "-D" | "-M" | "-T"))
        }
        Runner::Rspec => any(&|word| {
            word.starts_with("-f")
                || word.starts_with("-o")
                || word.starts_with("--format")
                || word.starts_with("--out")
                || word.starts_with("-O")
                || word.starts_with("--options")
        }),
        Runner::Phpunit => {
            long("--testdox-text")
                || long("--printer")
                || long("--no-output")
                || long("--no-results")
                || long("--teamcity")
                || long("--log-teamcity")
        }
        // What these print depends on more than their arguments.
        Runner::Maven | Runner::Gradle | Runner::DotnetTest => true,
    }
}

/// The files that may ask a runner for a report without the usual summary, and the words with which they do.
pub(super) const fn quiet_configuration(
    runner: Runner,
) -> (&'static [&'static str], &'static [&'static str]) {
    match runner {
        Runner::Pytest => (
            &["pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"],
            &["-qq", "no:terminal", "no-summary", "-q -q"],
        ),
        Runner::Jest => (
            &[
                "package.json",
                "jest.config.js",
                "jest.config.ts",
                "jest.config.json",
                "jest.config.mjs",
                "jest.config.cjs",
            ],
            &["reporters"],
        ),
        Runner::Vitest => (
            &[
                "vitest.config.ts",
                "vitest.config.js",
                "vitest.config.mts",
                "vitest.config.mjs",
                "vite.config.ts",
                "vite.config.js",
                "vite.config.mts",
                "vite.config.mjs",
            ],
            &["reporter"],
        ),
        Runner::Mocha => (
            &[
                ".mocharc.js",
                ".mocharc.cjs",
                ".mocharc.json",
                ".mocharc.yaml",
                ".mocharc.yml",
                "package.json",
            ],
            &["reporter"],
        ),
        Runner::Rspec => (&[".rspec"], &["-f", "--format", "-o", "--out"]),
        Runner::Nextest => (&[".config/nextest.toml"], &["final-status-level"]),
        Runner::Phpunit => (&["phpunit.xml", "phpunit.xml.dist"], &["printerClass"]),
        Runner::CargoTest
        | Runner::Unittest
        | Runner::GoTest
        | Runner::NodeTest
        | Runner::Ctest
        | Runner::Maven
        | Runner::Gradle
        | Runner::DotnetTest => (&[], &[]),
    }
}

/// Whether a configuration has one of these words, comments apart.
pub(super) fn sets(text: &str, words: &[&str]) -> bool {
    let lines = text.lines().map(str::trim_start);
    let mut lines = lines.filter(|line| !line.starts_with(['#', '/']));
    lines.any(|line| words.iter().any(|word| line.contains(word)))
}
